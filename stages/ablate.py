"""Stage `ablate@<variant>`: train one variant of the experiment from several initialisations, and hold what it recovers
against what theory says it can."""

import argparse
import statistics
from collections.abc import Iterator

import torch
from tqdm import tqdm

from stages import InputError, files, params, tensors
from stages.identifiability import Student, answer, jacobian, measure, noise_excess, spectrum
from stages.ranks import RANK, share
from stages.recovery import log10
from stages.results import Prediction, Run, Study
from stages.student import descend, normals, one_by_one, side_by_side
from stages.task import CHUNK, QUERY, REQUEST_SCALE, Normal, draw_heldout, draw_latents, teacher
from stages.variants import VARIANTS, Bound, Variant

RUNS, GROUP = 4, 2  # initialisations of each variant, and how many train side by side
NOISE_STREAM, GAUGE_STREAM = 1, 2  # of a run: of its targets' noise, and of the change of basis it is tested with
FACTOR = 1.5  # how far noise_excess may be off, for what it leaves out and the chance of one run


def initialise(variant: Variant, normal: Normal) -> Student:
    """The untrained weights among `variant.trains`, for the published variant those of `train`."""
    shapes = {"Wq": (9, 3), "Wv": (9, 3), "keys": (variant.keys, 3), "Wo": (3, 3)}
    return {name: variant.scale * normal(*shapes[name]) for name in variant.trains}


def alter(variant: Variant, request: torch.Tensor, records: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The variant's latents, from the task's request (..., 9) and records (..., 4, 9): correlated, or fewer records."""
    records = records[..., : variant.keys, :]
    if variant.correlation:
        covariance = torch.eye(9, dtype=torch.float64).lerp(torch.ones(9, 9, dtype=torch.float64), variant.correlation)
        root = torch.linalg.cholesky(covariance).mT
        scale = torch.ones(9, dtype=torch.float64)
        scale[QUERY] = REQUEST_SCALE
        request, records = (request / scale) @ root * scale, records @ root
    return request, records


def batches(variant: Variant, normal: Normal, noise: Normal, batch_size: int, mixing, keys) -> Iterator[tuple]:
    """The variant's stream of training batches, for the published variant that of `train`."""
    while True:
        request, records = alter(variant, *draw_latents(normal, CHUNK, batch_size))
        target = teacher(request, records, keys)
        target = target + variant.noise * noise(CHUNK, batch_size, 3)
        yield from one_by_one(*(tensor.to(variant.dtype) for tensor in (request @ mixing, records @ mixing, target)))


def train_runs(variant: Variant, seeds: list[int], mixing, keys, settings: params.Train) -> list[dict]:
    """Train the variant's runs side by side; the measures of each."""
    keys = keys[: variant.keys]
    stretch = torch.logspace(-0.5, 0.5, 9, base=variant.condition, dtype=torch.float64)
    mixing = mixing * stretch  # of the observed coordinates: these are the singular values
    students, peaks = train_students(variant, seeds, mixing, keys, settings)
    runs = []
    for seed, student, peak in zip(seeds, students, peaks, strict=True):
        request, records = alter(variant, *draw_heldout(seed))
        target = teacher(request, records, keys)
        basis = normals((seed, GAUGE_STREAM))(3, 3)
        run = {"seed": seed} | measure(student, request, records, mixing, keys, target, basis)
        J = jacobian(student, variant.trains, request @ mixing, records @ mixing)
        run |= spectrum(J)
        if variant.noise:
            run["expected_mse"] = noise_excess(J, variant.noise, settings.lr, settings.batch_size)
        if any(bound.measure == "peak" for bound in variant.bounds):
            run["peak"] = peak
        runs.append(run)
    return runs


def train_students(
    variant: Variant, seeds: list[int], mixing, keys, settings: params.Train
) -> tuple[list[Student], list[float]]:
    """The trained student of each seed, in float64, and the highest error that a batch of it had after the published
    stop: 0 unless the variant is a lengthened one."""
    normal, noise = side_by_side(seeds), side_by_side([(seed, NOISE_STREAM) for seed in seeds])
    trained = {name: weights.to(variant.dtype) for name, weights in initialise(variant, normal).items()}
    fixed = {"keys": keys, "Wo": torch.eye(3, dtype=torch.float64)}
    student = {name: weights.to(variant.dtype) for name, weights in fixed.items()} | trained
    stream = batches(variant, normal, noise, settings.batch_size, mixing, keys)
    total = variant.lengthening * settings.steps
    steps = descend(
        list(trained.values()), lambda *inputs: answer(student, *inputs), stream, settings.lr, total, variant.amsgrad
    )
    peaks = [0.0 for _ in seeds]
    title = f"seeds {seeds[0]} to {seeds[-1]}"
    for step, errors in tqdm(steps, title, total, disable=RANK > 0 or None, leave=False, unit="step"):
        if step > settings.steps:
            peaks = [max(pair) for pair in zip(peaks, errors, strict=True)]

    if not all(weights.isfinite().all() for weights in trained.values()):
        raise InputError(
            f"training diverged, expected finite weights; studies.lr is {settings.lr:g}, try a smaller one"
        )
    students = [
        fixed | {name: weights[i].detach().double() for name, weights in trained.items()} for i in range(len(seeds))
    ]
    return students, peaks


def holds(bound: Bound, runs: list[dict]) -> bool:
    """Whether every run's measure is within the bound."""
    low = -float("inf") if bound.low is None else bound.low
    high = float("inf") if bound.high is None else bound.high
    return all(low <= run[bound.measure] <= high for run in runs)


def report(variant: Variant, runs: list[dict]) -> Study:
    """The variant's line in the table, the worst of its runs; and what it is made of, every run and prediction."""
    bounds = list(variant.bounds)
    if variant.noise:
        expected = statistics.mean(run["expected_mse"] for run in runs)
        why = f"what Adam's walk through the noise should come to, within a factor of {FACTOR}"
        bounds.append(Bound("heldout_mse", expected / FACTOR, expected * FACTOR, why))
    worst = {key: max(run[key] for run in runs) for key in ("heldout_mse", "query_map", "value_map")}
    theory = [Prediction(**vars(bound), held=holds(bound, runs)) for bound in bounds]
    return Study(
        scalars=runs[0]["scalars"],
        null=max(run["null"] for run in runs),
        log10_mse=log10(worst["heldout_mse"]),
        query_R2=1 - max(run["query"] for run in runs),
        query_refitted_R2=1 - max(run["query_refitted"] for run in runs),
        log10_query_map=log10(worst["query_map"]),
        value_R2=1 - max(run["value"] for run in runs),
        value_refitted_R2=1 - max(run["value_refitted"] for run in runs),
        log10_value_map=log10(worst["value_map"]),
        held=f"{sum(prediction.held for prediction in theory)} of {len(theory)}",
        runs=[Run(**run) for run in runs],
        theory=theory,
    )


def main(name: str) -> None:
    if name not in VARIANTS:
        raise InputError(f"there is no variant {name!r}, only {', '.join(VARIANTS)}")
    settings, variant = params.load(), VARIANTS[name]
    mixing, keys = tensors.load("data/mixing.safetensors", mixing=(9, 9), keys=(4, 3))
    runs = share(lambda group: train_runs(variant, group, mixing, keys, settings.studies), list(range(RUNS)), GROUP)
    if runs is None:
        return
    result = report(variant, runs)
    files.write_json(f"metrics/ablations/{name}.json", result)
    print(f"{name}: {result.held} predictions of theory held")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variant", help="one of VARIANTS in stages/variants.py")
    main(parser.parse_args().variant)
