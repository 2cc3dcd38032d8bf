"""Interventions on known latent coordinates (article, "Do the recovered features affect the prediction?").

Each changes the latents, request (B, 9) or records (B, 4, 9), and mixes nothing: `answer` is the student's prediction
and `truth` the teacher's, both functions of the latents (request, records) → (B, 3).
"""

import torch

from stages.task import FEATURES, NOISE, PAYLOAD, QUERY, mse

IRRELEVANT = {  # the coordinates each input's map should ignore
    "request": [*range(9)[PAYLOAD], *range(9)[NOISE]],
    "records": [*range(9)[QUERY], *range(9)[NOISE]],
}


def erase(latents: torch.Tensor, feature: int) -> torch.Tensor:
    """The latents with one coordinate set to 0."""
    changed = latents.clone()
    changed[..., feature] = 0
    return changed


def shift(latents: torch.Tensor, features: list[int], by: float) -> torch.Tensor:
    """The latents with `by` added to some coordinates."""
    changed = latents.clone()
    changed[..., features] += by
    return changed


def interchange(latents: torch.Tensor, feature: int) -> torch.Tensor:
    """The latents with one coordinate taken from the next example (the last takes the first's)."""
    changed = latents.clone()
    changed[..., feature] = latents[..., feature].roll(1, 0)
    return changed


def measure(answer, truth, request: torch.Tensor, records: torch.Tensor, by: float) -> dict:
    """Every single intervention's result, as mean squared errors.

    erase_query, erase_payload: the prediction against the original target, by feature.
    shift_all: how far the prediction moves when `by` is added to every irrelevant coordinate at once.
    shift_one: the same for each alone, because leaks of opposite sign cancel in the sum.
    interchange: `mse` is the student's answer against the teacher's answer to the same interchange, `effect` how far
    the interchange moves the teacher's answer (Geiger et al. 2021, "Causal abstractions of neural networks").
    """
    target, prediction = truth(request, records), answer(request, records)

    def interchanged(*latents):
        counterfactual = truth(*latents)
        return {"mse": mse(answer(*latents), counterfactual), "effect": mse(counterfactual, target)}

    return {
        "erase_query": {FEATURES[i]: mse(answer(erase(request, i), records), target) for i in range(9)[QUERY]},
        "erase_payload": {FEATURES[i]: mse(answer(request, erase(records, i)), target) for i in range(9)[PAYLOAD]},
        "shift_all": mse(
            answer(shift(request, IRRELEVANT["request"], by), shift(records, IRRELEVANT["records"], by)), prediction
        ),
        "shift_one": {
            **{
                f"request {FEATURES[i]}": mse(answer(shift(request, [i], by), records), prediction)
                for i in IRRELEVANT["request"]
            },
            **{
                f"records {FEATURES[i]}": mse(answer(request, shift(records, [i], by)), prediction)
                for i in IRRELEVANT["records"]
            },
        },
        "interchange": {
            **{FEATURES[i]: interchanged(interchange(request, i), records) for i in range(9)[QUERY]},
            **{FEATURES[i]: interchanged(request, interchange(records, i)) for i in range(9)[PAYLOAD]},
        },
    }
