"""What the stages write to metrics/, field by field. Read back, a file must be of exactly this form."""

from typing import Annotated

import msgspec
from msgspec import Meta

Squared = Annotated[float, Meta(ge=0)]
Map = Annotated[list[Annotated[list[float], Meta(min_length=3, max_length=3)]], Meta(min_length=9, max_length=9)]
ByCoordinate = Annotated[list[float], Meta(min_length=3, max_length=3)]


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Error(_Record):
    """A mean squared error over examples, and its standard error: the sampling error of that many examples."""

    mse: Squared
    standard_error: Squared


class Recovered(_Record):
    """What one map, query or value, recovered of the three features it should read; nothing is refitted."""

    r2: ByCoordinate
    r2_gap: ByCoordinate  # 1 − R², computed without cancellation
    response: Map  # mixing @ weights, rows in the order of the latent coordinates
    response_error: Squared  # greatest absolute deviation of any entry from the ideal response
    leakage: Squared  # norm of the six rows that should be zero
    principal_angle: Squared  # largest, in radians, between what the map reads and what it should read
    weights: Map  # Wq or Wv


class Result(_Record):
    """One student on its held-out examples."""

    heldout: Error
    uniform: Error  # of the baseline: uniform attention with the true values
    query: Recovered
    value: Recovered
    interventions: dict[str, dict[str, Error]]  # by kind, then by feature; see stages/interventions.py


class TraceRow(_Record):
    """The errors at one step of training: of its batch before the step, and on the held-out examples after it."""

    seed: int
    step: int
    train_mse: Squared
    heldout_mse: Squared


class Results(_Record):
    """metrics/results.json."""

    parameters: dict[str, object]
    keys: list[ByCoordinate]
    mixing: list[list[float]]
    seeds: Annotated[dict[Annotated[str, Meta(pattern="^[0-9]+$")], Result], Meta(min_length=1)]
    training: list[TraceRow]


Quantiles = dict[str, float | None]  # lowest, q05, median, q95, highest; None stands above all numbers


class Population(_Record):
    """metrics/population.json."""

    parameters: dict[str, object]
    size: int
    recovered: int  # runs whose response error is at most `criterion`
    recovered_at_least: float  # the lower bound of the rate, at `confidence`
    confidence: float
    criterion: float
    not_recovered: list[int]  # their seeds
    heldout_mse: Quantiles
    response_error: Quantiles
    steps_to: dict[str, Quantiles]  # by the error to reach
    training: list[Quantiles]  # each with its `step`


class Prediction(_Record):
    """What theory says of every run: low ≤ measure ≤ high, why, and whether it held."""

    measure: str
    low: float | None
    high: float | None
    why: str
    held: bool


class Study(_Record):
    """metrics/ablations/<variant>.json: the worst of its runs in a line, every run, and every prediction."""

    scalars: int
    null: int
    log10_mse: float
    query_R2: float
    query_refitted_R2: float
    log10_query_map: float
    value_R2: float
    value_refitted_R2: float
    log10_value_map: float
    held: str
    runs: list[dict[str, float | None]]
    theory: list[Prediction]
