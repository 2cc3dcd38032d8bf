"""No undeclared dependency: what every stage really reads and writes is what dvc.yaml declares, no less and no more.

Each stage runs once under Python's audit hook, which sees every file that Python opens, modules included. Files that
native code opens by itself it cannot see; the stages hand such code bytes.
"""

import json
import shlex
import shutil

import pytest

# Prints, for every stage, its command and what it declares.
DECLARED = """
import json
from dvc.dependency import ParamsDependency
from dvc.repo import Repo

stages = {}
for stage in Repo().index.stages:
    params = [dep for dep in stage.deps if isinstance(dep, ParamsDependency)]
    stages[stage.addressing] = {
        "cmd": stage.cmd,
        "deps": [dep.def_path for dep in stage.deps if dep not in params],
        "params": [name for dep in params for name in dep.params],
        "outs": [out.def_path for out in stage.outs],
    }
print(json.dumps(stages))
"""

# Runs `python -m <module> <arguments>` and writes what it read and wrote to the file named first.
RECORD = """
import json, os, runpy, sys, sysconfig
import msgspec

report, python, option, module, *arguments = sys.argv[1:]
assert (python, option) == ("python", "-m")
root = os.getcwd() + os.sep
libraries = (sysconfig.get_path("purelib") + os.sep, sysconfig.get_path("platlib") + os.sep)
used = {"deps": set(), "params": set(), "outs": set(), "deleted": set()}

def note(kind, path):
    path = os.path.abspath(os.fsdecode(path))
    if path.startswith(libraries):
        used["deps"].add("requirements.txt")  # stands for the libraries
    elif path.startswith(root) and path != root + "params.yaml":
        used[kind].add(path.removeprefix(root))

def hook(event, args):
    if event == "open" and not isinstance(args[0], int):
        if args[2] & (os.O_WRONLY | os.O_RDWR):
            note("outs", args[0])
        elif os.path.exists(args[0]):  # Python also tries the bytecode of a module
            note("deps", args[0])
    elif event == "os.rename":
        used["outs"].discard(os.path.relpath(args[0]))
        note("outs", args[1])
    elif event == "os.remove" and os.path.exists(args[0]):
        note("deleted", args[0])

class Recorded:
    "A section of the parameters that notes which of its values are read."
    def __init__(self, section, prefix=""):
        self.section, self.prefix = section, prefix
    def __getattr__(self, key):
        value = getattr(self.section, key)
        if isinstance(value, msgspec.Struct):
            return Recorded(value, f"{self.prefix}{key}.")
        used["params"].add(self.prefix + key)
        return value
    def read_all(self):
        for key in self.section.__struct_fields__:
            value = getattr(self, key)
            if isinstance(value, Recorded):
                value.read_all()
        return self.section

convert, to_builtins = msgspec.convert, msgspec.to_builtins
def recorded(raw, kind, **options):
    converted = convert(raw, kind, **options)
    return Recorded(converted) if kind.__name__ == "Params" else converted

msgspec.convert = recorded
msgspec.to_builtins = lambda value: to_builtins(value.read_all() if isinstance(value, Recorded) else value)

sys.argv = [module, *arguments]
sys.addaudithook(hook)
runpy.run_module(module, run_name="__main__", alter_sys=True)
with open(report, "w") as file:
    json.dump({kind: sorted(names) for kind, names in used.items()}, file)
"""

KINDS = ("deps", "params", "outs")


@pytest.fixture(scope="module")
def stages(trained, tmp_path_factory) -> dict[str, tuple[dict, dict]]:
    """What each stage declares and what it used, by its name; of a matrix its first stage only."""
    directory = tmp_path_factory.mktemp("declarations")
    project = trained.copy(directory / "project")
    project.replace("params.yaml", "- 2\n", "")  # leaves files of seed 2 to delete
    for cache in project.path.rglob("__pycache__"):
        shutil.rmtree(cache)  # so that Python opens the modules themselves
    found = {}
    for name, declared in json.loads(project.run(f"python -c {shlex.quote(DECLARED)}").stdout).items():
        if not any(name.split("@")[0] == other.split("@")[0] for other in found):
            report = directory / f"{name}.json"
            project.run(f"python -B -c {shlex.quote(RECORD)} {shlex.quote(str(report))} {declared['cmd']}")
            found[name] = declared, json.loads(report.read_bytes())
    return found


def within(path: str, declared: str) -> bool:
    return path == declared or path.startswith(declared + "/")


def mismatch(used: list[str], declared: list[str]) -> set[str]:
    """What is used and not declared, and what is declared and not used. A directory stands for every file in it."""
    undeclared = {path for path in used if not any(within(path, name) for name in declared)}
    return undeclared | {name for name in declared if not any(within(path, name) for path in used)}


def test_declared_is_used_and_used_is_declared(stages):
    assert {
        (name, kind): found
        for name, (declared, used) in stages.items()
        for kind in KINDS
        if (found := mismatch(used[kind], declared[kind]))
    } == {}


def test_only_declared_files_are_deleted(stages):
    deleted = {name: used["deleted"] for name, (_, used) in stages.items()}
    assert deleted["evaluate"] == ["models/2.safetensors", "plots/training/2.csv"]
    for name, (declared, used) in stages.items():
        for path in used["deleted"]:
            assert any(within(path, place) for place in declared["deps"] + declared["outs"]), f"{name} deletes {path}"


def test_every_declaration_would_be_missed(stages):
    for declared, used in stages.values():
        for kind in KINDS:
            for name in declared[kind]:
                found = mismatch(used[kind], [other for other in declared[kind] if other != name])
                assert found and all(within(path, name) for path in found), (name, found)
