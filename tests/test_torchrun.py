"""The studies under torchrun, with real ranks on this machine: the bytes of one process; what a killed rank does."""

import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest
import torch

from stages import ablate, population, tensors
from stages.population import GROUP
from stages.task import KEYS
from tests.conftest import ROOT

pytestmark = pytest.mark.slow
STEPS = 60
ALONE = ("--standalone",)  # on this machine, and on a free port
LEARNED_KEYS, POPULATION = "metrics/ablations/learned-keys.json", "metrics/population.json"
RESTART = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # README, "More than one machine"


def prepare(path, mixing, steps=STEPS):
    """The inputs of the studies; three groups of runs, the last of two, so that ranks get unequal shares."""
    text = (ROOT / "params.yaml").read_text()
    text = text.replace("size: 64 ", f"size: {2 * GROUP + 2} ").replace("steps: 1200 ", f"steps: {steps} ")
    assert f"size: {2 * GROUP + 2} " in text and f"steps: {steps} " in text
    path.mkdir(exist_ok=True)
    (path / "params.yaml").write_text(text)
    tensors.save(path / "data/mixing.safetensors", mixing=mixing, keys=torch.tensor(KEYS, dtype=torch.float64))


def torchrun(path, *arguments, **env):
    """Start it as a user would."""
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *arguments],
        cwd=path,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def kill_a_rank(launched, ranks) -> int:
    """Kill one of the ranks once it is connected to all others, as it begins to train; its process id."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        for child in psutil.Process(launched.pid).children():
            links = [link for link in child.net_connections("tcp") if link.status == psutil.CONN_ESTABLISHED]
            if len(links) >= ranks:  # the other ranks, and the rendezvous
                child.send_signal(signal.SIGKILL)
                return child.pid
        time.sleep(0.02)
    raise AssertionError("the ranks did not connect")


def written(path):
    return {str(found.relative_to(path)): found.read_bytes() for found in path.rglob("metrics/**/*") if found.is_file()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory, mixing):
    """What one process writes."""
    path = tmp_path_factory.mktemp("alone")
    prepare(path, mixing)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        population.main()
        ablate.main("learned-keys")
    files = written(path)
    assert set(files) == {LEARNED_KEYS, POPULATION}
    return files


def test_two_ranks_write_the_same_bytes(expected, tmp_path, mixing):
    prepare(tmp_path, mixing)
    launched = torchrun(tmp_path, *ALONE, "--nproc-per-node=2", "-m", "stages.ablate", "learned-keys")
    output, _ = launched.communicate(timeout=120)
    assert launched.returncode == 0, output
    assert written(tmp_path) == {LEARNED_KEYS: expected[LEARNED_KEYS]}
    assert output.count("predictions of theory held") == 1


def test_two_nodes_write_the_same_bytes(expected, tmp_path, mixing):
    """Two launchers as on two machines that share the project's directory, found by their rendezvous."""
    prepare(tmp_path, mixing)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    meeting = ("--rdzv-backend=c10d", "--rdzv-id=population", f"--rdzv-endpoint=localhost:{port}")
    options = ("--nnodes=2", "--nproc-per-node=1", *meeting, "-m", "stages.population")
    nodes = [torchrun(tmp_path, *options) for _ in range(2)]
    outputs = [node.communicate(timeout=120)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], outputs
    assert written(tmp_path) == {POPULATION: expected[POPULATION]}
    assert "".join(outputs).count("runs recovered") == 1


def test_three_ranks_recover_from_a_killed_one(expected, tmp_path, mixing):
    prepare(tmp_path, mixing)
    options = (*ALONE, "--nproc-per-node=3", "--max-restarts=1", "-m", "stages.population")
    launched = torchrun(tmp_path, *options, **RESTART)
    killed = kill_a_rank(launched, 3)
    output, _ = launched.communicate(timeout=120)
    assert launched.returncode == 0, output
    assert f"pid: {killed}" in output
    assert written(tmp_path) == {POPULATION: expected[POPULATION]}
    assert output.count("runs recovered") == 1


def test_a_killed_rank_ends_the_run_and_leaves_nothing(tmp_path, mixing):
    prepare(tmp_path, mixing, steps=100_000)
    launched = torchrun(tmp_path, *ALONE, "--nproc-per-node=2", "-m", "stages.population")
    killed, since = kill_a_rank(launched, 2), time.monotonic()
    output, _ = launched.communicate(timeout=100)
    assert time.monotonic() - since < 60
    assert launched.returncode != 0
    assert f"Signal 9 (SIGKILL) received by PID {killed}" in output
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["mixing.safetensors", "params.yaml"]
