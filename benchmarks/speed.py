"""How long the pipeline takes, beside the same work in one straight process without DVC: `python benchmarks/speed.py`.

Works in a temporary clone of the committed project. Wall-clock seconds; medians over ROUNDS, pairs taken in turn.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROUNDS = 3
STAGES = ["generate", "train", "evaluate", "render"]
ONE_PROCESS = """
import stages.generate, stages.train, stages.evaluate, stages.render
stages.generate.main()
for seed in (0, 1, 2):
    stages.train.main(seed)
stages.evaluate.main()
stages.render.main()
"""
WAYS = {
    "dvc repro": "dvc repro --force render",
    "a process for each stage": " && ".join(
        f"python -m stages.{stage}" for stage in ["generate", "train 0", "train 1", "train 2", "evaluate", "render"]
    ),
    "one process": f"python -c '{ONE_PROCESS}'",
}


def seconds(command: str, clone: Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, shell=True, cwd=clone, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as directory:
        clone = Path(directory) / "clone"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        os.environ["DVC_SITE_CACHE_DIR"] = f"{directory}/site-cache"
        clean = "rm -rf .dvc/cache .dvc/tmp data models metrics plots && git checkout -q ."

        seconds("dvc repro render", clone)  # compiles what Python imports
        times = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way, command in WAYS.items():
                seconds(clean, clone)
                times[way].append(seconds(command, clone))
        print("generate to render, from nothing    seconds   against one process")
        for way, taken in times.items():
            ratios = [a / b for a, b in zip(taken, times["one process"], strict=True)]
            spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            print(f"{way:34}  {statistics.median(taken):7.2f}   {spread}")

        seconds("dvc repro", clone)
        print(f"dvc repro with nothing to do        {median('dvc repro', clone):7.2f}")
        print(f"dvc --version                       {median('dvc --version', clone):7.2f}")

        start_up = median("python -c pass", clone)
        print("stage     start-up  import   work")
        for stage in STAGES:
            imported = median(f"python -c 'import stages.{stage}'", clone)
            whole = median(f"python -m stages.{stage} {0 if stage == 'train' else ''}", clone)
            print(f"{stage:8}  {start_up:8.2f}  {imported - start_up:6.2f}  {whole - imported:5.2f}")

        seconds("sed -i 's/^- 2$/- 2\\n- 3/' params.yaml", clone)
        print(f"one seed more                       {seconds('dvc repro', clone):7.2f}")


def median(command: str, clone: Path) -> float:
    return statistics.median(seconds(command, clone) for _ in range(ROUNDS))


if __name__ == "__main__":
    main()
