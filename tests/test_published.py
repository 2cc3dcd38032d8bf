"""The committed metrics against the published table: to its last printed digit, or within its bounds."""

import json

import pytest

from tests.conftest import ROOT

RESULTS = json.loads((ROOT / "metrics/results.json").read_text())
SEEDS = RESULTS["seeds"]


def errors(kind):
    return [tried["mse"] for result in SEEDS.values() for tried in result["interventions"][kind].values()]


def test_the_results_are_of_the_published_settings():
    assert RESULTS["parameters"]["train"] == {"lr": 0.03, "steps": 1200, "batch_size": 128}
    assert list(SEEDS) == ["0", "1", "2"]
    assert RESULTS["parameters"]["interventions"] == {"shift": 5}


@pytest.mark.parametrize(("seed", "uniform"), [("0", "0.332"), ("1", "0.332"), ("2", "0.334")])
def test_heldout_errors_and_r2(seed, uniform):
    result = SEEDS[seed]
    assert 0 < result["heldout"]["mse"] < 1e-29
    assert f"{result['uniform']['mse']:.3f}" == uniform
    assert min(result["query"]["r2"] + result["value"]["r2"]) > 0.999999
    assert max(result["query"]["r2_gap"] + result["value"]["r2_gap"]) < 1e-29


@pytest.mark.parametrize(("kind", "low", "high"), [("erase_query", 0.139, 0.153), ("erase_payload", 0.188, 0.207)])
def test_erasures(kind, low, high):
    assert len(errors(kind)) == 9
    assert round(min(errors(kind)), 3) == low
    assert round(max(errors(kind)), 3) == high


def test_shift_and_interchange():
    assert max(errors("shift")) < 1e-28
    assert max(errors("interchange")) < 1e-29


def test_responses():
    for result in SEEDS.values():
        for recovered in (result["query"], result["value"]):
            assert max(recovered["response_error"], recovered["leakage"], recovered["principal_angle"]) < 1e-14
