"""What goes wrong on real machines: each fault is one clear sentence, and `dvc repro` brings every byte back."""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest
import torch
from safetensors.torch import save

from stages import InputError, evaluate, files, render, render_studies, train, verify
from tests.conftest import OUTPUTS, ROOT

READS = {  # what each stage reads, and how to run it in this process
    "data/mixing.safetensors": lambda: train.main(0),
    "data/heldout/0.safetensors": lambda: train.main(0),
    "data/heldout/2.safetensors": evaluate.main,
    "models/1.safetensors": evaluate.main,
    "plots/training/0.csv": evaluate.main,
    "metrics/results.json": render.main,
}
DAMAGE = {
    "empty": lambda content: b"",
    "cut in half": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "random": lambda content: random.Random(0).randbytes(1000),
    "a bit flipped": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "another file": lambda content: b"seeds: [0, 1, 2]\n",
}


@pytest.fixture(scope="module")
def shared(trained, tmp_path_factory):
    """A reproduced project for many faults: each puts back what it damaged."""
    return trained.copy(tmp_path_factory.mktemp("shared") / "project")


@pytest.fixture
def damaged(shared, monkeypatch):
    """Work in the shared project; files written by `damaged(name, content)`, and all outputs, come back afterwards."""
    monkeypatch.chdir(shared.path)
    before = shared.contents(*OUTPUTS)
    yield lambda name, content: (shared.path / name).write_bytes(content)
    for name, content in before.items():
        (shared.path / name).write_bytes(content)


def refusal(run) -> str:
    with pytest.raises(InputError) as caught:
        run()
    message = str(caught.value)
    assert message.isprintable() and len(message) < 500
    return message


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", READS)
def test_a_damaged_file_is_named_and_harms_nothing(shared, damaged, name, damage):
    damaged(name, DAMAGE[damage]((shared.path / name).read_bytes()))
    before = shared.contents(*OUTPUTS)
    message = refusal(READS[name])
    assert message.startswith(name) and message.endswith("`dvc repro` makes it anew")
    assert shared.contents(*OUTPUTS) == before


GOOD = {"Wq": torch.zeros(9, 3, dtype=torch.float64), "Wv": torch.zeros(9, 3, dtype=torch.float64)}
BAD_TENSORS = {
    "Wq is float32 (9, 3), expected float64 (9, 3)": GOOD | {"Wq": GOOD["Wq"].float()},
    "Wv is float64 (3, 9), expected float64 (9, 3)": GOOD | {"Wv": GOOD["Wv"].T.contiguous()},
    "holds Wq, expected Wq, Wv": {"Wq": GOOD["Wq"]},
    "holds no tensors, expected Wq, Wv": {},
    "holds K, Wq, Wv, expected Wq, Wv": GOOD | {"K": GOOD["Wq"].clone()},
    "Wq holds NaN or infinity": GOOD | {"Wq": GOOD["Wq"] / 0},
    "Wv holds NaN or infinity": GOOD | {"Wv": GOOD["Wv"] + torch.inf},
    "KKK … KKK": {"K" * 1000 + "\n\x1b" + "K" * 1000: GOOD["Wq"]},
}


@pytest.mark.parametrize("named", BAD_TENSORS)
def test_wrong_tensors_are_named(damaged, named):
    damaged("models/1.safetensors", save(BAD_TENSORS[named]))
    message = refusal(evaluate.main)
    assert message.startswith("models/1.safetensors") and named in message


def test_measurements_beyond_all_numbers_are_refused(damaged):
    damaged("models/1.safetensors", save({name: tensor + 1e300 for name, tensor in GOOD.items()}))
    assert refusal(evaluate.main).startswith("metrics/")


@pytest.mark.parametrize(
    "rows",
    [
        "step,train_mse,heldout_mse\n",
        "step,heldout_mse\n1,0.5\n",
        "step,train_mse,heldout_mse\n1,0.5\n",
        "step,train_mse,heldout_mse\n1,0.5,0.5,0.5\n",
        "step,train_mse,heldout_mse\n1,0.5,NaN\n",
        "step,train_mse,heldout_mse\n1,0.5,1e999\n",
        "step,train_mse,heldout_mse\n1,0.5,true\n",
        "step,train_mse,heldout_mse\n1,0.5,-0.5\n",
        "step,train_mse,heldout_mse\n1.5,0.5,0.5\n",
        "step,train_mse,heldout_mse\n1,0.5," + "9" * 5000,
        "step,train_mse,heldout_mse\n1,0.5," + "[" * 5000,
        'step,train_mse,heldout_mse\n1,0.5,"""x"""\n',
        'step,train_mse,heldout_mse\n1,0.5,"0.5',
    ],
)
def test_a_trace_is_rows_of_finite_numbers(damaged, rows):
    damaged("plots/training/0.csv", rows.encode())
    assert "expected rows of numbers for step, train_mse, heldout_mse" in refusal(evaluate.main)


def changed(results: dict, path: list, value) -> dict:
    results = json.loads(json.dumps(results))
    place = results
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return results


WRONG_RESULTS = [
    ([], None),
    ([], 3),
    (["seeds"], {}),
    (["seeds"], []),
    (["seeds"], None),
    (["seeds", "1"], None),
    (["seeds", "1", "uniform", "mse"], "0.3"),
    (["seeds", "0", "query", "response"], [[1, 2], [3]]),
    (["seeds", "0", "query", "response"], [["a"] * 3] * 9),
    (["seeds", "0", "value", "response"], []),
    (["seeds", "0", "value"], 10**400),
    (["seeds"], {"$\\frac{$": json.loads((ROOT / "metrics/results.json").read_bytes())["seeds"]["0"]}),
    (["seeds"], {"00": json.loads((ROOT / "metrics/results.json").read_bytes())["seeds"]["0"]}),
    (["parameters"], {}),
    (["parameters", "interventions", "shift"], "5"),
    (["training"], []),
    (["training"], None),
    (["training"], [1]),
    (["training", 0, "step"], 10**400),
    (["parameters", "interventions", "shift"], 1e308),
    (["training", 0], {"seed": 0, "step": 1}),
]


@pytest.mark.parametrize(("path", "value"), WRONG_RESULTS, ids=lambda argument: str(argument)[:30])
def test_results_of_another_form_are_refused(shared, damaged, path, value):
    good = json.loads((shared.path / "metrics/results.json").read_bytes())
    damaged("metrics/results.json", json.dumps(changed(good, path, value) if path else value).encode())
    assert refusal(render.main).startswith("metrics/results.json is not what its stage writes")


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("population", ["training"], []),
        ("population", ["training", 0], {}),
        ("population", ["training", 0, "step"], 10**400),
        ("population", ["steps_to", "1e-6"], {}),
        ("population", ["steps_to"], {"x": None}),
        ("population", ["size"], 0),
        ("ablations/published", ["runs"], []),
        ("ablations/published", ["runs", 0], {}),
        ("ablations/published", ["runs", 0, "query"], None),
        ("ablations/published", ["theory"], []),
    ],
)
@pytest.mark.parametrize("stage", [render_studies, verify])
def test_studies_of_another_form_are_refused(shared, damaged, stage, name, path, value):
    good = json.loads((shared.path / f"metrics/{name}.json").read_bytes())
    damaged(f"metrics/{name}.json", json.dumps(changed(good, path, value)).encode())
    assert refusal(stage.main).startswith(f"metrics/{name}.json is not what its stage writes")


def one_sentence(result: subprocess.CompletedProcess) -> str:
    """The only line on standard error of a command that failed."""
    assert result.returncode == 1 and result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("error: ")
    return result.stderr


@pytest.mark.parametrize(
    ("command", "lost"),
    [
        ("evaluate", "plots/training/1.csv"),
        ("render", "metrics/results.json"),
    ],
)
def test_a_lost_file_is_named(shared, damaged, command, lost):
    (shared.path / lost).unlink()
    sentence = one_sentence(shared.run(f"python -m stages.{command}", check=False))
    assert sentence == f"error: [Errno 2] No such file or directory: '{lost}'\n"


@pytest.mark.parametrize(("rank", "size"), [("5", "2"), ("0", "0"), ("abc", "2"), ("0", "9" * 5000)])
def test_ranks_that_torchrun_would_not_set(fresh, rank, size):
    result = fresh.run("python -c 'import stages.ranks'", check=False, RANK=rank, WORLD_SIZE=size)
    assert "WORLD_SIZE" in (sentence := one_sentence(result)) or "RANK" in sentence


def test_a_closed_standard_error_is_no_fault(shared, damaged):
    before = shared.contents("models/0.safetensors")
    shared.run("python -m stages.train 0 2>&-")
    assert shared.contents("models/0.safetensors") == before


def test_too_little_memory_is_one_sentence(fresh):
    ask = "import stages, torch; torch.empty(2**60)"
    assert "smaller batch_size" in one_sentence(fresh.run(f"python -c '{ask}'", check=False))


@pytest.mark.parametrize(
    ("command", "module"), [("generate", "msgspec"), ("train 0", "tqdm"), ("render", "matplotlib")]
)
def test_a_missing_library_names_the_remedy(shared, tmp_path, command, module):
    (tmp_path / f"{module}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{module}'\", name='{module}')"
    )
    sentence = one_sentence(shared.run(f"python -m stages.{command}", check=False, PYTHONPATH=str(tmp_path)))
    assert module in sentence and "pip install -r requirements.txt" in sentence


@pytest.mark.parametrize(
    ("command", "mount", "named"),
    [
        ("generate", "-o size=64k none data", "[Errno 28] No space left on device: 'data/heldout/0.safetensors'"),
        ("train 0", "-o ro none models", "[Errno 30] Read-only file system: 'models/0.safetensors"),
    ],
    ids=["full disk", "read-only directory"],
)
def test_a_file_that_cannot_be_written_is_named(shared, command, mount, named):
    mounts = "unshare --map-root-user --mount"  # a mount namespace of its own: nothing to undo
    if shutil.which("unshare") is None or subprocess.run(f"{mounts} mount -t tmpfs none /mnt", shell=True).returncode:
        pytest.skip("this user may not mount a file system")
    before = shared.contents(*OUTPUTS)
    script = f"mount -t tmpfs {mount} && trap 'find data models -name *.tmp' EXIT && python -m stages.{command}"
    result = shared.run(f'{mounts} sh -c "{script}"', check=False)
    assert f"error: {named}" in one_sentence(result)
    assert result.stdout == ""
    assert shared.contents(*OUTPUTS) == before


def test_only_files_of_what_is_not_listed_are_deleted(tmp_path):
    for name in ("0.csv", "1.csv", "1.json"):
        (tmp_path / name).touch()
    (tmp_path / "x.csv").mkdir()
    files.discard(tmp_path, ".csv", lambda name: name != "0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.csv", "1.json", "x.csv"]


def test_a_failed_write_keeps_the_file_and_leaves_no_other(tmp_path, monkeypatch):
    files.write(tmp_path / "results.json", b"good")
    monkeypatch.setattr(
        "pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(OSError, match=r"No space left on device: '.*results\.json'"):
        files.write(tmp_path / "results.json", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("results.json", b"good")]


@pytest.mark.slow
def test_damage_everywhere_is_undone_by_repro(project):
    """Outputs and DVC's cache alike: what cannot be trusted is made anew."""
    before = project.contents(*OUTPUTS)
    for number, name in enumerate(sorted(set(before) - {"dvc.lock"})):
        path = project.path / name
        if number % len(DAMAGE) == 0:
            path.unlink()
        else:
            path.write_bytes(list(DAMAGE.values())[number % len(DAMAGE)](before[name]))
    for number, path in enumerate(sorted(project.path.glob(".dvc/cache/files/md5/*/*"))):
        path.chmod(0o644)
        path.write_bytes(list(DAMAGE.values())[number % len(DAMAGE)](path.read_bytes()))
    project.repro()
    assert project.contents(*OUTPUTS) == before
    assert project.run("git status --porcelain").stdout == ""
    assert project.run("dvc status").stdout == "Data and pipelines are up to date.\n"


def start(project, command: str) -> subprocess.Popen:
    """Start a command in a process group of its own, as a terminal does, and wait until it runs a stage."""
    process = subprocess.Popen(
        f"exec {command}",
        shell=True,
        cwd=project.path,
        env=project.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not process.stdout.readline().startswith("> python"):
        assert process.poll() is None, process.stderr.read()
    return process


@pytest.mark.parametrize("kind", ["SIGINT", "SIGKILL"])
def test_an_interrupted_repro_is_resumed(project, kind):
    before = project.contents(*OUTPUTS)
    for stage in ("generate", "evaluate"):
        process = start(project, f"dvc repro --force --single-item {stage}")
        time.sleep(
            random.Random(f"{kind} {stage}").uniform(0.3, 0.8)
        )  # past the start of Python, before the end of the stage
        os.killpg(process.pid, signal.Signals[kind])
        _, errors = process.communicate()
        assert process.returncode != 0
        assert "Traceback" not in errors
    project.repro()
    assert project.contents(*OUTPUTS) == before
    assert project.run("git status --porcelain").stdout == ""


def test_a_second_repro_says_it_is_not_alone(project):
    before = project.contents(*OUTPUTS)
    first = start(project, "dvc repro --force --single-item generate")
    second = project.run("dvc repro --force", check=False)
    _, errors = first.communicate()
    assert second.returncode != 0
    assert f"(PID {first.pid})" in second.stderr
    assert first.returncode == 0, errors
    assert project.contents(*OUTPUTS) == before


def test_without_git_the_sentence_is_dvcs_own_and_one_setting_goes_without(project):
    shutil.rmtree(project.path / ".git")
    refused = project.run("dvc repro", check=False)
    assert refused.returncode != 0
    assert refused.stderr.strip() == f"ERROR: {project.path} is not a git repository"
    project.run("dvc config --local core.no_scm true")
    assert project.repro() == []
