"""The measures of recovery against answers known beforehand."""

import math

import pytest
import torch

from stages.recovery import ideal_response, leakage, principal_angle, r2_gap, response_error
from stages.task import PAYLOAD, QUERY

GROUPS = pytest.mark.parametrize("reads", [QUERY, PAYLOAD], ids=["query", "payload"])


@GROUPS
def test_the_ideal_response_has_no_error(reads):
    response = ideal_response(reads)
    assert response[reads].equal(torch.eye(3, dtype=torch.float64))
    assert response_error(response, reads) == leakage(response, reads) == principal_angle(response, reads) == 0


@GROUPS
@pytest.mark.parametrize("size", [1e-15, 1e-6, 0.5])
def test_a_known_leak_has_its_known_size(reads, size):
    response = ideal_response(reads)
    response[8, 1] = size  # a noise feature
    assert response_error(response, reads) == size
    assert leakage(response, reads) == size
    assert principal_angle(response, reads) == pytest.approx(math.atan(size), rel=1e-12)


def test_leaks_of_several_rows_add_in_squares():
    response = ideal_response(QUERY)
    response[4, 0], response[8, 2] = 3e-9, 4e-9
    assert leakage(response, QUERY) == pytest.approx(5e-9, rel=1e-15)


def test_the_angle_is_the_subspaces_and_not_the_basis():
    generator = torch.Generator().manual_seed(0)
    response = torch.randn(9, 3, generator=generator, dtype=torch.float64)
    rebased = response @ torch.randn(3, 3, generator=generator, dtype=torch.float64)
    assert principal_angle(rebased, QUERY) == pytest.approx(principal_angle(response, QUERY), rel=1e-12)
    assert principal_angle(ideal_response(PAYLOAD), QUERY) == pytest.approx(math.pi / 2)


def test_a_rotation_within_the_right_subspace_is_an_error_but_no_leak():
    response = ideal_response(QUERY)[:, [1, 0, 2]]
    assert response_error(response, QUERY) == 1
    assert leakage(response, QUERY) == principal_angle(response, QUERY) == 0


def test_the_gap_of_r2_does_not_saturate():
    epsilon = torch.finfo(torch.float64).eps
    true = torch.tensor([[1, 2, 4], [-1, -2, -4]], dtype=torch.float64)
    found = true.clone()
    found[0, 0] += epsilon
    gaps = r2_gap(found, true)
    assert gaps.tolist() == [epsilon**2 / 2, 0, 0]
    assert 1 - gaps[0] == 1  # where R² itself has lost it
    assert r2_gap(torch.zeros_like(true), true).tolist() == [1, 1, 1]


def test_r2_is_taken_without_any_refit():
    """A rescaled or swapped coordinate is not a recovered one, though a linear probe would call it that."""
    true = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    true -= true.mean(0)
    assert r2_gap(2 * true, true).tolist() == pytest.approx([1, 1, 1])
    assert r2_gap(true[:, [1, 0, 2]], true)[:2].min() > 1.5
