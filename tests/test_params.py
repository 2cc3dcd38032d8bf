"""The parameters: what may be written in params.yaml means what DVC reads there, and all else gets one sentence."""

import subprocess
import sys
import time

import msgspec
import pytest
import yaml
from dvc.utils.serialize import dumps_yaml, parse_yaml, parse_yaml_for_update
from hypothesis import given, settings
from hypothesis import strategies as st

from stages import InputError, params
from stages.variants import VARIANTS
from tests.conftest import ROOT

PUBLISHED = (ROOT / "params.yaml").read_text()
NEXT = len(PUBLISHED.splitlines()) + 1  # the line after its last
VALUES = {
    "seeds": "[0, 1, 2]",
    "mixing.seed": "0",
    "lr": "0.03",
    "steps": "1200",
    "batch_size": "128",
    "shift": "5",
    "size": "64",
    "ablations": f"[{', '.join(VARIANTS)}]",
    "launcher": "python",
}
TEMPLATE = """\
seeds: {seeds}
mixing:
  seed: {mixing.seed}
train:
  lr: {lr}
  steps: {steps}
  batch_size: {batch_size}
interventions:
  shift: {shift}
studies:
  lr: 0.03
  steps: 1200
  batch_size: 128
population:
  size: {size}
ablations: {ablations}
launcher: {launcher}
"""


def document(**values: str) -> str:
    text = TEMPLATE
    for name, value in (VALUES | values).items():
        text = text.replace("{" + name + "}", value)
    return text


@pytest.fixture
def load(tmp_path):
    """Params from the content of a file."""

    def load(content: str | bytes) -> params.Params:
        path = tmp_path / "params.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return params.load(path)

    return load


