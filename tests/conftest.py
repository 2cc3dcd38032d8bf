"""A temporary clone of the project, real Git and real DVC, for the tests that run the pipeline."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stages  # noqa: F401  before anything loads torch
from stages import params

ROOT = Path(__file__).parents[1]
FEW_STEPS = 30
ABLATIONS = params.load(ROOT / "params.yaml").ablations
UNUSED_ABLATIONS = [name for name in ABLATIONS if name != "published"]


class Project:
    """A Git and DVC repository at `path`."""

    def __init__(self, path: Path):
        self.path = path

    def run(self, command: str, check: bool = True, **env: str) -> subprocess.CompletedProcess:
        """Run a shell command in the project as a user with the environment activated would; its output is text."""
        result = subprocess.run(
            command,
            shell=True,
            cwd=self.path,
            env=self.environment(**env),
            capture_output=True,
            text=True,
        )
        assert not check or result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
        return result

    def environment(self, **env: str) -> dict[str, str]:
        return (
            os.environ
            | {
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "DVC_SITE_CACHE_DIR": str(self.path.parent / "site-cache"),
                "GIT_AUTHOR_NAME": "A Reader",
                "GIT_AUTHOR_EMAIL": "reader@example.org",
                "GIT_COMMITTER_NAME": "A Reader",
                "GIT_COMMITTER_EMAIL": "reader@example.org",
            }
            | env
        )

    def replace(self, name: str, old: str, new: str) -> None:
        """Edit a file, which must contain `old`."""
        path = self.path / name
        text = path.read_text()
        assert old in text, f"{name} does not contain {old!r}"
        path.write_text(text.replace(old, new))

    def repro(self) -> list[str]:
        """Run `dvc repro`; the stages whose command it ran."""
        output = self.run("dvc repro").stdout
        return [line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage")]

    def contents(self, *patterns: str) -> dict[str, bytes]:
        """The bytes of every file that matches a pattern, by its name."""
        return {
            str(path.relative_to(self.path)): path.read_bytes()
            for pattern in patterns
            for path in sorted(self.path.glob(pattern))
            if path.is_file()
        }

    def copy(self, path: Path) -> "Project":
        shutil.copytree(self.path, path, symlinks=True)
        return Project(path)


def pytest_collection_modifyitems(items):
    """First the tests that share a reproduced project: while one test process makes it, the others do the rest."""
    items.sort(key=lambda item: "trained" not in item.fixturenames)


OUTPUTS = ("data/**/*", "models/*", "metrics/**/*", "plots/**/*", "dvc.lock")


@pytest.fixture(scope="session")
def fresh(tmp_path_factory) -> Project:
    """The project as it is in the working tree, committed: nothing run, nothing in DVC's cache."""
    project = Project(tmp_path_factory.mktemp("fresh") / "project")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if (ROOT / name).is_file():
            (project.path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, project.path / name)
    project.run("git init -q -b main && git add -A && git commit -q -m 'The project'")
    return project


@pytest.fixture(scope="session")
def trained(fresh, tmp_path_factory, worker_id) -> Project:
    """The project with few training steps, reproduced and committed. Not to be changed: copy it, or use `project`."""
    temporary = tmp_path_factory.getbasetemp()
    place = temporary if worker_id == "master" else temporary.parent  # which test processes side by side share
    with (place / "trained.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "trained/done").exists():
            few_steps(fresh.copy(place / "trained/project"))
            (place / "trained/done").touch()
    return Project(place / "trained/project")


def few_steps(project: Project) -> None:
    project.replace("params.yaml", "steps: 1200", f"steps: {FEW_STEPS}")
    project.replace("params.yaml", "size: 64", "size: 1")
    for name in UNUSED_ABLATIONS:
        project.replace("params.yaml", f"- {name}\n", "")
        (project.path / f"metrics/ablations/{name}.json").unlink()
    project.repro()
    project.run("git add -A && git commit -q -m 'Few steps'")


@pytest.fixture
def project(trained, tmp_path) -> Project:
    """A reproduced project with few training steps, to be changed at will."""
    return trained.copy(tmp_path / "project")


@pytest.fixture(scope="session")
def mixing():
    """A random orthogonal matrix (9, 9), not the project's."""
    import torch

    from stages.task import draw_mixing

    return draw_mixing(torch.Generator().manual_seed(123))
