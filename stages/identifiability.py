"""What training can and cannot pin down: measures of one trained student whose keys or output may be learned too.

A student is the named weights Wq (9, 3), Wv (9, 3), keys (n, 3) and Wo (3, 3); its output projection Wo is the identity
unless it is learned. A leading axis on all but fixed weights is that of students side by side. Changes of basis that
leave every prediction alone are its gauge: (Wq A, keys A⁻ᵀ), (Wv B, B⁻¹ Wo), and a shift of all keys.
"""

import torch

from stages.recovery import ideal_response, r2_gap
from stages.student import predict
from stages.task import PAYLOAD, QUERY, mse

Student = dict[str, torch.Tensor]


def answer(student: Student, request: torch.Tensor, records: torch.Tensor) -> torch.Tensor:
    """The student's prediction (B, 3) for mixed inputs: request (B, 9), records (B, n, 9)."""
    return predict(student["Wq"], student["Wv"], request, records, student["keys"]) @ student["Wo"]


def change_query_basis(student: Student, A: torch.Tensor) -> Student:
    """The same predictions from other queries and keys: A (3, 3), invertible."""
    return student | {"Wq": student["Wq"] @ A, "keys": student["keys"] @ torch.linalg.inv(A).mT}


def swap_values(student: Student) -> Student:
    """The student with the first two columns of Wv swapped (article, "What does the value contribute?")."""
    return student | {"Wv": student["Wv"][..., [1, 0, 2]]}


def refitted_gap(found: torch.Tensor, true: torch.Tensor) -> float:
    """1 − R² of the worst coordinate, found, true (N, 3), after the best 3×3 map from one to the other: fitted on the
    first half, scored on the second. Not with lstsq's default driver, whose last bits differ from run to run."""
    half = len(found) // 2
    fit = torch.linalg.lstsq(found[:half], true[:half], driver="gels").solution
    return r2_gap(found[half:] @ fit, true[half:]).max().item()


def map_gap(found: torch.Tensor, true: torch.Tensor) -> float:
    """The squared error of a map's response (9, k), as a share of the true one."""
    return (((found - true) ** 2).sum() / (true**2).sum()).item()


def score_map(response: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """What latents do to the scores up to a constant, which softmax ignores: (9, n). No change of basis alters it."""
    return response @ (keys - keys.mean(0)).mT


def jacobian(student: Student, trains: tuple[str, ...], request: torch.Tensor, records: torch.Tensor) -> torch.Tensor:
    """How the predictions of B examples move with P trained scalars: (3 B, P).

    Each example gets a student of its own, side by side, so that three gradients of sums are all gradients there are.
    """
    copies = student | {name: student[name].repeat(len(request), 1, 1).requires_grad_() for name in trains}
    predictions = answer(copies, request.unsqueeze(1), records.unsqueeze(1)).squeeze(1)  # (B, 3)
    weights = [copies[name] for name in trains]
    gradients = [torch.autograd.grad(column.sum(), weights, retain_graph=True) for column in predictions.mT]
    return torch.cat([torch.cat([gradient.flatten(1) for gradient in each], 1) for each in gradients])


def spectrum(J: torch.Tensor) -> dict[str, float | int | None]:
    """The null dimension of JᵀJ among its scalars, and the gap that decides it: the smallest eigenvalue that is kept
    and the largest that counts as 0, as shares of the largest. They are the squares of J's singular values, which count
    if they are above max(shape) · ε · the largest, the usual bound for rounding in a computed rank."""
    values = torch.linalg.svdvals(J)
    values = values / values[0]
    rank = int((values > max(J.shape) * torch.finfo(J.dtype).eps).sum())
    dropped = values[rank].item() ** 2 if rank < len(values) else None
    return {
        "scalars": len(values),
        "null": len(values) - rank,
        "smallest_kept": values[rank - 1].item() ** 2,
        "largest_dropped": dropped,
    }


def noise_excess(J: torch.Tensor, noise: float, lr: float, batch_size: int) -> float:
    """The mean squared error that Adam keeps for ever when its targets are noisy, to the clean targets.

    Near the solution the error is half a quadratic form of H = 2/3 E JᵀJ per example, and a batch's gradient has the
    covariance κ H of the noise, κ = 2/3 noise²/batch_size. Adam divides it by the root mean square P of each scalar's
    gradient. The weights then spread as (lr κ / 2) P⁻¹, which solves the stationary equation of the linearised walk,
    P⁻¹H C + C H P⁻¹ = lr κ P⁻¹H P⁻¹, whatever P. P² is the diagonal of κ H + H C H: the noise, and the spread itself.
    Momentum and the batch's own H are left out: they add a sixth at the published settings, less at a lower lr. At the
    published stop P still remembers the first gradients, which takes about as much away.
    """
    H = 2 / 3 * J.mT @ J / (len(J) / 3)
    kappa = 2 / 3 * noise**2 / batch_size
    P = (kappa * H.diagonal()).sqrt()
    for _ in range(100):  # a fixed point, reached to rounding in a few dozen
        P = (kappa * H.diagonal() + lr * kappa / 2 * (H**2 / P).sum(1)).sqrt()
    return (lr * kappa / 4 * (H.diagonal() / P).sum()).item()


def measure(student: Student, request, records, mixing, keys, target, A) -> dict[str, float]:
    """All errors of one student, on latents request (B, 9) and records (B, n, 9).

    All but heldout_mse are on the scale of 1 − R².
    query, value: worst coordinate as it is; …_refitted: after the best 3×3 map; …_map: what no change of basis alters,
    score_map for queries and R Wv Wo for values. swap: after swap_values, against the prediction with its first two
    coordinates swapped. gauge: after change_query_basis by A, against the prediction.
    """
    observed = request @ mixing, records @ mixing
    query, value = observed[0] @ student["Wq"], (observed[1] @ student["Wv"]).flatten(0, 1)
    true_query, true_value = request[:, QUERY], records[..., PAYLOAD].flatten(0, 1)
    prediction = answer(student, *observed)
    scores = score_map(mixing @ student["Wq"], student["keys"])
    return {
        "heldout_mse": mse(prediction, target),
        "query": r2_gap(query, true_query).max().item(),
        "query_refitted": refitted_gap(query, true_query),
        "query_map": map_gap(scores, score_map(ideal_response(QUERY), keys)),
        "value": r2_gap(value, true_value).max().item(),
        "value_refitted": refitted_gap(value, true_value),
        "value_map": map_gap(mixing @ student["Wv"] @ student["Wo"], ideal_response(PAYLOAD)),
        "swap": r2_gap(answer(swap_values(student), *observed), prediction[:, [1, 0, 2]]).max().item(),
        "gauge": r2_gap(answer(change_query_basis(student, A), *observed), prediction).max().item(),
    }
