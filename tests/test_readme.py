"""The README: its commands run, its numbers are those of metrics/.

`python -m tests.test_readme` writes anew what is generated, between `<!-- name -->` and `<!-- /name -->`.
"""

import dataclasses
import json
import re
import time

import pytest

from stages.claims import table
from stages.variants import EXACT, VARIANTS, Variant
from tests.conftest import ABLATIONS, OUTPUTS, ROOT, Project

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
INSTALL, TEST, *COMMANDS = [text.strip() for language, text in BLOCKS if language == "sh"]
(RESTORED,) = [number for number, block in enumerate(COMMANDS, 1) if block.startswith("git restore")]


def test_ci_runs_the_two_commands_as_they_stand_here():
    ci = (ROOT / ".ci/run").read_text()
    assert INSTALL in ci and TEST == "pytest" and f"\n{TEST}\n" in ci


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [COMMANDS[:RESTORED], COMMANDS[RESTORED:]], ids=["to", "from"])
def test_every_other_command_runs(project, blocks):
    """To the block that restores the committed state, and from there on."""
    before = project.contents(*OUTPUTS)
    for block in blocks:
        if block.startswith("git restore"):  # also what `dvc checkout` would ask about
            (project.path / "models/0.safetensors").write_bytes(b"damaged")
        output = project.run(f"set -e\n{block}").stdout
        if block == "dvc metrics show":
            assert len(output.splitlines()) == 1 + 3
        if "verify --against" in block:
            assert "different, as it should be" in output
        if block.startswith("git restore"):
            assert project.contents(*OUTPUTS) == before
            assert project.run("git status --porcelain").stdout == ""
        if "queue start" in block:
            wait_for_the_queue(project)
        if "exp show" in block:
            assert {"sweep-1", "sweep-2"} <= set(re.findall(r"sweep-\d", output))
            assert "lr: 0.02" in (project.path / "params.yaml").read_text()
        if "dvc pull" in block:
            a_clone_that_pulls_trains_nothing(project)


def wait_for_the_queue(project):
    for _ in range(300):
        status = project.run("dvc queue status").stdout
        if "Running" not in status and "Queued" not in status:
            break
        time.sleep(1)
    assert status.count("Success") == 2, status


def a_clone_that_pulls_trains_nothing(project):
    clone = Project(project.path.parent / "clone")
    project.run(f"git clone -q . {clone.path}")
    clone.run("dvc remote add --local --default store ../store && dvc pull")
    assert clone.repro() == []


def test_what_is_generated_is_up_to_date(fresh):
    generated = sections(fresh)
    assert {name: shown(name) for name in generated} == generated


def test_the_numbers_in_the_text():
    population, adam, noisy = (
        json.loads((ROOT / f"metrics/{name}.json").read_text())
        for name in ("population", "ablations/long-adam", "ablations/noisy-targets")
    )
    assert f"off by {population['response_error']['highest']:.0e}" in README
    assert f"is off by more than √ε/3 = {population['criterion']:.0e}".replace("e-0", "e-") in README.replace("\n", " ")
    assert f"(100 ε)² = {EXACT:.0e} at most" in README.replace("\n", " ")
    assert "thrown back to an error above 1e-5." in README and min(run["peak"] for run in adam["runs"]) > 1e-5
    expected = {f"{run['expected_mse']:.1e}" for run in noisy["runs"]}
    assert "error of 1.1e-3 to the clean targets" in README.replace("\n", " ") and expected == {"1.1e-03"}


def test_every_linked_file_exists():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("http")]
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def shown(name: str) -> str:
    """What the README has between the marks of this name."""
    return re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", README, re.DOTALL)[1]


def sections(project: Project) -> dict[str, str]:
    """What the README should have between its marks, from metrics/ and from DVC."""
    claims, population = (
        json.loads((project.path / f"metrics/{name}.json").read_text()) for name in ("claims", "population")
    )
    graph = project.run("dvc dag --mermaid render").stdout.rstrip()
    return {
        "population": "All six features are recovered in {recovered} of {size} runs that differ in initial weights\n"
        "and data, and so in at least {recovered_at_least:.1%} of such runs, at {confidence:.0%} confidence.\n".format(
            **population
        ),
        "seeds": f"```text\n{project.run('dvc metrics show').stdout}```\n",
        "claims": f"{table(claims['claims'])}\n\n{claims['held']} of {claims['total']} claims hold.\n",
        "graph": f"```mermaid\n{graph}\n```\n",
        "studies": studies(project),
    }


def studies(project: Project) -> str:
    """What each variant recovers: R² of the worst coordinate, from the worst to the best run."""
    lines = [
        "| variant | what is different | worst held-out MSE | query R² | query R², refitted | value R² "
        "| value R², refitted | free directions | in theory | predictions that held |",
        "| --- |" + " --- |" * 9,
    ]
    for name in ABLATIONS:
        study = json.loads((project.path / f"metrics/ablations/{name}.json").read_text())
        mse = max(run["heldout_mse"] for run in study["runs"])
        r2 = [
            spread([1 - run[key] for run in study["runs"]])
            for key in ("query", "query_refitted", "value", "value_refitted")
        ]
        (theory,) = [claim["low"] for claim in study["theory"] if claim["measure"] == "null"]
        free = f"{study['null']} of {study['scalars']}"
        row = [f"`{name}`", changes(VARIANTS[name]), f"{mse:.1e}", *r2, free, f"{theory:.0f}", study["held"]]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def changes(variant: Variant) -> str:
    """What the variant gives that differs from the published experiment, as stages/variants.py has it."""
    given = {field.name: getattr(variant, field.name) for field in dataclasses.fields(variant)[1:]}
    published = {field.name: field.default for field in dataclasses.fields(variant)[1:]}
    different = [f"{name} {value}" for name, value in given.items() if value != published[name]]
    text = ", ".join(re.sub(r"[()',]|torch\.| True", "", each) for each in different) or "—"
    return re.sub(r"lengthening (\d+)", r"\1 × the steps", text).replace("amsgrad", "AMSGrad")


def spread(values: list[float]) -> str:
    low, high = (f"{end:.3f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


if __name__ == "__main__":
    for name, text in sections(Project(ROOT)).items():
        README = README.replace(f"<!-- {name} -->\n{shown(name)}", f"<!-- {name} -->\n{text}")
    (ROOT / "README.md").write_text(README)
