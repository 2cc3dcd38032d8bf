"""The README: its commands run, its numbers are those of metrics/."""

import json
import re
import time

from tests.conftest import OUTPUTS, ROOT, Project

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
INSTALL, TEST, *COMMANDS = [text.strip() for language, text in BLOCKS if language == "sh"]


def test_ci_runs_the_two_commands_as_they_stand_here():
    ci = (ROOT / ".ci/run").read_text()
    assert INSTALL in ci and TEST == "pytest" and f"\n{TEST}\n" in ci


def test_every_other_command_runs(project):
    before = project.contents(*OUTPUTS)
    for block in COMMANDS:
        output = project.run(f"set -e\n{block}").stdout
        if block == "dvc metrics show":
            assert len(output.splitlines()) == 1 + 3
        if "verify --against" in block:
            assert "different, as it should be" in output
        if block.startswith("git restore"):
            assert project.contents(*OUTPUTS) == before
            assert project.run("git status --porcelain").stdout == ""
        if "queue start" in block:
            wait_for_the_queue(project)
        if "exp show" in block:
            assert {"sweep-1", "sweep-2"} <= set(re.findall(r"sweep-\d", output))
            assert "lr: 0.01" in (project.path / "params.yaml").read_text()
        if "dvc pull" in block:
            a_clone_that_pulls_trains_nothing(project)


def wait_for_the_queue(project):
    for _ in range(300):
        status = project.run("dvc queue status").stdout
        if "Running" not in status and "Queued" not in status:
            break
        time.sleep(1)
    assert status.count("Success") == 2, status


def a_clone_that_pulls_trains_nothing(project):
    project.run("git add -A && git commit -qm 'Keep the experiment'")
    clone = Project(project.path.parent / "clone")
    project.run(f"git clone -q . {clone.path}")
    clone.run("dvc remote add --local --default store ../store && dvc pull")
    assert clone.repro() == []


def test_the_table_of_seeds_is_that_of_dvc(fresh):
    (shown,) = [text for language, text in BLOCKS if language == "text"]
    assert shown == fresh.run("dvc metrics show").stdout


def test_the_graph_is_that_of_dvc(fresh):
    (graph,) = [text for language, text in BLOCKS if language == "mermaid"]
    assert graph == fresh.run("dvc dag --mermaid").stdout.rstrip() + "\n"


def test_the_table_of_claims_is_that_of_verify():
    from stages.verify import table

    claims = json.loads((ROOT / "metrics/claims.json").read_text())
    shown = re.search(r"<!-- claims -->\n(.*?)<!-- /claims -->", README, re.DOTALL)[1]
    assert shown == f"{table(claims['claims'])}\n\n{claims['held']} of {claims['total']} claims hold.\n"


def test_every_linked_file_exists():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("http")]
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []
