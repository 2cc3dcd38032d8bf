"""The task: nine known latent coordinates, hidden behind a fixed mixing, and the teacher that uses six of them."""

from collections.abc import Callable
from functools import partial

import torch

Normal = Callable[..., torch.Tensor]  # a stream of standard normals: normal(*shape) draws the next float64 tensor

QUERY, PAYLOAD, NOISE = slice(0, 3), slice(3, 6), slice(6, 9)  # columns of the latent coordinates
FEATURES = [f"{group} {i}" for group in ("query", "payload", "noise") for i in (1, 2, 3)]
REQUEST_SCALE = 1.8  # of the request's query features: it makes the attention sharper
KEYS = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))  # the vertices of a tetrahedron
HELDOUT = 4096  # held-out examples of each seed
CHUNK = 10  # training steps drawn at once; the order of the stream, and so every result, depends on it


def draw_mixing(generator: torch.Generator) -> torch.Tensor:
    """A random orthogonal matrix (9, 9), uniform over the group: `x = z @ mixing`.

    The QR of a normal matrix, with the sign that makes it unique (Mezzadri 2007, "How to generate random matrices
    from the classical compact groups").
    """
    q, r = torch.linalg.qr(torch.randn(9, 9, generator=generator, dtype=torch.float64))
    return q * r.diagonal().sign()


def draw_latents(normal: Normal, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Latent coordinates of `shape` examples: request (*shape, 9) and records (*shape, 4, 9), standard normal but
    for the request's scaled query features (article, "The task")."""
    request, records = normal(*shape, 9), normal(*shape, 4, 9)
    request[..., QUERY] *= REQUEST_SCALE
    return request, records


def draw_heldout(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The held-out latents of a run, request (4096, 9) and records (4096, 4, 9): those of the published run."""
    generator = torch.Generator().manual_seed(10_000 + seed)
    return draw_latents(partial(torch.randn, generator=generator, dtype=torch.float64), HELDOUT)


def attend(query: torch.Tensor, values: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Scaled dot-product attention of one query over its records.

    query (..., 3), values (..., n, 3), keys (n, 3) → (..., 3); keys of each run: (S, n, 3) with query (S, ..., 3).
    """
    weights = torch.softmax(query @ keys.mT / 3**0.5, dim=-1)  # (..., n)
    return (weights.unsqueeze(-2) @ values).squeeze(-2)


def teacher(request: torch.Tensor, records: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """The target (..., 3), from latent coordinates: the request's query features weigh the records' payloads."""
    return attend(request[..., QUERY], records[..., PAYLOAD], keys)


def uniform(records: torch.Tensor) -> torch.Tensor:
    """The baseline (..., 3) that knows the true payloads but not the request: every record weighs the same."""
    return records[..., PAYLOAD].mean(dim=-2)


def mse(prediction: torch.Tensor, target: torch.Tensor) -> float:
    """Mean squared error over examples and coordinates."""
    return ((prediction - target) ** 2).mean().item()
