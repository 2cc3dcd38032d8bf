"""The claims: their predictions are those of theory, and a claim that does not hold is told."""

import copy
import json
import re
from fnmatch import fnmatch

import msgspec
import pytest

from stages import InputError
from stages.claims import Claim, judge_all, leaves, read_claims, table
from stages.results import Results
from stages.verify import compare
from tests import closed_forms
from tests.conftest import ABLATIONS, ROOT

CLAIMS = read_claims(ROOT / "stages/claims.yaml")
RESULTS = json.loads((ROOT / "metrics/results.json").read_text())


def judged(claims: list[Claim], results: dict) -> list[dict]:
    return judge_all(claims, msgspec.convert(results, Results))


PREDICTED = {
    "uniform attention, S − 1/4": closed_forms.UNIFORM,
    "erase all query features, S − 1/4": closed_forms.UNIFORM,
    "erase all payload features, S": closed_forms.ZERO_PREDICTOR,
    "erase one query feature, E Σ (a − a′)²": closed_forms.ERASE_ONE_QUERY,
    "erase one payload feature, S/3": closed_forms.ERASE_ONE_PAYLOAD,
    "interchange of one payload feature moves the target, 2S/3": closed_forms.RESAMPLE_ONE_PAYLOAD,
}


def test_the_predictions_are_the_closed_forms_by_quadrature():
    predicted = {claim.claim: claim.predicted for claim in CLAIMS if claim.predicted is not None}
    assert predicted == {name: round(value, 6) for name, value in PREDICTED.items()}
    assert pytest.approx(closed_forms.ZERO_PREDICTOR - 1 / 4, abs=1e-12) == closed_forms.UNIFORM
    assert round(closed_forms.UNIFORM_THREE_KEYS, 6) == 0.322061


