"""The interventions on students whose answers are known beforehand."""

import msgspec
import pytest
import torch

from stages.evaluate import evaluate
from stages.recovery import ideal_response
from stages.task import KEYS, PAYLOAD, QUERY, draw_heldout
from tests import closed_forms

KEYS = torch.tensor(KEYS, dtype=torch.float64)


def measured(mixing, query=None, value=None, seed=0):
    """All measurements of the student whose response maps are given; by default the ideal ones."""
    query = ideal_response(QUERY) if query is None else query
    value = ideal_response(PAYLOAD) if value is None else value
    return msgspec.to_builtins(evaluate(mixing.T @ query, mixing.T @ value, *draw_heldout(seed), mixing, KEYS, 5))


@pytest.fixture(scope="module")
def ideal(mixing):
    return measured(mixing)


def test_the_ideal_student_has_no_error(ideal):
    assert ideal["heldout"]["mse"] < 1e-30
    for recovered in (ideal["query"], ideal["value"]):
        assert max(recovered["r2_gap"]) < 1e-30
        assert max(recovered["response_error"], recovered["leakage"], recovered["principal_angle"]) < 2e-15


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("erase_query", closed_forms.ERASE_ONE_QUERY), ("erase_payload", closed_forms.ERASE_ONE_PAYLOAD)],
)
def test_erasures_agree_with_their_closed_forms(ideal, kind, expected):
    errors = ideal["interventions"][kind].values()
    assert len(errors) == 3
    assert all(abs(error["mse"] - expected) < 4 * error["standard_error"] < 0.03 for error in errors)


def test_erasing_a_whole_group_leaves_the_baselines(ideal):
    """Without its query the student attends uniformly; without payloads it predicts zero."""
    erased = ideal["interventions"]["erase_group"]
    assert erased["query"]["mse"] == pytest.approx(ideal["uniform"]["mse"], rel=1e-12)
    expected, zero = closed_forms.ZERO_PREDICTOR, erased["payload"]
    assert abs(zero["mse"] - expected) < 4 * zero["standard_error"] < 0.04


def test_irrelevant_coordinates_do_not_move_the_ideal_student(ideal):
    assert max(shift["mse"] for shift in ideal["interventions"]["shift"].values()) < 1e-28
    assert len(ideal["interventions"]["shift"]) == 13


def test_a_value_leak_moves_the_prediction_by_its_own_size(mixing):
    """The weights sum to 1, so that a leak ℓ from one coordinate of all records moves one output by 5 ℓ exactly."""
    value = ideal_response(PAYLOAD)
    value[8, 0] = 1e-6
    shifts = measured(mixing, value=value)["interventions"]["shift"]
    assert shifts["records noise 3"]["mse"] == pytest.approx((5e-6) ** 2 / 3, rel=1e-6)
    assert shifts["records noise 2"]["mse"] < 1e-28


def test_leaks_of_opposite_sign_cancel_together_but_not_alone(mixing):
    value = ideal_response(PAYLOAD)
    value[7, 0], value[8, 0] = 1e-6, -1e-6
    shifts = measured(mixing, value=value)["interventions"]["shift"]
    assert shifts["all"]["mse"] < 1e-28
    assert shifts["records noise 2"]["mse"] == pytest.approx((5e-6) ** 2 / 3, rel=1e-6)


def test_the_ideal_student_answers_interchanges_as_the_teacher_does(ideal):
    assert len(ideal["interventions"]["interchange"]) == 6
    assert max(swap["mse"] for swap in ideal["interventions"]["interchange"].values()) < 1e-30


def test_an_interchange_changes_the_answer(ideal):
    """Else agreeing on it would show nothing."""
    effects = ideal["interventions"]["interchange_effect"]
    for feature in ("payload 1", "payload 2", "payload 3"):
        off = abs(effects[feature]["mse"] - closed_forms.RESAMPLE_ONE_PAYLOAD)
        assert off < 4 * effects[feature]["standard_error"] < 0.05
    assert min(effects[f"query {i}"]["mse"] for i in (1, 2, 3)) > 0.2


def test_a_student_that_reads_another_feature_fails_its_interchange(mixing):
    value = ideal_response(PAYLOAD)
    value[3, 0], value[6, 0] = 0, 1  # the first value coordinate reads noise 1 in place of payload 1
    result = measured(mixing, value=value)["interventions"]
    assert result["interchange"]["payload 1"]["mse"] > 0.3
    assert result["shift"]["records noise 1"]["mse"] == pytest.approx(25 / 3)
