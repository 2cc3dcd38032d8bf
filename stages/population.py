"""Stage `population`: the same experiment from many initialisations, each with its own data stream, side by side.

Memory: GROUP runs are in training at any time, each with a chunk of its stream, latent and mixed, 1 MB. Of a finished
run only its numbers stay, 5 kB.
"""

import math
import sys

import msgspec
import numpy
from tqdm import tqdm

from stages import files, params, tensors
from stages.ranks import RANK, share
from stages.recovery import response_error
from stages.results import Band, Population, Quantiles
from stages.student import batches, initialise, predict, side_by_side, trace_steps, train
from stages.task import PAYLOAD, QUERY, draw_heldout, mse, teacher

GROUP = 32  # runs side by side: twice as many are hardly faster, and two ranks share the default size
LEVELS = ("1e-6", "1e-12", "1e-20")
CONFIDENCE = 0.95

# A run counts as recovered if no entry of its responses deviates by more than this. Its nine errors then leave at most
# 9 · RECOVERED² = ε of a coordinate's variance unexplained: 1 − R² ≤ ε, for all six coordinates.
RECOVERED = (sys.float_info.epsilon / 9) ** 0.5  # 5e-9


def train_runs(seeds: list[int], mixing, keys, settings: params.Train) -> list[dict]:
    """Train the runs of `seeds` side by side, each as `train@<seed>` does; what is kept of each:

    heldout_mse, response_error: after training. steps: to reach each of LEVELS, None if it never did. trace: the error
    at some of the steps. Both of these are of the step's fresh batch, which the run has not seen before.
    """
    normal = side_by_side(seeds)
    Wq, Wv = initialise(normal)  # (S, 9, 3)
    stream = batches(normal, settings.batch_size, mixing, keys)
    errors = numpy.empty((settings.steps, len(seeds)))
    title = f"seeds {seeds[0]} to {seeds[-1]}"
    steps = train(Wq, Wv, stream, keys, settings.lr, settings.steps)
    for step, batch_mse in tqdm(steps, title, settings.steps, disable=RANK > 0 or None, leave=False, unit="step"):
        errors[step - 1] = batch_mse

    Wq, Wv = Wq.detach(), Wv.detach()
    rows = trace_steps(settings.steps)
    runs = []
    for i, seed in enumerate(seeds):
        request, records = draw_heldout(seed)
        prediction = predict(Wq[i], Wv[i], request @ mixing, records @ mixing, keys)
        runs.append(
            {
                "heldout_mse": mse(prediction, teacher(request, records, keys)),
                "response_error": max(response_error(mixing @ Wq[i], QUERY), response_error(mixing @ Wv[i], PAYLOAD)),
                "steps": [steps_to(errors[:, i], float(level)) for level in LEVELS],
                "trace": [errors[row - 1, i].item() for row in rows],
            }
        )
    return runs


def steps_to(errors: numpy.ndarray, level: float) -> int | None:
    """How many steps a run had made when its error, (steps,), first was at or below a level; None if it never was."""
    reached = errors <= level
    return int(reached.argmax()) if reached.any() else None


def lower_bound(successes: int, runs: int, confidence: float = CONFIDENCE) -> float:
    """The exact one-sided lower confidence bound of a success rate (Clopper & Pearson 1934): the rate that would give
    as many successes or more with probability 1 − confidence. All of n: (1 − confidence) ** (1/n). Rounded down to
    six decimals, which do not depend on the mathematics library."""
    coefficients = [math.lgamma(runs + 1) - math.lgamma(k + 1) - math.lgamma(runs - k + 1) for k in range(runs + 1)]

    def tail(rate: float) -> float:
        return sum(
            math.exp(coefficients[k] + k * math.log(rate) + (runs - k) * math.log1p(-rate))
            for k in range(successes, runs + 1)
        )

    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) < 1 - confidence else (low, middle)
    return math.floor(low * 1e6) / 1e6


def quantiles(values: list[float | None]) -> Quantiles:
    """Order statistics, so that each is a value that occurred. None and what is not finite stand above all numbers."""
    ordered = sorted(math.inf if value is None or not math.isfinite(value) else value for value in values)
    fractions = {"lowest": 0, "q05": 0.05, "median": 0.5, "q95": 0.95, "highest": 1}
    picked = {name: ordered[max(0, math.ceil(part * len(ordered)) - 1)] for name, part in fractions.items()}
    return Quantiles(**{name: value if math.isfinite(value) else None for name, value in picked.items()})


def summarise(runs: list[dict], settings: params.Train) -> Population:
    """The population in numbers: quantiles over the runs that `train_runs` gave."""
    recovered = [run["response_error"] <= RECOVERED for run in runs]
    return Population(
        parameters=msgspec.to_builtins(settings),
        size=len(runs),
        recovered=sum(recovered),
        recovered_at_least=lower_bound(sum(recovered), len(runs)),
        confidence=CONFIDENCE,
        criterion=RECOVERED,
        not_recovered=[seed for seed, done in enumerate(recovered) if not done],
        heldout_mse=quantiles([run["heldout_mse"] for run in runs]),
        response_error=quantiles([run["response_error"] for run in runs]),
        steps_to={level: quantiles([run["steps"][i] for run in runs]) for i, level in enumerate(LEVELS)},
        training=[
            Band(step, **msgspec.structs.asdict(quantiles([run["trace"][i] for run in runs])))
            for i, step in enumerate(trace_steps(settings.steps))
        ],
    )


def main() -> None:
    settings = params.load()
    mixing, keys = tensors.load("data/mixing.safetensors", mixing=(9, 9), keys=(4, 3))
    seeds = list(range(settings.population.size))
    runs = share(lambda group: train_runs(group, mixing, keys, settings.studies), seeds, GROUP)
    if runs is None:
        return
    result = summarise(runs, settings.studies)
    files.write_json("metrics/population.json", result)
    print(f"{result.recovered} of {result.size} runs recovered: ", end="")
    print(f"at least {result.recovered_at_least:.1%} of all, at {CONFIDENCE:.0%} confidence")


if __name__ == "__main__":
    main()
