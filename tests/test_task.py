"""The task and its teacher: the article's own checks, and the recipe of the published held-out sets."""

import pytest
import torch

from stages.recovery import error
from stages.student import normals, predict
from stages.task import (
    KEYS,
    PAYLOAD,
    QUERY,
    REQUEST_SCALE,
    attend,
    draw_heldout,
    draw_latents,
    draw_mixing,
    mse,
    teacher,
    uniform,
)
from tests import closed_forms

KEYS = torch.tensor(KEYS, dtype=torch.float64)


def test_the_known_solution_reproduces_the_teacher_after_mixing(mixing):
    request, records = draw_heldout(0)
    prediction = predict(mixing.T[:, QUERY], mixing.T[:, PAYLOAD], request @ mixing, records @ mixing, KEYS)
    assert mse(prediction, teacher(request, records, KEYS)) < 1e-29


def test_the_key_differences_span_all_three_query_directions():
    assert torch.linalg.matrix_rank(KEYS[1:] - KEYS[0]) == 3
    assert torch.linalg.matrix_rank(KEYS[1:3] - KEYS[0]) == 2  # three keys leave one direction undetermined


def test_the_articles_arithmetic():
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    values = torch.tensor([[1, 0, 0], [0, 2, 0], [0, 0, 3], [1, 1, 1]], dtype=torch.float64)
    keys = torch.zeros(4, 3, dtype=torch.float64)
    keys[:, 0] = weights.log() * 3**0.5  # the query (1, 0, 0) attends with exactly these weights
    query = torch.tensor([1, 0, 0], dtype=torch.float64)
    assert attend(query, values, keys).tolist() == pytest.approx([0.5, 0.8, 1.3], abs=1e-15)
    assert attend(query, values[:, [1, 0, 2]], keys).tolist() == pytest.approx([0.8, 0.5, 1.3], abs=1e-15)


def test_swapping_two_value_columns_swaps_two_predicted_coordinates(mixing):
    normal = torch.Generator().manual_seed(1)
    Wq, Wv = torch.randn(2, 9, 3, generator=normal, dtype=torch.float64)
    request, records = (latents @ mixing for latents in draw_heldout(0))
    swapped = predict(Wq, Wv[:, [1, 0, 2]], request, records, KEYS)
    assert torch.equal(swapped, predict(Wq, Wv, request, records, KEYS)[:, [1, 0, 2]])


def test_the_mixing_is_orthogonal_and_has_no_preferred_sign(mixing):
    assert torch.allclose(mixing @ mixing.T, torch.eye(9, dtype=torch.float64), atol=1e-14, rtol=0)
    corners = [draw_mixing(torch.Generator().manual_seed(seed))[0, 0].item() for seed in range(100)]
    assert 25 < sum(corner > 0 for corner in corners) < 75  # LAPACK's own sign would make all 100 alike


def test_only_the_requests_query_features_are_scaled():
    request, records = draw_heldout(0)
    scale = torch.ones(9, dtype=torch.float64)
    assert torch.allclose(records.std((0, 1)), scale, rtol=0.03)
    scale[QUERY] = REQUEST_SCALE
    assert torch.allclose(request.std(0), scale, rtol=0.05)


@pytest.mark.parametrize(("seed", "published"), [(0, "0.332"), (1, "0.332"), (2, "0.334")])
def test_the_heldout_sets_are_the_published_ones(seed, published):
    request, records = draw_heldout(seed)
    assert f"{mse(uniform(records), teacher(request, records, KEYS)):.3f}" == published


def test_the_teachers_errors_agree_with_their_closed_forms():
    request, records = draw_latents(normals(3), 200_000)
    target = teacher(request, records, KEYS)
    for prediction, expected in [
        (uniform(records), closed_forms.UNIFORM),
        (torch.zeros_like(target), closed_forms.ZERO_PREDICTOR),
    ]:
        measured = error(prediction, target)
        assert abs(measured.mse - expected) < 4 * measured.standard_error
