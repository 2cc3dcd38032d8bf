"""How well a student's linear map recovered the features it should read: nothing is refitted.

A map is measured by its response `mixing @ W` (9, 3): entry (i, j) is how much coordinate j of the map's output moves
when latent coordinate i grows by one (article, "Measure what the learned maps mean"). `reads` is the slice of the three
latent coordinates that it should read, QUERY or PAYLOAD.
"""

import math
import sys

import torch

from stages.results import Error


def error(prediction: torch.Tensor, target: torch.Tensor) -> Error:
    """The mean squared error of predictions (B, 3), with its sampling error."""
    by_example = ((prediction - target) ** 2).mean(-1)  # (B,)
    return Error(by_example.mean().item(), (by_example.std() / len(by_example) ** 0.5).item())


def ideal_response(reads: slice) -> torch.Tensor:
    """The response (9, 3) of a map that reads exactly its own three features."""
    return torch.eye(9, dtype=torch.float64)[:, reads]


def r2_gap(found: torch.Tensor, true: torch.Tensor) -> torch.Tensor:
    """1 − R² of each coordinate: found, true (..., 3) → (3,), at least 0.

    Computed as SSE / SST, because near 1 the difference 1 − R² would lose every digit.
    """
    found, true = found.flatten(0, -2), true.flatten(0, -2)
    return ((found - true) ** 2).sum(0) / ((true - true.mean(0)) ** 2).sum(0)


def response_error(response: torch.Tensor, reads: slice) -> float:
    """The greatest absolute deviation of any entry from the ideal response."""
    return (response - ideal_response(reads)).abs().max().item()


def leakage(response: torch.Tensor, reads: slice) -> float:
    """The Frobenius norm of the six rows that should be zero."""
    return _ignored(response, reads).norm().item()


def principal_angle(response: torch.Tensor, reads: slice) -> float:
    """The largest principal angle, in radians from 0 to π/2, between the subspace the map reads and the one it should.

    Its sine is the norm of what an orthonormal basis of the first has outside the second, which is exact for tiny
    angles where the cosine is 1 (Björck & Golub 1973).
    """
    basis = torch.linalg.qr(response).Q
    sine = torch.linalg.matrix_norm(_ignored(basis, reads), 2)
    return torch.asin(sine.clamp(max=1)).item()


def log10(mse: float) -> float:
    """The decimal logarithm of an error, of an error of exactly 0 that of the smallest normal number."""
    return math.log10(max(mse, sys.float_info.min))


def _ignored(response: torch.Tensor, reads: slice) -> torch.Tensor:
    return torch.cat([response[: reads.start], response[reads.stop :]])
