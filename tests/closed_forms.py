"""The expected errors in closed form, up to one Gaussian integral over the three query features.

Payloads are independent standard normals, so that attention weights a and b over the same records differ, in mean
squared error per coordinate, by E Σ_j (a_j − b_j)².
"""

import numpy as np

from stages.task import KEYS, REQUEST_SCALE

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
GRID = REQUEST_SCALE * np.stack(np.meshgrid(NODES, NODES, NODES, indexing="ij"), -1).reshape(-1, 3)
DENSITY = np.einsum("i,j,k->ijk", WEIGHTS, WEIGHTS, WEIGHTS).reshape(-1) / (2 * np.pi) ** 1.5


def attention(query: np.ndarray, keys=KEYS) -> np.ndarray:
    """Attention weights (n, number of keys) of queries (n, 3)."""
    scores = query @ np.array(keys).T / 3**0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def squared_distance(a: np.ndarray, b: np.ndarray | float) -> float:
    """E Σ_j (a_j − b_j)² over the query features."""
    return float(DENSITY @ ((a - b) ** 2).sum(-1))


A = attention(GRID)
ZERO_PREDICTOR = squared_distance(A, 0)
UNIFORM = squared_distance(A, 1 / 4)
UNIFORM_THREE_KEYS = squared_distance(attention(GRID, KEYS[:3]), 1 / 3)
ERASE_ONE_QUERY = squared_distance(A, attention(GRID * [0, 1, 1]))
ERASE_ONE_PAYLOAD = ZERO_PREDICTOR / 3
RESAMPLE_ONE_PAYLOAD = 2 * ZERO_PREDICTOR / 3
