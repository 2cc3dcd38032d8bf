"""The student and its training."""

import itertools

import torch

import stages.student
from stages.evaluate import evaluate, row
from stages.recovery import leakage
from stages.student import batches, initialise, normals, predict, trace_steps, train
from stages.task import KEYS, PAYLOAD, QUERY, draw_heldout

KEYS = torch.tensor(KEYS, dtype=torch.float64)


def trained(mixing, seed=0, lr=0.03, steps=1200):
    normal = normals(seed)
    Wq, Wv = initialise(normal)
    for _ in train(Wq, Wv, batches(normal, 128, mixing, KEYS), KEYS, lr, steps):
        pass
    return Wq.detach(), Wv.detach()


def test_only_the_two_intended_matrices_are_trained(mixing, monkeypatch):
    given = []

    def spy(parameters, *rest, **settings):
        given.append(list(parameters))
        return adam(parameters, *rest, **settings)

    adam = stages.student.adam
    monkeypatch.setattr(stages.student, "adam", spy)
    Wq, Wv = initialise(normal := normals(0))
    before = [tensor.clone() for tensor in (Wq, Wv, mixing, KEYS)]
    list(train(Wq, Wv, batches(normal, 128, mixing, KEYS), KEYS, 0.03, 2))
    assert all(parameters[0] is Wq and parameters[1] is Wv and len(parameters) == 2 for parameters in given)
    assert len(given) == 2 and Wq.numel() + Wv.numel() == 54
    changed = [not torch.equal(*pair) for pair in zip(before, (Wq, Wv, mixing, KEYS), strict=True)]
    assert changed == [True, True, False, False]


def test_training_is_pytorchs_own_adam_bit_for_bit(mixing):
    Wq, Wv = initialise(normal := normals(0))
    Wq.requires_grad_()
    Wv.requires_grad_()
    optimizer = torch.optim.Adam([Wq, Wv], lr=0.03, fused=True)
    for request, records, target in itertools.islice(batches(normal, 128, mixing, KEYS), 20):
        optimizer.zero_grad()
        ((predict(Wq, Wv, request, records, KEYS) - target) ** 2).mean().backward()
        optimizer.step()
    ours = trained(mixing, steps=20)
    assert torch.equal(ours[0], Wq) and torch.equal(ours[1], Wv)


def test_another_orthogonal_mixing_gives_the_same_table(mixing):
    """The mixing hides the features but takes nothing away: the table, to its printed digits, does not depend on it."""
    other = torch.eye(9, dtype=torch.float64)
    rows = []
    for R in (mixing, other):
        rows.append(row(evaluate(*trained(R), *draw_heldout(0), R, KEYS, 5)))
    for name in ("erase_payload", "erase_query"):
        assert rows[0][name] == rows[1][name]
    for name in ("R2", "uniform"):
        assert abs(rows[0][name] - rows[1][name]) < 1e-12
    for name in ("log10_mse", "log10_shift", "log10_interchange"):
        assert max(rows[0][name], rows[1][name]) < -28


def test_training_starts_far_from_the_solution(mixing):
    """So that recovery is the training's work: the untrained maps read everything alike."""
    Wq, Wv = initialise(normals(0))
    assert leakage(mixing @ Wq, QUERY) > 0.5 and leakage(mixing @ Wv, PAYLOAD) > 0.5


def test_a_longer_run_starts_with_the_batches_of_a_shorter_one(mixing):
    stream = [list(itertools.islice(batches(normals(4), 16, mixing, KEYS), count)) for count in (3, 120)]
    assert all(torch.equal(a, b) for pair in zip(*stream, strict=False) for a, b in zip(*pair, strict=True))
    assert not torch.equal(stream[1][50][0], stream[1][0][0])


def test_the_trace_is_even_and_ends_with_the_last_step():
    assert trace_steps(3) == [1, 2, 3]
    assert len(trace_steps(1200)) == 120
    assert trace_steps(1205)[:2] == [10, 20] and trace_steps(1205)[-2:] == [1200, 1205]