def refusal(load, content: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        load(content)
    message = str(caught.value)
    assert len(message) < 500 and message.isprintable()
    return message


def test_the_published_parameters():
    assert msgspec.to_builtins(params.load(ROOT / "params.yaml")) == {
        "seeds": [0, 1, 2],
        "mixing": {"seed": 0},
        "train": {"lr": 0.03, "steps": 1200, "batch_size": 128},
        "interventions": {"shift": 5},
        "studies": {"lr": 0.03, "steps": 1200, "batch_size": 128},
        "population": {"size": 64},
        "ablations": list(VARIANTS),
        "launcher": "python",
    }


NUMBERS = """
    1e-2 1e-05 1E-5 .03 +.03 3. 3.0 .5e-1 5.e1 010 0_10 0o17 0x10 0xFF 0b101 1_000 1_0.5 +3 1 1000 1e3 0.1e+2 2.5e-3
"""
WHOLE_NUMBERS = "1200 1.2e3 12e2 1_200 01200 0x4b0 1200. 1200.0 +1200 0o2260"


def test_dvc_would_lay_it_out_as_it_is():
    """So that `dvc exp run -S` changes a line, and no more."""
    assert dumps_yaml(parse_yaml_for_update(PUBLISHED, "params.yaml")) == PUBLISHED


@pytest.mark.parametrize("number", [*NUMBERS.split(), "!!int 3", "!!float 3"])
def test_a_number_means_what_dvc_reads(load, number):
    text = document(lr=number)
    assert load(text).train.lr == parse_yaml(text, "params.yaml")["train"]["lr"]


@pytest.mark.parametrize("number", WHOLE_NUMBERS.split())
def test_a_whole_number_may_be_written_as_any_number(load, number):
    text = document(steps=number)
    steps = load(text).train.steps
    assert steps == parse_yaml(text, "params.yaml")["train"]["steps"] == 1200
    assert type(steps) is int


def test_a_yaml_1_1_document_means_what_dvc_reads(load):
    text = "%YAML 1.1\n---\n" + document(batch_size="010", seeds="[010, 1]")
    assert load(text).train.batch_size == parse_yaml(text, "params.yaml")["train"]["batch_size"]
    assert load(text).seeds == parse_yaml(text, "params.yaml")["seeds"]


@pytest.mark.parametrize(
    "content",
    [
        "\ufeff" + PUBLISHED,
        PUBLISHED.replace("\n", "\r\n"),
        "---\n" + PUBLISHED + "...\n",
        document(lr="&rate 0.03"),
        TEMPLATE.replace("mixing:\n  seed: {mixing.seed}", "<<: {mixing: {seed: 0}}"),
        yaml.safe_dump(yaml.safe_load(PUBLISHED), default_flow_style=True),
    ],
    ids=["byte-order mark", "CRLF", "document marks", "anchor", "merge key", "flow style"],
)
def test_other_ways_to_write_the_same(load, content):
    for name, value in VALUES.items():
        content = content.replace("{" + name + "}", value)
    assert load(content) == load(PUBLISHED)


@pytest.mark.parametrize("seeds", ["[7]", "[4294967295, 0]", "\n- 3\n- 1", "[010, 0x10]"])
def test_seeds_are_what_dvc_reads(load, seeds):
    text = document(seeds=seeds)
    assert load(text).seeds == parse_yaml(text, "params.yaml")["seeds"]


BAD_VALUES = {
    "train.lr is 0, expected `float` > 0": {"lr": "0"},
    "train.lr is -0.01, expected `float` > 0": {"lr": "-1e-2"},
    "train.lr is 1001, expected `float` <= 1000": {"lr": "1001"},
    "train.lr is inf, expected `float` <= 1000": {"lr": "1e999"},
    "train.lr is nan, expected `float`": {"lr": ".nan"},
    "train.lr is '0.03', expected `float`": {"lr": "'0.03'"},
    "train.lr is True, expected `float`": {"lr": "true"},
    "train.lr is None, expected `float`": {"lr": "~"},
    "train.lr is [0.03], expected `float`": {"lr": "[0.03]"},
    "train.lr is '0,03', expected `float`": {"lr": "0,03"},
    "train.lr is datetime.date(2001, 1, 1), expected `float`": {"lr": "2001-01-01"},
    "train.lr is b'hi', expected `float`": {"lr": "!!binary aGk="},
    "train.lr is 999999999999999999...9999999999999999999, number out of range": {"lr": "9" * 2000},
    "train.lr is 'aaaa": {"lr": "a" * 900},
    "train.steps is 0, expected `int` >= 1": {"steps": "0"},
    "train.steps is 1.5, expected `int`": {"steps": "1.5"},
    "train.steps is 10000000, expected `int` <= 1000000": {"steps": "1e7"},
    "train.steps is True, expected `int`": {"steps": "true"},
    "train.batch_size is 0, expected `int` >= 1": {"batch_size": "0"},
    "train.batch_size is 10001, expected `int` <= 10000": {"batch_size": "10001"},
    "mixing.seed is -1, expected `int` >= 0": {"mixing.seed": "-1"},
    "mixing.seed is 4294967296, expected `int` <= 4294967295": {"mixing.seed": "4294967296"},
    "shift is 0, expected at least 0.001 away from 0": {"shift": "0"},
    "shift is -0.0001, expected at least 0.001 away from 0": {"shift": "-1e-4"},
    "interventions.shift is nan, expected `float`": {"shift": ".nan"},
    "interventions.shift is -10000000, expected `float` >= -1000000": {"shift": "-1e7"},
    "seeds is [], expected `array` of length >= 1": {"seeds": "[]"},
    "population.size is 0, expected `int` >= 1": {"size": "0"},
    "ablations is [], expected `array` of length >= 1": {"ablations": "[]"},
    "ablations names published twice": {"ablations": "[published, published]"},
    "ablations[0] is '../x', expected `str` matching regex": {"ablations": "[../x]"},
    "launcher is 'bash', expected `str` matching regex": {"launcher": "bash"},
    "seeds is 3, expected `array`": {"seeds": "3"},
    "seeds is None, expected `array`": {"seeds": ""},
    "seeds is {'a': 1}, expected `array`": {"seeds": "{a: 1}"},
    "seeds is {'1': None}, expected `array`": {"seeds": "!!set {1}"},
    "seeds is {'b': 1}, expected `array`": {"seeds": "!!omap [b: 1]"},
    "seeds names 0 twice": {"seeds": "[0, 1, 0]"},
    "seeds names 16 twice": {"seeds": "[16, 0x10]"},
    "seeds[1] is 1.0, expected `int`": {"seeds": "[0, 1.0]"},
    "seeds[0] is -1, expected `int` >= 0": {"seeds": "[-1]"},
    "seeds[0] is 4294967296, expected `int` <= 4294967295": {"seeds": "[4294967296]"},
    "seeds[1] is True, expected `int`": {"seeds": "[0, true]"},
    "seeds[0] is [0], expected `int`": {"seeds": "[[0]]"},
    "seeds[0] is 'a b', expected `int`": {"seeds": "[a b]"},
}


@pytest.mark.parametrize("named", BAD_VALUES)
def test_a_bad_value_is_named_with_what_is_allowed(load, named):
    assert f": {named}" in refusal(load, document(**BAD_VALUES[named])).replace("interventions: shift", "shift")


BAD_DOCUMENTS = {
    "is empty, expected the keys seeds, mixing, train, interventions": "",
    "is empty, expected": "# nothing",
    "is 3, expected the keys seeds": "3",
    "is ['seeds'], expected the keys seeds": "- seeds",
    "is 'xxx": "x" * 1000,
    "unknown field `epochs`, expected seeds, mixing, train, interventions": PUBLISHED + "epochs: 3\n",
    "unknown field `a, expected seeds": PUBLISHED + '"a - at `$.b": 4\n',
    "unknown field `c - at `$.d`": PUBLISHED.replace("  lr:", '  "c - at `$.d": 4\n  lr:'),
    "unknown field `3`, expected seeds": PUBLISHED + "3: 4\n",
    "unknown field `('a',)`, expected seeds": PUBLISHED + "? [a]\n: 4\n",
    f"line {NEXT}: while constructing a mapping, found unhashable key": PUBLISHED + "? {a: 1}\n: 4\n",
    "unknown field `a b": PUBLISHED + '"a\\nb\\e\\x85": 4\n',
    "unknown field `kkkk": PUBLISHED + "? " + "k" * 5000 + "\n: 4\n",
    "train: Object contains unknown field `rate`, expected lr, steps, batch_size": PUBLISHED.replace("lr:", "rate:"),
    "train: Object missing required field `lr`": PUBLISHED.replace("  lr:", "  #"),
    "train: Object contains unknown field `3`": PUBLISHED.replace("  lr:", "  3:"),
    "train is 3, expected `object`": PUBLISHED.replace("train:\n", "train: 3\ndropped:\n"),
    f'line {NEXT}: while constructing a mapping, found duplicate key "seeds"': PUBLISHED + "seeds: [1]\n",
    'line 12: while constructing a mapping, found duplicate key "lr"': PUBLISHED.replace("  lr:", "  lr: 1\n  lr:"),
    "expected a single document": PUBLISHED + "---\n" + PUBLISHED,
    "found character that cannot start any token": PUBLISHED.replace("  lr", "\tlr"),
    "unacceptable character #x0000": PUBLISHED + "\0",
    "byte 0xff in position 0": PUBLISHED.encode("utf-16"),
    "byte 0xe9 in position 5": "# café\n".encode("latin-1") + PUBLISHED.encode(),
    "could not determine a constructor for the tag 'tag:yaml.org,2002:python": document(
        lr="!!python/object/apply:os.system [exit]"
    ),
    "could not determine a constructor for the tag '!number'": document(lr="!number abc"),
    "invalid literal for int() with base 10: 'abc'": document(lr="!!int abc"),
    "UTF-8: 'abc'": document(lr="!!bool abc"),
    'failed to construct timestamp from "abc"': document(lr="!!timestamp abc"),
    "month must be in 1..12": document(lr="2001-99-99"),
    "failed to decode base64 data": document(lr="!!binary x$"),
    "expected a sequence, but found mapping": document(lr="!!omap {a: 1}"),
    "found invalid Unicode character escape code": document(lr='"\\U00110000"'),
    "Exceeds the limit": document(lr="9" * 5000),
    "line 9: found an alias, expected each value in full": document(lr="&rate 0.03", shift="*rate"),
    "line 1: found an alias": document(seeds="&all [*all]"),
    "found incompatible YAML document": "%YAML 9.9\n---\n" + PUBLISHED,
}


@pytest.mark.parametrize("named", BAD_DOCUMENTS)
def test_a_bad_document_is_one_sentence(load, named):
    assert named in refusal(load, BAD_DOCUMENTS[named])


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1}, ' * 9}]\n" for i in range(1, 40)), "found an alias"),
        ("a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{f'*a{i - 1}, ' * 9}]}}\n" for i in range(1, 9)), "alias"),
        ("[" * 19_000, "while parsing a flow node"),
        ("{a: " * 4_000 + "}" * 4_000, "recursion"),
        ("seeds: " + "[" * 9_000 + "]" * 9_000, "expected `int`"),
        ("- " * 9_000, "expected the keys"),
        (PUBLISHED * 10_000, "is larger than 20000 bytes"),
    ],
    ids=["aliases", "merged aliases", "lists", "mappings", "seeds", "block lists", "huge"],
)
def test_a_bomb_is_refused_quickly(load, content, named):
    start = time.perf_counter()
    assert named in refusal(load, content)
    assert time.perf_counter() - start < 10


