"""The parameters, `params.yaml`: their types and ranges, checked in this one place."""

import re
import reprlib
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent

from stages import InputError

LARGEST_FILE = 20_000  # bytes

Seed = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Variant = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]*\Z")]  # which there are, stages/variants.py says


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Mixing(_Section):
    seed: Seed


class Train(_Section):
    lr: Annotated[float, Meta(gt=0, le=1000)]
    steps: Annotated[int, Meta(ge=1, le=1_000_000)]
    batch_size: Annotated[int, Meta(ge=1, le=10_000)]


class Interventions(_Section):
    shift: Annotated[float, Meta(ge=-1e6, le=1e6)]

    def __post_init__(self):
        if abs(self.shift) < 1e-3:
            raise ValueError(f"shift is {self.shift:g}, expected at least 0.001 away from 0")


class Population(_Section):
    size: Annotated[int, Meta(ge=1, le=10_000)]


class Params(_Section):
    seeds: Annotated[list[Seed], Meta(min_length=1)]
    mixing: Mixing
    train: Train
    interventions: Interventions
    studies: Train
    population: Population
    ablations: Annotated[list[Variant], Meta(min_length=1)]
    launcher: Annotated[str, Meta(pattern=r"^(python|torchrun( .*)?)\Z")]

    def __post_init__(self):
        for name, listed in (("seeds", self.seeds), ("ablations", self.ablations)):
            twice = sorted({item for item in listed if listed.count(item) > 1})
            if twice:
                raise ValueError(f"{name} names {twice[0]} twice, each may stand there once")


def load(path: str | Path = "params.yaml") -> Params:
    """Read and check the parameters.

    Raises InputError, in one sentence, for a file that cannot be read as YAML and for any unknown, missing,
    ill-typed or out-of-range value; OSError if there is no such file.
    """
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        found = "empty" if raw is None else reprlib.repr(raw)
        raise InputError(f"{path} is {found}, expected the keys {', '.join(Params.__struct_fields__)}")
    try:
        return msgspec.convert(raw, Params)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {_explain(error, raw)}") from error


def read_yaml(path: str | Path):
    """Read plain YAML 1.2 by the parser that DVC has, so that 1e-2 or 010 means the same to both. Raises as `load`."""
    with Path(path).open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise InputError(f"{path} is larger than {LARGEST_FILE} bytes, expected a few lines")
    try:
        return _plain(_parse(content.decode("utf-8-sig")))
    except Exception as error:  # of many kinds: a bad tag alone can be a ValueError, KeyError or AttributeError
        raise InputError(f"{path} is not plain YAML in UTF-8: {_problem(error)}") from error


def _parse(text: str):
    for event in YAML(typ="safe").parse(text):
        if isinstance(event, AliasEvent):  # a few lines of them can stand for gigabytes
            raise MarkedYAMLError(problem="found an alias, expected each value in full", problem_mark=event.start_mark)
    return YAML(typ="safe").load(text)


def _problem(error: Exception) -> str:
    if not isinstance(error, MarkedYAMLError):
        return str(error)
    problem = error.problem.partition(" with value")[0]  # of a duplicate key, shown wrongly for a list
    return f"line {error.problem_mark.line + 1}: " + ", ".join(filter(None, [error.context, problem]))


def _explain(error: msgspec.ValidationError, raw) -> str:
    """'Expected `float` > 0.0 - at `$.train.lr`' becomes 'train.lr is -1, expected `float` > 0.0'."""
    problem, place = re.fullmatch(r"(.+?)(?: - at `\$([^`]*)`)?", str(error), re.DOTALL).groups("")
    key = place.strip(".")
    section = Params.__annotations__.get(key) if key else Params
    if problem.startswith("Object"):  # an unknown or a missing key
        section = section or Params  # the key itself may look like a place
        problem += f", expected {', '.join(section.__struct_fields__)}"
    if section and not problem.startswith("Expected"):
        return f"{key}: {problem}" if key else problem
    found = raw
    for part in re.findall(r"\w+", key):
        found = found[int(part) if isinstance(found, list) else part]
    return f"{key} is {reprlib.repr(found)}, {problem[0].lower()}{problem[1:]}"


def _plain(node):
    """1.2e3 steps are 1200 steps. Lists stay as they are: DVC names a stage after each item as it is written."""
    if isinstance(node, set):  # which YAML writes as a mapping without values
        node = dict.fromkeys(node)
    if isinstance(node, dict):
        return {str(key): _plain(value) for key, value in node.items()}
    return int(node) if isinstance(node, float) and node.is_integer() else node


if __name__ == "__main__":
    print(msgspec.json.format(msgspec.json.encode(load())).decode())