def test_every_claim_holds_of_the_committed_metrics():
    committed = json.loads((ROOT / "metrics/claims.json").read_text())
    rows = committed["claims"]
    assert rows[: len(CLAIMS)] == judged(CLAIMS, RESULTS)
    assert [row["claim"] for row in rows[len(CLAIMS) :]] == [
        "runs that recover all features",
        *(f"predictions for {name.replace('-', ' ')}" for name in ABLATIONS),
    ]
    assert all(row["holds"] is True for row in rows) and committed["held"] == committed["total"] == len(rows)


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("{}", "missing required field `claim`"),
        ("{claim: c, of: seeds.*.uniform.mse, source: s}", "expected one of digits, above, precision, predicted"),
        ("{claim: c, of: o, source: s, above: 1, precision: 1}", "expected one of"),
        ("{claim: c, of: seeds.*.query.r2.*, source: s, predicted: 1}", "expected an mse"),
        ("{claim: c, of: seeds.*.query.leakage, source: s, precision: 0}", "expected an mse"),
        ("{claim: c, of: o, source: s, digits: [0.1]}", "Expected `str`, got `float`"),
        ("{claim: c, of: o, source: s, digits: ['1e-3']}", "Expected `str` matching regex"),
        ("{claim: c, of: o, source: s, digits: ['0.٣٣']}", "Expected `str` matching regex"),
        ("{claim: c, of: o, source: s, above: .nan}", "Expected `float` >= -1e+300"),
        ("{claim: c, of: o, source: s, above: 1, seeds: ['0']}", "Expected `int`, got `str`"),
        ("{claim: c, of: o, source: s, above: 1, above: 2}", 'found duplicate key "above"'),
        ("{claim: c, of: o, source: s, publised: 1}", "unknown field `publised`"),
        ("{claim: c, of: o: p}", "line 1"),
    ],
)
def test_a_claim_of_another_form_is_refused_in_one_sentence(entry, sentence, tmp_path):
    path = tmp_path / "claims.yaml"
    path.write_text(f"- {entry}\n")
    with pytest.raises(InputError, match=re.escape(sentence)) as error:
        read_claims(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("claim", CLAIMS, ids=[f"{claim.claim} ({claim.source})" for claim in CLAIMS])
def test_each_claim_fails_when_any_one_of_its_measurements_strays(claim):
    """Each measurement in turn is moved just past the claim's band."""
    low, high = judged([claim], RESULTS)[0]["band"]
    names = [name for name in leaves({"seeds": RESULTS["seeds"]}) if fnmatch(name, claim.of)]
    assert names
    for name in names:
        (row,) = judged([claim], with_value(name, low - 1e-6 if high is None else high * 1.001))
        assert row["holds"] is False, name
        assert "| NO " in table([row])


def test_a_published_range_must_be_reached_at_both_ends():
    (claim,) = [claim for claim in CLAIMS if claim.digits == ["0.139", "0.153"]]
    results = copy.deepcopy(RESULTS)
    for result in results["seeds"].values():
        for tried in result["interventions"]["erase_query"].values():
            tried["mse"] = 0.146
    assert judged([claim], results)[0]["holds"] is False


def test_each_end_of_a_range_has_its_own_precision():
    low, high = judged([Claim("mine", "seeds.*.uniform.mse", "me", digits=["0.3", "0.334"])], RESULTS)[0]["band"]
    assert (low, high) == (pytest.approx(0.25), pytest.approx(0.3345))


def test_a_claim_about_a_seed_that_did_not_run_is_left_open():
    results = copy.deepcopy(RESULTS)
    del results["seeds"]["2"]
    rows = {row["claim"]: row for row in judged(CLAIMS, results)}
    about = {name for name in rows if "seeds 0–2" in name or name.endswith("seed 2")}
    assert len(about) == 7 and {name for name, row in rows.items() if row["holds"] is None} == about
    assert "not run" in table([rows["held-out MSE, seed 2"]])


def test_a_claim_of_nothing_is_refused():
    claims = [Claim("mine", f"seeds.{seed}.interventions.erase_query.*.mse", "me", above=0) for seed in "07"]
    assert [row["holds"] for row in judged(claims, RESULTS)] == [True, None]
    with pytest.raises(InputError, match=r"'mine' is of seeds\.7\.interventions\.erase_qery"):
        judged([msgspec.structs.replace(claims[1], of=claims[1].of.replace("query", "qery"))], RESULTS)


def test_a_small_shift_does_not_narrow_the_band_of_rounding():
    results = copy.deepcopy(RESULTS)
    results["parameters"]["interventions"]["shift"] = 0.001
    (claim,) = [claim for claim in CLAIMS if claim.claim == "shift one irrelevant coordinate"]
    (row,) = judged([claim], results)
    assert row["holds"] is True and row["band"] == judged(CLAIMS, RESULTS)[0]["band"]


def test_a_large_shift_is_an_excuse_for_what_it_shifts_alone():
    off = with_value("seeds.0.query.response.0.0", leaves(RESULTS)["seeds.0.query.response.0.0"] + 1e-12)
    off["seeds"]["0"]["interventions"]["shift"]["all"]["mse"] = 1e-24
    off["parameters"]["train"]["lr"] += 1e-15
    verdicts = dict(row[:2] for row in compare(off, RESULTS, 1e6))
    assert verdicts.pop("seeds.interventions.shift.all.mse") == "within rounding"
    assert verdicts.pop("parameters.train.lr") == verdicts.pop("seeds.query.response") == "different"
    assert set(verdicts.values()) == {"identical"}


def test_comparison_tells_rounding_from_difference():
    path = "seeds.0.query.response.0.0"
    verdicts = {}
    for off in (0, 1e-15, 1e-12):
        rows = compare(with_value(path, leaves(RESULTS)[path] + off), RESULTS, 5)
        verdicts[off] = {metric: verdict for metric, verdict, _ in rows}
    metric = "seeds.query.response"
    assert [verdicts[off].pop(metric) for off in verdicts] == ["identical", "within rounding", "different"]
    assert all(set(verdict.values()) == {"identical"} for verdict in verdicts.values())


def test_errors_are_compared_as_square_roots():
    """1e-31 beside 1e-30 is rounding; 1e-20 beside it is not, though both are far below any weight's last digit."""
    for value, expected in [(1e-30, "within rounding"), (1e-20, "different")]:
        rows = compare(with_value("seeds.0.heldout.mse", value), RESULTS, 5)
        assert dict(row[:2] for row in rows)["seeds.heldout.mse"] == expected


def test_a_metric_that_is_missing_is_a_difference():
    results = copy.deepcopy(RESULTS)
    del results["seeds"]["1"]["uniform"]
    assert ("seeds.uniform.mse", "different", float("inf")) in compare(results, RESULTS, 5)


def test_broken_claims_are_told_and_the_run_succeeds(project):
    project.replace("params.yaml", "lr: 0.03  # Adam", "lr: 1  # Adam")
    project.replace("params.yaml", "steps: 30  # optimisation", "steps: 3  # optimisation")
    project.replace("params.yaml", "- 1\n- 2\n", "")
    output = project.run("dvc repro").stdout
    claims = json.loads((project.path / "metrics/claims.json").read_text())
    held = [row["claim"] for row in claims["claims"] if row["holds"]]
    assert "held-out MSE, seed 0" not in held and "uniform attention, seed 0" in held
    assert output.count("| NO ") >= 8 and f"{claims['held']} of {claims['total']} claims hold" in output
    comparison = project.run("python -m stages.verify --against HEAD", check=False)
    assert comparison.returncode == 1
    assert comparison.stdout.count("which only HEAD has") == 2
    assert re.search(r"parameters.seeds +different", comparison.stdout)
    project.run("git commit -qam 'Three steps'")
    assert "46 identical" in project.run("python -m stages.verify --against HEAD").stdout


def with_value(path: str, value: float) -> dict:
    """The committed results with one number changed."""
    results = copy.deepcopy(RESULTS)
    *parents, last = [int(part) if part.isdigit() and i > 1 else part for i, part in enumerate(path.split("."))]
    node = results
    for part in parents:
        node = node[part]
    node[last] = value
    return results
