"""The student: two trainable matrices, 54 numbers, that see mixed inputs and learn from the prediction error alone."""

from collections.abc import Iterator

import numpy
import torch
from numpy.random import SFC64, Generator
from torch.optim.adam import adam

from stages.task import CHUNK, Normal, attend, draw_latents, teacher

# The defaults of torch.optim.Adam, and its fused kernel: unfused, the square root differs between CPU models. The
# function does not load PyTorch's compiler as the class does, which takes longer than the training.
ADAM = {
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "weight_decay": 0,
    "maximize": False,
    "fused": True,
}
INITIAL_SCALE = 0.2  # standard deviation of the initial weights
TRACE_ROWS = 120


def normals(seed: int | tuple[int, int]) -> Normal:
    """A run's own random stream, first of its initial weights, then of its batches. Drawing is a third of the training
    of many runs side by side: NumPy's SFC64 takes half the time of torch.randn."""
    generator = Generator(SFC64(seed))
    return lambda *shape: torch.from_numpy(generator.standard_normal(shape))


def side_by_side(seeds: list[int] | list[tuple[int, int]]) -> Normal:
    """The streams of several runs as one, with a leading axis: each run's numbers are those of its own stream."""
    generators = [Generator(SFC64(seed)) for seed in seeds]

    def normal(*shape: int) -> torch.Tensor:
        drawn = numpy.empty((len(generators), *shape))
        for generator, out in zip(generators, drawn, strict=True):
            generator.standard_normal(out=out)
        return torch.from_numpy(drawn)

    return normal


def initialise(normal: Normal) -> tuple[torch.Tensor, torch.Tensor]:
    """The untrained Wq (9, 3) and Wv (9, 3)."""
    return INITIAL_SCALE * normal(9, 3), INITIAL_SCALE * normal(9, 3)


def predict(Wq, Wv, request, records, keys) -> torch.Tensor:
    """The student's prediction (B, 3) for mixed inputs: request (B, 9), records (B, 4, 9), keys (4, 3).

    A leading axis, Wq (S, 9, 3) to records (S, B, 4, 9), is that of S students side by side; keys have it if learned.
    """
    values = (records.flatten(-3, -2) @ Wv).unflatten(-2, records.shape[-3:-1])  # all records in one product
    return attend(request @ Wq, values, keys)


def batches(normal: Normal, batch_size: int, mixing, keys) -> Iterator[tuple]:
    """An endless stream of fresh training batches: mixed request (B, 9), mixed records (B, 4, 9), target (B, 3)."""
    while True:
        request, records = draw_latents(normal, CHUNK, batch_size)
        yield from one_by_one(request @ mixing, records @ mixing, teacher(request, records, keys))


def one_by_one(request, records, target) -> Iterator[tuple]:
    """The batches of a chunk of steps: request (..., CHUNK, B, 9), records (..., CHUNK, B, 4, 9), target as request."""
    return zip(request.movedim(-3, 0), records.movedim(-4, 0), target.movedim(-3, 0), strict=True)


def train(Wq, Wv, stream, keys, lr: float, steps: int) -> Iterator[tuple[int, float | list[float]]]:
    """Train Wq (9, 3) and Wv (9, 3) in place on the batches of `stream`; or S students, (S, 9, 3), side by side.

    After each step yields its number, from 1, and the mean squared error of its batch before the step: of each student.
    """
    return descend([Wq, Wv], lambda *inputs: predict(Wq, Wv, *inputs, keys), stream, lr, steps)


def descend(weights, answer, stream, lr: float, steps: int, amsgrad: bool = False):
    """Train any weights in place with Adam (Kingma & Ba 2015), or AMSGrad (Reddi et al. 2018), as `train` does.

    `answer` maps mixed inputs, request and records, to the prediction. Students side by side share no weight, so that
    the gradient of their summed errors is each one's own.
    """
    weights = [W.requires_grad_() for W in weights]
    means, squares = ([torch.zeros_like(W) for W in weights] for _ in range(2))
    highest = [torch.zeros_like(W) for W in weights] if amsgrad else []
    counts = [torch.zeros(()) for _ in weights]
    for step, (request, records, target) in zip(range(1, steps + 1), stream, strict=False):
        loss = ((answer(request, records) - target) ** 2).mean((-2, -1))
        gradients = torch.autograd.grad(loss.sum(), weights)
        with torch.no_grad():
            adam(weights, gradients, means, squares, highest, counts, amsgrad=amsgrad, lr=lr, **ADAM)
        yield step, loss.tolist()


def trace_steps(steps: int) -> list[int]:
    """The steps whose errors are kept, some TRACE_ROWS of them: at even distances, and the last."""
    spacing = max(1, steps // TRACE_ROWS)
    return [step for step in range(1, steps + 1) if step % spacing == 0 or step == steps]
