"""The results are the same bits on every x86-64 CPU since Haswell, whatever the user's environment says.

`pytest -m emulated` runs the proof on other CPUs, which takes minutes.
"""

import platform
import shlex
import shutil
import sys

import pytest

from tests.conftest import OUTPUTS, Project

RESULTS = OUTPUTS[:-1]  # all but dvc.lock, which DVC writes
QEMU = "qemu-x86_64"

# Every stage in one process, because loading PyTorch takes longest under emulation.
RUN = """
import runpy, sys
for command in sys.argv[1:]:
    python, option, module, *arguments = command.split()
    assert (python, option) == ("python", "-m")
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def rerun(project: Project, python: str, **env: str) -> dict[str, bytes]:
    """Every stage's results, after running all commands of dvc.yaml by `python` with nothing there to start from."""
    plan = project.run("dvc repro --force --dry").stdout
    commands = [line.removeprefix("> ") for line in plan.splitlines() if line.startswith("> ")]
    for name in project.contents(*RESULTS):
        (project.path / name).unlink()
    project.run(f"{python} -c {shlex.quote(RUN)} {shlex.join(commands)}", **env)
    return project.contents(*RESULTS)


def different(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


@pytest.mark.emulated
@pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which(QEMU),
    reason=f"emulates other CPUs with {QEMU} (Debian package qemu-user) on an x86-64 host",
)
@pytest.mark.parametrize("cpu", ["Haswell", "EPYC-Milan"])
def test_on_another_cpu(trained, tmp_path, cpu):
    found = rerun(trained.copy(tmp_path / cpu), f"{QEMU} -cpu {cpu} {shlex.quote(sys.executable)}")
    assert different(found, trained.contents(*RESULTS)) == []


def test_in_a_hostile_environment(trained, tmp_path):
    project = trained.copy(tmp_path / "тека з пробілами")
    (project.path / "matplotlibrc").write_text("image.lut: 4\nlines.linewidth: 7\n")
    found = rerun(
        project,
        "umask 077; python",
        ATEN_CPU_CAPABILITY="avx2",
        LC_ALL="C",
        MKL_CBWR="AVX2",
        MKL_NUM_THREADS="2",
        MPLBACKEND="module://matplotlib_inline.backend_inline",
        OMP_NUM_THREADS="2",
        PYTHONHASHSEED="1",
        PYTHONUTF8="0",
        SOURCE_DATE_EPOCH="0",
        TORCH_LOGS="nonsense",
        TQDM_MININTERVAL="nonsense",
        TZ="Asia/Kathmandu",
    )
    assert different(found, trained.contents(*RESULTS)) == []


def test_kernels_are_not_chosen_by_cpu_model(fresh):
    """CPUs that would choose the same kernels cannot tell."""
    show = "import stages, torch; print(torch.backends.cpu.get_cpu_capability())"
    assert fresh.run(f"python -c '{show}'", ATEN_CPU_CAPABILITY="avx2").stdout == "DEFAULT\n"


def test_a_cpu_hidden_from_the_c_library_is_refused(fresh):
    result = fresh.run("python -m stages.params", check=False, GLIBC_TUNABLES="glibc.cpu.hwcaps=-FMA")
    assert result.returncode == 1
    assert result.stderr.startswith("error: GLIBC_TUNABLES hides") and result.stderr.count("\n") == 1
