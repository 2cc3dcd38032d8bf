"""The student: two trainable matrices, 54 numbers, that see mixed inputs and learn from the prediction error alone."""

from collections.abc import Iterator

import numpy
import torch
from torch.optim.adam import adam

from stages.task import CHUNK, Normal, attend, draw_latents, teacher

# The defaults of torch.optim.Adam, and its fused kernel: unfused, the square root differs between CPU models. The
# function does not load PyTorch's compiler as the class does, which takes longer than the training.
ADAM = {
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "weight_decay": 0,
    "amsgrad": False,
    "maximize": False,
    "fused": True,
}
INITIAL_SCALE = 0.2  # standard deviation of the initial weights


def normals(seed: int) -> Normal:
    """A run's own random stream, first of its initial weights, then of its batches; twice as fast as torch.randn."""
    generator = numpy.random.default_rng(seed)
    return lambda *shape: torch.from_numpy(generator.standard_normal(shape))


def initialise(normal: Normal) -> tuple[torch.Tensor, torch.Tensor]:
    """The untrained Wq (9, 3) and Wv (9, 3)."""
    return INITIAL_SCALE * normal(9, 3), INITIAL_SCALE * normal(9, 3)


def predict(Wq, Wv, request, records, keys) -> torch.Tensor:
    """The student's prediction (B, 3) for mixed inputs: request (B, 9), records (B, 4, 9), keys (4, 3)."""
    values = (records.flatten(0, 1) @ Wv).unflatten(0, records.shape[:2])  # one product for all records: (B, 4, 3)
    return attend(request @ Wq, values, keys)


def batches(normal: Normal, batch_size: int, mixing, keys) -> Iterator[tuple]:
    """An endless stream of fresh training batches: mixed request (B, 9), mixed records (B, 4, 9), target (B, 3)."""
    while True:
        request, records = draw_latents(normal, CHUNK, batch_size)
        yield from zip(request @ mixing, records @ mixing, teacher(request, records, keys), strict=True)


def train(Wq, Wv, stream, keys, lr: float, steps: int) -> Iterator[tuple[int, float]]:
    """Train Wq and Wv in place with Adam (Kingma & Ba 2015) on the batches of `stream`.

    After each step yields its number, from 1, and the mean squared error of its batch before the step.
    """
    weights = [Wq.requires_grad_(), Wv.requires_grad_()]
    means, squares = [torch.zeros_like(W) for W in weights], [torch.zeros_like(W) for W in weights]
    counts = [torch.zeros(()) for _ in weights]
    for step, (request, records, target) in zip(range(1, steps + 1), stream, strict=False):
        loss = ((predict(Wq, Wv, request, records, keys) - target) ** 2).mean()
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            adam(weights, gradients, means, squares, [], counts, lr=lr, **ADAM)
        yield step, loss.item()