def test_no_file_names_the_file(tmp_path):
    with pytest.raises(OSError, match=r"params\.yaml"):
        params.load(tmp_path / "params.yaml")


@pytest.mark.parametrize("content", [PUBLISHED.replace("0.03", "fast"), "a: [", "\0", None])
def test_the_check_command_says_one_sentence(tmp_path, content):
    if content is not None:
        (tmp_path / "params.yaml").write_text(content)
    result = subprocess.run(
        [sys.executable, "-m", "stages.params"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert "params.yaml" in result.stderr


KEYS = ["seeds", "mixing", "train", "interventions", "seed", "lr", "steps", "batch_size", "shift"]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(0, 9)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9)
    | st.dates()
    | st.datetimes()
)
NODES = st.recursive(
    SCALARS,
    lambda nodes: (
        st.lists(nodes, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | SCALARS, nodes, max_size=4)
        | st.sets(st.integers(), max_size=4)
    ),
    max_leaves=8,
)


@st.composite
def edited_trees(draw) -> str:
    """The published document with one value replaced, removed or added."""
    tree = yaml.safe_load(PUBLISHED)
    section = draw(st.sampled_from([tree, *(value for value in tree.values() if isinstance(value, dict))]))
    key = draw(st.sampled_from(sorted(section)) | SCALARS)
    if draw(st.booleans()):
        section[key] = draw(NODES)
    else:
        section.pop(key, None)
    return yaml.safe_dump(tree, allow_unicode=draw(st.booleans()), default_flow_style=draw(st.booleans()))


