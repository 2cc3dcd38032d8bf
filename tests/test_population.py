"""The population: the same runs as `train`, one by one; its statistics; and the committed one."""

import json
import math
import sys

import msgspec
import numpy
import pytest
import torch

from stages import params
from stages.population import LEVELS, RECOVERED, lower_bound, quantiles, steps_to, summarise, train_runs
from stages.recovery import r2_gap, response_error
from stages.results import Quantiles
from stages.student import batches, initialise, normals, predict, train
from stages.task import KEYS, PAYLOAD, QUERY, draw_heldout, draw_latents, mse, teacher
from tests.conftest import ROOT

KEYS = torch.tensor(KEYS, dtype=torch.float64)
FEW = params.Train(lr=0.03, steps=60, batch_size=32)
COMMITTED = json.loads((ROOT / "metrics/population.json").read_text())


def alone(seed, mixing, settings):
    """Run `seed` as `train` trains it: what the population should know of it."""
    Wq, Wv = initialise(normal := normals(seed))
    stream = batches(normal, settings.batch_size, mixing, KEYS)
    errors = [error for _, error in train(Wq, Wv, stream, KEYS, settings.lr, settings.steps)]
    request, records = draw_heldout(seed)
    heldout = mse(predict(Wq, Wv, request @ mixing, records @ mixing, KEYS), teacher(request, records, KEYS))
    responses = response_error(mixing @ Wq, QUERY), response_error(mixing @ Wv, PAYLOAD)
    return heldout, max(responses), errors


def test_each_run_is_the_experiment_of_train(mixing):
    seeds = [3, 0, 11]
    for seed, run in zip(seeds, train_runs(seeds, mixing, KEYS, FEW), strict=True):
        heldout, response, errors = alone(seed, mixing, FEW)
        assert run["heldout_mse"] == pytest.approx(heldout, rel=1e-9)
        assert run["response_error"] == pytest.approx(response, rel=1e-9)
        assert run["trace"] == pytest.approx(errors, rel=1e-9)


def test_no_run_touches_another(mixing):
    together, fewer = train_runs([0, 1, 2], mixing, KEYS, FEW), train_runs([0, 2], mixing, KEYS, FEW)
    assert together[2]["trace"] == pytest.approx(fewer[1]["trace"], rel=1e-9)
    assert together[0]["trace"] != pytest.approx(together[1]["trace"], rel=0.01)


def test_recovered_means_r2_of_one_to_the_last_digit(mixing):
    """The worst response the criterion lets pass, every entry off by RECOVERED, leaves ε of a payload unexplained."""
    request, records = draw_latents(normals(0), 20_000)
    for latents, reads in ((request, QUERY), (records, PAYLOAD)):
        response = torch.eye(9, dtype=torch.float64)[:, reads] + RECOVERED
        gap = r2_gap(latents @ response, latents[..., reads]).max().item()
        assert gap < 1.05 * sys.float_info.epsilon  # 5 % for the sample
    assert gap > 0.95 * sys.float_info.epsilon


@pytest.mark.parametrize("runs", [1, 10, 64, 1000])
def test_lower_bound_when_all_succeed(runs):
    assert 0 <= 0.05 ** (1 / runs) - lower_bound(runs, runs) < 2e-6


def test_lower_bound_gives_the_success_count_its_probability():
    for successes, runs in [(1, 5), (13, 20), (63, 64), (300, 1000)]:
        rate = lower_bound(successes, runs)
        tail = sum(math.comb(runs, k) * rate**k * (1 - rate) ** (runs - k) for k in range(successes, runs + 1))
        assert tail == pytest.approx(0.05, rel=1e-3)
    assert lower_bound(0, 5) == 0


def test_steps_to_counts_the_steps_made_before():
    errors = numpy.array([1, 1e-3, 1e-7, 1e-5, 1e-13])
    assert [steps_to(errors, float(level)) for level in LEVELS] == [2, 4, None]
    assert steps_to(errors[2:], 1e-6) == 0


def test_quantiles_are_values_that_occurred_and_failures_come_last():
    assert quantiles(list(range(100, 0, -1))) == Quantiles(lowest=1, q05=5, median=50, q95=95, highest=100)
    failed = quantiles([3, None, math.nan, 1])
    assert failed == Quantiles(lowest=1, q05=1, median=3, q95=None, highest=None)


def test_a_run_that_failed_is_counted_and_named():
    def run(response):
        return {"heldout_mse": response**2, "response_error": response, "steps": [None] * 3, "trace": [1.0, 0.1]}

    runs = [run(1e-15), run(2 * RECOVERED), run(math.nan), run(0.9 * RECOVERED)]
    result = summarise(runs, params.Train(lr=0.03, steps=2, batch_size=1))
    assert (result.recovered, result.size, result.not_recovered) == (2, 4, [1, 2])
    json.dumps(msgspec.to_builtins(result), allow_nan=False)


def test_committed_population_recovers():
    """The full-size claim: every run reaches rounding error, with no run near the criterion."""
    assert COMMITTED["parameters"] == {"lr": 0.03, "steps": 1200, "batch_size": 128}
    assert (COMMITTED["recovered"], COMMITTED["size"], COMMITTED["not_recovered"]) == (64, 64, [])
    assert COMMITTED["recovered_at_least"] == lower_bound(64, 64) > 0.954
    assert COMMITTED["response_error"]["highest"] < 1e-12 < RECOVERED / 1000
    assert COMMITTED["heldout_mse"]["lowest"] > 0 and COMMITTED["heldout_mse"]["highest"] < 1e-27


def test_the_runs_of_the_table_are_inside_the_committed_population():
    """Its seeds are among the population's: until rounding decides, at no step is their error outside of its range."""
    results = json.loads((ROOT / "metrics/results.json").read_text())
    bands = {band["step"]: band for band in COMMITTED["training"]}
    rows = [row for row in results["training"] if row["train_mse"] > 1e-20]
    assert {row["seed"] for row in rows} == {0, 1, 2} and len(rows) > 100
    outside = [
        row
        for row in rows
        if not bands[row["step"]]["lowest"] * (1 - 1e-6)
        <= row["train_mse"]
        <= bands[row["step"]]["highest"] * (1 + 1e-6)
    ]
    assert outside == []
