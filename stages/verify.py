"""Stage `verify`: every claim, published or predicted, beside what was measured, and whether it holds.

`python -m stages.verify --against HEAD` tells of a fresh run whether it has the committed numbers: identical, within
rounding (as on another kind of processor, where the last bits differ), or different.
"""

import argparse
import subprocess
import sys

import msgspec

from stages import InputError, files, params
from stages.claims import judge_all, leaves, read_claims, rounding, table
from stages.results import Population, Results, Study

SQUARED = {"mse", "standard_error", "r2_gap", "train_mse", "heldout_mse"}  # compared as their square roots


def compare(fresh: dict, committed: dict, shift: float) -> list[tuple[str, str, float]]:
    """Metric by metric: its name, "identical", "within rounding" or "different", and the largest difference."""
    fresh, committed = leaves(fresh), leaves(committed)
    worst: dict[str, tuple[bool, float]] = {}
    for name in fresh | committed:
        metric = ".".join(part for part in name.split(".") if not (part.isdigit() or " " in part))
        a, b = fresh.get(name), committed.get(name)
        if not all(isinstance(value, int | float) for value in (a, b)):
            difference = 0.0 if a == b else float("inf")
        elif metric.rpartition(".")[2] in SQUARED:
            difference = abs(a**0.5 - b**0.5)
        else:
            difference = abs(a - b)
        same, largest = worst.get(metric, (True, 0.0))
        worst[metric] = (same and a == b, max(largest, difference))

    def verdict(metric: str, same: bool, largest: float) -> str:
        if same:
            return "identical"
        close = largest <= rounding(metric, shift) and not metric.startswith("parameters.")
        return "within rounding" if close else "different"

    return [(metric, verdict(metric, same, largest), largest) for metric, (same, largest) in worst.items()]


def against(revision: str) -> int:
    """Compare metrics/results.json with that of a Git revision and print it; 0 if all is the same but for rounding."""
    place = f"{revision}:./metrics/results.json"
    shown = subprocess.run(["git", "show", "--end-of-options", place], capture_output=True)
    if shown.returncode:
        reason = shown.stderr.decode(errors="replace").strip()
        raise InputError(f"no metrics/results.json in the Git revision {revision!r}: {reason}")
    fresh = files.read_json("metrics/results.json", Results)
    try:
        committed = msgspec.json.decode(shown.stdout, type=Results)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"metrics/results.json of the Git revision {revision!r} cannot be read: {error}") from error
    seeds = fresh.seeds.keys() & committed.seeds.keys()
    pair = [msgspec.to_builtins(only(seeds, results)) for results in (fresh, committed)]
    rows = compare(*pair, fresh.parameters.interventions.shift)
    width = max(len(metric) for metric, _, _ in rows)
    for metric, verdict, largest in rows:
        print(f"{metric:{width}}  {verdict}" + (f"  {largest:.1e}" if 0 < largest < float("inf") else ""))
    verdicts = [verdict for _, verdict, _ in rows]
    print(f"{len(rows)} metrics: " + ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(sorted(verdicts))))
    for seed in sorted(fresh.seeds.keys() ^ committed.seeds.keys(), key=int):
        print(f"not compared: seed {seed}, which only {'this run' if seed in fresh.seeds else revision} has")
    return int("different" in verdicts or fresh.seeds.keys() != committed.seeds.keys())


def only(seeds: set[str], results: Results) -> Results:
    """The results of these seeds."""
    return msgspec.structs.replace(
        results,
        seeds={seed: result for seed, result in results.seeds.items() if seed in seeds},
        training=[row for row in results.training if str(row.seed) in seeds],
    )


def studied(population: Population, studies: dict[str, Study]) -> list[dict]:
    """The rows of the population, whose runs should all recover, and of each study."""
    counts = [("runs that recover all features", population.recovered, population.size, "stages/population.py")]
    for name, study in studies.items():
        held = sum(prediction.held for prediction in study.theory)
        counts.append((f"predictions for {name.replace('-', ' ')}", held, len(study.theory), "stages/variants.py"))
    return [
        {
            "claim": claim,
            "source": source,
            "measured": [held, held],
            "expected": total,
            "band": [total, total],
            "holds": held == total,
        }
        for claim, held, total, source in counts
    ]


def main() -> None:
    listed = params.load().ablations
    files.discard("metrics/ablations", ".json", lambda name: name not in listed)
    rows = judge_all(read_claims(), files.read_json("metrics/results.json", Results))
    rows += studied(
        files.read_json("metrics/population.json", Population),
        {name: files.read_json(f"metrics/ablations/{name}.json", Study) for name in listed},
    )
    judged = [row["holds"] for row in rows if row["holds"] is not None]
    held, total, not_run = sum(judged), len(judged), len(rows) - len(judged)
    files.write_json("metrics/claims.json", {"held": held, "total": total, "claims": rows})
    text = f"{table(rows)}\n{held} of {total} claims hold{f', {not_run} not run' if not_run else ''}\n"
    files.write("data/claims.md", text.encode())
    print(text, end="")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--against", metavar="REVISION", help="compare with the metrics of a Git revision, such as HEAD"
    )
    revision = parser.parse_args().against
    main() if revision is None else sys.exit(against(revision))
