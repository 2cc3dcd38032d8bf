"""The parameters, `params.yaml`: their types and ranges, checked in this one place."""

import re
import reprlib
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
import yaml
from msgspec import Meta

from stages import InputError

LARGEST_FILE = 100_000  # bytes

ABLATIONS = (  # of stages/variants.py, which takes too long to load here
    "published",
    "learned-keys",
    "three-keys",
    "learned-output",
    "noisy-targets",
    "float32",
    "large-init",
    "long-adam",
    "long-amsgrad",
    "correlated-latents",
    "non-orthogonal-mixing",
)

Seed = Annotated[int, Meta(ge=0, le=2**32 - 1)]


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
    population: Population
    ablations: Annotated[list[str], Meta(min_length=1)]
    launcher: Annotated[str, Meta(pattern=r"^(python|torchrun( .*)?)$")]

    def __post_init__(self):
        for name, listed in (("seeds", self.seeds), ("ablations", self.ablations)):
            twice = sorted({item for item in listed if listed.count(item) > 1})
            if twice:
                raise ValueError(f"{name} names {twice[0]} twice, each may stand there once")
        unknown = [name for name in self.ablations if name not in ABLATIONS]
        if unknown:
            raise ValueError(f"ablations names {reprlib.repr(unknown[0])}, expected some of {', '.join(ABLATIONS)}")


def load(path: str | Path = "params.yaml") -> Params:
    """Read and check the parameters.

    Raises InputError, in one sentence, for a file that cannot be read as YAML and for any unknown, missing,
    ill-typed or out-of-range value; OSError if there is no such file.
    """
    with Path(path).open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise InputError(f"{path} is larger than {LARGEST_FILE} bytes, which no set of parameters is")
    try:
        raw = yaml.load(content.decode("utf-8-sig"), _Yaml12)
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{path} is not valid YAML in UTF-8: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise InputError(f"{path} is nested too deeply") from None
    try:
        return msgspec.convert(_whole_numbers(raw), Params)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {_explain(error, raw)}") from error


def _explain(error: msgspec.ValidationError, raw) -> str:
    """'Expected `float` > 0.0 - at `$.train.lr`' becomes 'train.lr is -1, expected `float` > 0.0'."""
    problem, _, place = str(error).partition(" - at `$")
    key = place.strip(".`")
    if not problem.startswith("Expected"):
        section = Params.__annotations__.get(key)
        if problem.startswith("Object"):  # an unknown or a missing key
            problem += f", expected {', '.join((section or Params).__struct_fields__)}"
        return f"{key}: {problem}" if section else problem
    found = raw
    for part in re.findall(r"\w+", key):
        found = found[int(part) if isinstance(found, list) else part]
    return f"{key or 'the document'} is {reprlib.repr(found)}, e{problem[1:]}"


def _whole_numbers(node):
    """1.2e3 steps are 1200 steps. Lists stay as they are: DVC names a stage after each item as it is written."""
    if isinstance(node, dict):
        return {key: _whole_numbers(value) for key, value in node.items()}
    return int(node) if isinstance(node, float) and node.is_integer() else node


class _Yaml12(yaml.SafeLoader):
    """Plain YAML 1.2, as DVC reads it: 1e-2 is a number, 010 is ten, `yes` is text; a key may stand only once."""

    yaml_implicit_resolvers: ClassVar = {}
    yaml_constructors: ClassVar = {}

    def mapping(self, node):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for i, key in enumerate(keys):
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, "a key is not text", node.value[i][0].start_mark)
            if key in keys[:i]:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {reprlib.repr(key)} stands twice", node.value[i][0].start_mark
                )
        return {key: self.construct_object(value, deep=True) for key, (_, value) in zip(keys, node.value, strict=True)}

    def sequence(self, node):
        return [self.construct_object(item, deep=True) for item in node.value]

    def number(self, node):
        for read in (int, lambda text: int(text, 0), float):
            try:
                return read(node.value)
            except ValueError:
                continue
        raise yaml.constructor.ConstructorError(None, None, "not a number", node.start_mark)


_DIGITS = r"[0-9]+(_[0-9]+)*"
_NUMBER = rf"[-+]?(0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+|({_DIGITS}(\.({_DIGITS})?)?|\.{_DIGITS})([eE][-+]?[0-9]+)?)$"
_Yaml12.add_implicit_resolver("!number", re.compile(_NUMBER), list("-+.0123456789"))
_Yaml12.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("(true|false)$", re.I), list("tTfF"))
_Yaml12.add_implicit_resolver("tag:yaml.org,2002:null", re.compile("(~|null|)$", re.I), ["~", "n", "N", ""])
_Yaml12.add_constructor("!number", _Yaml12.number)
_Yaml12.add_constructor("tag:yaml.org,2002:bool", lambda loader, node: node.value.lower() == "true")
_Yaml12.add_constructor("tag:yaml.org,2002:null", lambda loader, node: None)
_Yaml12.add_constructor("tag:yaml.org,2002:str", lambda loader, node: node.value)
_Yaml12.add_constructor("tag:yaml.org,2002:map", _Yaml12.mapping)
_Yaml12.add_constructor("tag:yaml.org,2002:seq", _Yaml12.sequence)
_Yaml12.add_constructor(None, yaml.SafeLoader.construct_undefined)


if __name__ == "__main__":
    print(msgspec.json.format(msgspec.json.encode(load())).decode())
