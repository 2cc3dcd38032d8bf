"""Interventions on known latent coordinates (article, "Do the recovered features affect the prediction?").

Each changes the latents, request (B, 9) or records (B, 4, 9), and mixes nothing: `answer` is the student's prediction
and `truth` the teacher's, both functions of the latents (request, records) → (B, 3).
"""

import torch

from stages.recovery import error
from stages.results import Error
from stages.task import FEATURES, NOISE, PAYLOAD, QUERY

IRRELEVANT = {  # the coordinates each input's map should ignore
    "request": [*range(9)[PAYLOAD], *range(9)[NOISE]],
    "records": [*range(9)[QUERY], *range(9)[NOISE]],
}


def erase(latents: torch.Tensor, feature: int | slice) -> torch.Tensor:
    """The latents with one coordinate, or a group of them, set to 0."""
    changed = latents.clone()
    changed[..., feature] = 0
    return changed


def shift(latents: torch.Tensor, features: list[int], by: float) -> torch.Tensor:
    """The latents with `by` added to some coordinates."""
    changed = latents.clone()
    changed[..., features] += by
    return changed


def interchange(latents: torch.Tensor, feature: int) -> torch.Tensor:
    """The latents with one coordinate taken from the example before (the first takes the last's)."""
    changed = latents.clone()
    changed[..., feature] = latents[..., feature].roll(1, 0)
    return changed


def intervene(answer, truth, request: torch.Tensor, records: torch.Tensor, by: float) -> dict[str, dict[str, Error]]:
    """Every single intervention's result, a mean squared error with its sampling error.

    erase_query, erase_payload: the prediction against the original target, by feature; erase_group: all three at once.
    shift: how far the prediction moves when `by` is added to all irrelevant coordinates, and to each alone, because
    leaks of opposite sign cancel in the sum.
    interchange: the student's answer against the teacher's answer to the same interchange (Geiger et al. 2021, "Causal
    abstractions of neural networks"); interchange_effect: how far it moves the teacher's answer. Neighbours share what
    they exchange: the sampling error of interchange_effect is some 6 % larger than that of independent examples.
    """
    target, prediction = truth(request, records), answer(request, records)
    query, payload = range(9)[QUERY], range(9)[PAYLOAD]

    shifted = {"all": (shift(request, IRRELEVANT["request"], by), shift(records, IRRELEVANT["records"], by))}
    shifted |= {f"request {FEATURES[i]}": (shift(request, [i], by), records) for i in IRRELEVANT["request"]}
    shifted |= {f"records {FEATURES[i]}": (request, shift(records, [i], by)) for i in IRRELEVANT["records"]}
    swapped = {FEATURES[i]: (interchange(request, i), records) for i in query}
    swapped |= {FEATURES[i]: (request, interchange(records, i)) for i in payload}

    return {
        "erase_query": {FEATURES[i]: error(answer(erase(request, i), records), target) for i in query},
        "erase_payload": {FEATURES[i]: error(answer(request, erase(records, i)), target) for i in payload},
        "erase_group": {
            "query": error(answer(erase(request, QUERY), records), target),
            "payload": error(answer(request, erase(records, PAYLOAD)), target),
        },
        "shift": {name: error(answer(*latents), prediction) for name, latents in shifted.items()},
        "interchange": {name: error(answer(*latents), truth(*latents)) for name, latents in swapped.items()},
        "interchange_effect": {name: error(truth(*latents), target) for name, latents in swapped.items()},
    }
