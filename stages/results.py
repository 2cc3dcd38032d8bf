"""What the stages write to metrics/, field by field. Read back, a file must be of exactly this form."""

import sys
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

NonNegative = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
Step = Annotated[int, Meta(ge=0, le=1_000_000)]
Map = Annotated[list[Annotated[list[float], Meta(min_length=3, max_length=3)]], Meta(min_length=9, max_length=9)]
ByCoordinate = Annotated[list[float], Meta(min_length=3, max_length=3)]


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Error(_Record):
    """A mean squared error over examples, and its standard error: the sampling error of that many examples."""

    mse: NonNegative
    standard_error: NonNegative


class Recovered(_Record):
    """What one map, query or value, recovered of the three features it should read; nothing is refitted."""

    r2: ByCoordinate
    r2_gap: ByCoordinate  # 1 − R², computed without cancellation
    response: Map  # mixing @ weights, rows in the order of the latent coordinates
    response_error: NonNegative  # greatest absolute deviation of any entry from the ideal response
    leakage: NonNegative  # norm of the six rows that should be zero
    principal_angle: NonNegative  # largest, in radians, between what the map reads and what it should read
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
    step: Step
    train_mse: NonNegative
    heldout_mse: NonNegative


class Shift(_Record):
    shift: Annotated[float, Meta(ge=-1e6, le=1e6)]


class Parameters(_Record):
    """The sections of params.yaml that the results depend on."""

    seeds: list[int]
    mixing: dict[str, int]
    train: dict[str, float]
    interventions: Shift


class Results(_Record):
    """metrics/results.json."""

    parameters: Parameters
    keys: list[ByCoordinate]
    mixing: list[list[float]]
    seeds: Annotated[dict[Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]*)\Z")], Result], Meta(min_length=1)]
    training: Annotated[list[TraceRow], Meta(min_length=1)]


class Quantiles(_Record):
    """Of the runs' numbers; None stands above all of them, for a run that diverged or never got there."""

    lowest: float | None
    q05: float | None
    median: float | None
    q95: float | None
    highest: float | None


class Band(_Record):
    """The quantiles of the runs' errors at one step of training."""

    step: Step
    lowest: float | None
    q05: float | None
    median: float | None
    q95: float | None
    highest: float | None


class Population(_Record):
    """metrics/population.json."""

    parameters: dict[str, float]
    size: Annotated[int, Meta(ge=1)]
    recovered: Annotated[int, Meta(ge=0)]  # runs whose response error is at most `criterion`
    recovered_at_least: float  # the lower bound of the rate, at `confidence`
    confidence: float
    criterion: float
    not_recovered: list[int]  # their seeds
    heldout_mse: Quantiles
    response_error: Quantiles
    steps_to: dict[Literal["1e-6", "1e-12", "1e-20"], Quantiles]  # by the error to reach
    training: Annotated[list[Band], Meta(min_length=1)]


class Prediction(_Record):
    """What theory says of every run: low ≤ measure ≤ high, why, and whether it held."""

    measure: str
    low: float | None
    high: float | None
    why: str
    held: bool


class Run(_Record, omit_defaults=True):
    """The measures of one trained student; stages/identifiability.py says what each is."""

    seed: int
    heldout_mse: float
    query: float
    query_refitted: float
    query_map: float
    value: float
    value_refitted: float
    value_map: float
    swap: float
    gauge: float
    scalars: int
    null: int
    smallest_kept: float
    largest_dropped: float | None
    peak: float | None = None
    expected_mse: float | None = None


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
    runs: Annotated[list[Run], Meta(min_length=1)]
    theory: Annotated[list[Prediction], Meta(min_length=1)]