FRAGMENTS = [
    *"\t\n :-,?#&*!|>'\"%@`{}[]~\0\ufeff\x85\u2028é",
    *[
        "---\n",
        "...\n",
        "<<: ",
        "!!",
        "!!int ",
        "!!set ",
        "!!float ",
        "!!timestamp ",
        "%YAML 1.1\n",
        "\\x",
        "&a ",
        "*a",
    ],
    *["1e", "0x", "0o", "_", ".inf", ".nan", "-", "true", "null", "2001-01-01", "9" * 30],
]


@st.composite
def spliced_texts(draw) -> str:
    """The published document with a few pieces of text overwritten."""
    text = PUBLISHED
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        removed = draw(st.integers(0, 9))
        text = text[:start] + draw(st.sampled_from(FRAGMENTS) | st.text(max_size=5)) + text[start + removed :]
    return text


@given(
    NODES.map(lambda node: yaml.safe_dump(node, allow_unicode=True).encode("utf-8", "surrogatepass"))
    | edited_trees().map(lambda text: text.encode("utf-8", "surrogatepass"))
    | spliced_texts().map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.lists(st.sampled_from(FRAGMENTS + KEYS)).map(lambda parts: "".join(parts).encode())
    | st.binary()
)
@settings(max_examples=300, derandomize=True, deadline=None, database=None)
def test_any_document_is_parameters_or_one_sentence(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    path.write_bytes(content)
    try:
        loaded = params.load(path)
    except InputError as error:
        assert len(str(error)) < 500 and str(error).isprintable()
    else:
        read = parse_yaml(content.decode("utf-8-sig"), "params.yaml")
        assert msgspec.to_builtins(loaded) == {name: read[name] for name in loaded.__struct_fields__}
