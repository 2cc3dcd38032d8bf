"""The claims of stages/claims.yaml: each beside what was measured, and whether it holds."""

import fnmatch
import re
import sys
from pathlib import Path
from statistics import NormalDist
from typing import Annotated

import msgspec
from msgspec import Meta

from stages import InputError, params
from stages.results import Results

CONFIDENCE = 0.99  # nominally, that of all true predictions checked together none fails
# A yardstick, not a bound: the unit roundoff times the longest sums that lead to a prediction, the products over 9
# coordinates that mix and project an input, and the sum over 4 records.
ROUNDING = (9 + 9 + 4) * sys.float_info.epsilon / 2
Text = Annotated[str, Meta(pattern=r"^[^|\n]+\Z")]  # a cell of the table
Printed = Annotated[str, Meta(pattern=r"^[0-9]+\.[0-9]+\Z", max_length=20)]
Number = Annotated[float, Meta(ge=-1e300, le=1e300)]
Interval = Annotated[list[Number], Meta(min_length=2, max_length=2)]


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of stages/claims.yaml, which says what the fields mean. Exactly one of the last four is given."""

    claim: Text
    of: str
    source: Text
    seeds: list[int] = []
    shift: Number | None = None
    digits: Annotated[list[Printed], Meta(min_length=1, max_length=2)] | None = None
    above: Number | None = None
    precision: Number | Interval | None = None
    predicted: Number | None = None

    def __post_init__(self):
        if [self.digits, self.above, self.precision, self.predicted].count(None) != 3:
            raise ValueError(f"{self.claim!r}, expected one of digits, above, precision, predicted")
        if (self.predicted, self.precision) != (None, None) and not self.of.endswith(".mse"):
            raise ValueError(f"{self.claim!r} is of {self.of}, expected an mse for predicted and precision")


def read_claims(path: str | Path = "stages/claims.yaml") -> list[Claim]:
    """Read the claims. Raises InputError if they are not of this form."""
    try:
        return msgspec.convert(params.read_yaml(path), Annotated[list[Claim], Meta(min_length=1)])
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {error}") from error


def leaves(node, path: str = "") -> dict[str, float]:
    """Every number in nested lists and mappings, under its dotted path."""
    if not isinstance(node, dict | list):
        return {path: node}
    items = node.items() if isinstance(node, dict) else enumerate(node)
    return {
        name: value
        for key, child in items
        for name, value in leaves(child, f"{path}.{key}" if path else f"{key}").items()
    }


def rounding(name: str, shift: float) -> float:
    """What rounding may make of a number, as far as a yardstick tells: more after a large shift of the latents."""
    return ROUNDING * (max(1, abs(shift)) if ".shift." in name else 1)


def judge(claim: Claim, numbers: dict[str, float], shift: float, z: float) -> dict:
    """A claim's row: what was expected, the lowest and highest measurement, the band outside of which none may lie, and
    `holds`, which is None where nothing was measured, such as a seed that did not run."""
    ran = {int(name.split(".")[1]) for name in numbers}
    same = claim.shift in (None, shift) and ran.issuperset(claim.seeds)  # as it was published
    found = {name: numbers[name] for name in fnmatch.filter(numbers, claim.of) if same}
    measured = [min(found.values()), max(found.values())] if found else None
    row = {"claim": claim.claim, "source": claim.source, "measured": measured}
    if claim.predicted is not None:
        expected = claim.predicted
        errors = {name: z * numbers[name.removesuffix("mse") + "standard_error"] for name in found}
        widest = max(errors.values(), default=0)
        band = [expected - widest, expected + widest]
        holds = all(abs(value - expected) <= errors[name] for name, value in found.items())
    elif claim.digits:
        expected = [float(claim.digits[0]), float(claim.digits[-1])]
        half = [0.5 * 10 ** -len(end.partition(".")[2]) for end in (claim.digits[0], claim.digits[-1])]
        band = [expected[0] - half[0], expected[1] + half[1]]
        holds = bool(found) and all(abs(measured[i] - expected[i]) <= half[i] for i in (0, 1))
    elif claim.above is not None:
        expected, band = claim.above, [claim.above, None]
        holds = bool(found) and measured[0] > expected
    else:
        expected = claim.precision
        band = [None, rounding(claim.of, shift) ** 2]
        holds = bool(found) and measured[1] <= band[1]
    return {**row, "expected": expected, "band": band, "holds": holds if found else None}


def judge_all(claims: list[Claim], results: Results) -> list[dict]:
    """The rows of all claims.

    A prediction holds if each measurement is within z standard errors of it, both from the same held-out examples; z is
    the normal quantile at which any of them would stray by chance in 1 − CONFIDENCE of runs (Bonferroni). The mean of
    4096 squared errors is a little skewed: in 3000 simulated runs one strayed in 1.6 %.

    Raises InputError for a claim of what is measured of no seed.
    """
    numbers = leaves({"seeds": msgspec.to_builtins(results.seeds)})
    for claim in claims:
        of_any_seed = re.sub(r"^seeds\.[^.]+", "seeds.*", claim.of)
        if not fnmatch.filter(numbers, of_any_seed):
            raise InputError(f"stages/claims.yaml: {claim.claim!r} is of {claim.of}, which nothing measured is called")
    predicted = sum(len(fnmatch.filter(numbers, claim.of)) for claim in claims if claim.predicted is not None)
    z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / (2 * max(predicted, 1)))
    return [judge(claim, numbers, results.parameters.interventions.shift, z) for claim in claims]


def table(rows: list[dict]) -> str:
    """The rows as a table that reads well on a terminal and is Markdown."""
    lines = [("claim", "expected", "measured", "band", "holds", "source")]
    for row in rows:
        holds = {True: "yes", False: "NO", None: "not run"}[row["holds"]]
        expected, measured, band = _interval(row["expected"]), _interval(row["measured"]), _interval(row["band"], 4)
        lines.append((row["claim"], expected, measured, band, holds, row["source"]))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def _interval(value, digits: int = 3) -> str:
    if value is None:
        return "—"
    low, high = value if isinstance(value, list) else [value, value]
    if high is None:
        return f"> {_number(low, digits)}"
    if low is None:
        return f"< {_number(high, digits)}"
    low, high = _number(low, digits), _number(high, digits)
    return low if low == high else f"{low} – {high}"


def _number(value: float, digits: int) -> str:
    if isinstance(value, int):
        return str(value)
    if abs(value) < 1e-3:
        return f"{value:.1e}" if value else "0"
    return f"{value:.6f}" if 0.99 < value <= 1 else f"{value:.{digits}f}"
