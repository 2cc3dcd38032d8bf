"""The identifiability studies: what each changes in the published experiment, and what theory says it can recover.

A bound is on one of the measures of a run (stages/results.py), for every run. Theory gives the null dimensions, what is
recovered to rounding, the third that three keys may lose, and the error under noise. Where it only says that something
is lost or does not come to rest, the bound is a threshold: LOST, EXACT, ε, or far below float32's rounding.
"""

from dataclasses import dataclass

import torch

from stages import InputError
from stages.results import Run
from stages.student import INITIAL_SCALE

TRAINABLE = ("Wq", "Wv", "keys", "Wo")  # keys (n, 3), and an output projection (3, 3), if they are learned too


@dataclass(frozen=True)
class Bound:
    """low ≤ measure ≤ high, and why; None is no bound. Raises InputError for a measure that no run has."""

    measure: str
    low: float | None
    high: float | None
    why: str

    def __post_init__(self):
        if self.measure not in Run.__struct_fields__:
            raise InputError(f"there is no measure {self.measure!r}, only {', '.join(Run.__struct_fields__)}")


@dataclass(frozen=True)
class Variant:
    """The published experiment, but for what is given. Raises InputError for other weights or numbers of keys."""

    bounds: list[Bound]
    trains: tuple[str, ...] = ("Wq", "Wv")  # and others of TRAINABLE
    keys: int = 4  # or fewer, and as many records
    noise: float = 0  # standard deviation of what is added to each training target
    correlation: float = 0  # of any two latent coordinates
    condition: float = 1  # the condition number of the mixing
    dtype: torch.dtype = torch.float64  # of the training; measured is in float64
    scale: float = INITIAL_SCALE
    lengthening: int = 1  # of the published number of steps
    amsgrad: bool = False

    def __post_init__(self):
        if not {"Wq", "Wv"} <= {*self.trains} <= {*TRAINABLE}:
            raise InputError(f"a variant trains {self.trains}, expected Wq and Wv, and others of {TRAINABLE}")
        if not 1 <= self.keys <= 4:
            raise InputError(f"a variant has {self.keys} keys, expected 1 to 4")


# A yardstick for the squared error that rounding explains: 100 operations, each off by ε.
EXACT, FLOAT32 = ((100 * torch.finfo(dtype).eps) ** 2 for dtype in (torch.float64, torch.float32))
LOST = 0.1  # of a coordinate's variance, or more, is not what it should be
QUERY_MEASURES = ("query", "query_refitted", "query_map")
VALUE_MEASURES = ("value", "value_refitted", "value_map")


def within(low: float | None, high: float | None, why: str, *measures: str) -> list[Bound]:
    return [Bound(measure, low, high, why) for measure in measures]


def exact(why: str, *measures: str) -> list[Bound]:
    return within(None, EXACT, why, *measures)


def null(dimension: int, why: str) -> list[Bound]:
    return within(dimension, dimension, why, "null")


FITS = exact("the teacher is one of the students", "heldout_mse")
FIXED_KEYS = exact("key differences span the query space: the scores give the query", *QUERY_MEASURES)
DIRECT_TARGET = exact("the mixture of values is the target itself: no basis to choose", *VALUE_MEASURES)
PINNED = null(0, "every direction in weight space moves some prediction")
RECOVERS = [*FITS, *FIXED_KEYS, *DIRECT_TARGET, *PINNED]

VARIANTS = {
    "published": Variant(
        [*RECOVERS, *exact("values are the coordinates of the prediction: swapped columns swap them", "swap")]
    ),
    "learned-keys": Variant(
        [
            *FITS,
            *null(12, "attention to (q A)·(A⁻¹k + c) is the same for any invertible A, 9 scalars, and shift c, 3"),
            *within(LOST, None, "the basis of the queries is whatever training ended in", "query"),
            *exact("one 3×3 map undoes any A; centred keys take c away", "query_refitted", "query_map", "gauge"),
            *DIRECT_TARGET,
        ],
        trains=("Wq", "Wv", "keys"),
        lengthening=8,  # at the published stop some runs are not there yet,
        amsgrad=True,  # and with Adam others would not stay
    ),
    "three-keys": Variant(
        [
            *FITS,
            *null(9, "two key differences leave one query direction unseen: one scalar for each of nine inputs"),
            *within(EXACT, None, "nothing determines what is read along the unseen direction", "query"),
            # a refit's R² over 2048 examples has a standard deviation of 0.0125, and this is the worst coordinate
            *within(
                EXACT, 1 / 3 + 0.05, "at worst a third of each coordinate, its part in that direction", "query_refitted"
            ),
            *exact("both score differences are seen", "query_map"),
            *DIRECT_TARGET,
        ],
        keys=3,
    ),
    "learned-output": Variant(
        [
            *FITS,
            *FIXED_KEYS,
            *null(9, "(V B)(B⁻¹ Wo) is the same for any invertible B, 9 scalars"),
            *within(LOST, None, "the basis of the values is whatever training ended in", "value", "swap"),
            *exact("one 3×3 map undoes any B", "value_refitted", "value_map"),
        ],
        trains=("Wq", "Wv", "Wo"),
    ),
    "noisy-targets": Variant(  # and the error that theory expects of Adam, see stages/identifiability.py
        [*PINNED, *within(EXACT, None, "Adam never rests: its steps follow the noise", "query", "value")],
        noise=0.1,
    ),
    "float32": Variant(
        [
            *within(
                FLOAT32 / 1e8,
                FLOAT32,
                "float32's rounding, and no less",
                *("heldout_mse", "query", "query_map", "value", "value_map"),
            ),
            *PINNED,
        ],
        dtype=torch.float32,
    ),
    "large-init": Variant(
        [*RECOVERS, *within(LOST, None, "it starts far away: at the published stop it has not arrived", "peak")],
        scale=3,
        lengthening=6,
    ),
    "long-adam": Variant(
        [
            *within(
                torch.finfo(torch.float64).eps,
                None,
                "as gradients vanish Adam divides by less and less, until its steps are unstable",
                "peak",
            ),
            *PINNED,
        ],
        lengthening=3,
    ),
    "long-amsgrad": Variant(
        [*RECOVERS, *exact("AMSGrad divides by the largest that was", "peak")],
        lengthening=3,
        amsgrad=True,
    ),
    "correlated-latents": Variant(RECOVERS, correlation=0.5),
    "non-orthogonal-mixing": Variant(RECOVERS, condition=10),
}
