"""Stage `evaluate`: what every trained student recovered, measured on its held-out examples and by interventions."""

import msgspec

from stages import files, params, tensors
from stages.interventions import intervene
from stages.recovery import error, leakage, log10, principal_angle, r2_gap, response_error
from stages.results import Parameters, Recovered, Result, Results, Shift, TraceRow
from stages.student import predict
from stages.task import HELDOUT, PAYLOAD, QUERY, teacher, uniform


def evaluate(Wq, Wv, request, records, mixing, keys, shift: float) -> Result:
    """All measurements of one student, from its held-out latents request (B, 9) and records (B, 4, 9)."""

    def answer(request, records):
        return predict(Wq, Wv, request @ mixing, records @ mixing, keys)

    def truth(request, records):
        return teacher(request, records, keys)

    def recovered(W, latents, reads):
        gaps, response = r2_gap(latents @ mixing @ W, latents[..., reads]), mixing @ W
        return Recovered(
            r2=(1 - gaps).tolist(),
            r2_gap=gaps.tolist(),
            response=response.tolist(),
            response_error=response_error(response, reads),
            leakage=leakage(response, reads),
            principal_angle=principal_angle(response, reads),
            weights=W.tolist(),
        )

    target = truth(request, records)
    return Result(
        heldout=error(answer(request, records), target),
        uniform=error(uniform(records), target),
        query=recovered(Wq, request, QUERY),
        value=recovered(Wv, records, PAYLOAD),
        interventions=intervene(answer, truth, request, records, shift),
    )


def row(result: Result) -> dict[str, float | str]:
    """A student's line in the table, in forms that `dvc metrics show` does not round to 0: the lowest R², the ranges of
    both erasures over their three features, the uniform baseline, and log10 of what is tiny, the worst of its kind."""
    errors = {kind: [tried.mse for tried in each.values()] for kind, each in result.interventions.items()}
    return {
        "R2": min(result.query.r2 + result.value.r2),
        "erase_payload": f"{min(errors['erase_payload']):.3f}-{max(errors['erase_payload']):.3f}",
        "erase_query": f"{min(errors['erase_query']):.3f}-{max(errors['erase_query']):.3f}",
        "log10_interchange": log10(max(errors["interchange"])),
        "log10_mse": log10(result.heldout.mse),
        "log10_shift": log10(max(errors["shift"])),
        "uniform": result.uniform.mse,
    }


def main() -> None:
    settings = params.load()
    for directory, suffix in [("models", ".safetensors"), ("plots/training", ".csv")]:
        files.discard(directory, suffix, lambda name: name.isdecimal() and int(name) not in settings.seeds)
    mixing, keys = tensors.load("data/mixing.safetensors", mixing=(9, 9), keys=(4, 3))

    results, traces = {}, []
    for seed in settings.seeds:
        latents = tensors.load(f"data/heldout/{seed}.safetensors", request=(HELDOUT, 9), records=(HELDOUT, 4, 9))
        weights = tensors.load(f"models/{seed}.safetensors", Wq=(9, 3), Wv=(9, 3))
        results[str(seed)] = evaluate(*weights, *latents, mixing, keys, settings.interventions.shift)
        traces += files.read_csv(f"plots/training/{seed}.csv", TraceRow, seed=seed)
        files.write_json(f"metrics/seeds/{seed}.json", row(results[str(seed)]))

    parameters = Parameters(
        settings.seeds,
        mixing=msgspec.to_builtins(settings.mixing),
        train=msgspec.to_builtins(settings.train),
        interventions=Shift(settings.interventions.shift),
    )
    files.write_json(
        "metrics/results.json", Results(parameters, keys.tolist(), mixing.tolist(), results, training=traces)
    )
    worst = max(result.heldout.mse for result in results.values())
    print(f"{len(results)} seeds: highest held-out MSE {worst:.2e}")


if __name__ == "__main__":
    main()
