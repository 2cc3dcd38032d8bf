"""The pipeline as its users run it, in a temporary clone: what reruns, what does not, and the same bytes again."""

from tests.conftest import OUTPUTS


def test_a_second_repro_runs_nothing(project):
    assert project.repro() == []
    assert project.run("dvc repro --dry --allow-missing").stdout.count("Running stage") == 0


def test_each_change_reruns_what_it_touches(project):
    project.replace("params.yaml", "shift: 5", "shift: 4")
    assert project.repro() == ["evaluate", "render", "verify"]

    project.replace("stages/render.py", "MOST_NAMED = 10", "MOST_NAMED = 2")
    assert project.repro() == ["render"]

    project.replace("params.yaml", "lr: 0.03", "lr: 3e-2")  # the same number
    assert project.repro() == []


def test_one_seed_more_trains_one_and_one_fewer_none(project):
    before = project.contents(*OUTPUTS)
    project.replace("params.yaml", "- 2\n", "- 2\n- 7\n")
    assert project.repro() == ["generate", "train@7", "evaluate", "render", "verify"]
    assert {"metrics/seeds/7.json", "plots/training/7.csv", "models/7.safetensors"} < set(project.contents(*OUTPUTS))

    project.replace("params.yaml", "- 7\n", "")
    ran = project.repro()
    assert "evaluate" in ran and not any(stage.startswith("train") for stage in ran)
    assert project.repro() == []
    after = project.contents(*OUTPUTS)
    assert list(after) == list(before)  # no stale row, file or curve
    del before["dvc.lock"], after["dvc.lock"]  # which remembers seed 7, so that it need not be trained again
    assert after == before


def test_the_heldout_set_steers_nothing(project):
    """Trained beside other held-out examples, the student is the same to the last bit; only its trace differs."""
    before = project.contents("models/0.safetensors", "plots/training/0.csv")
    project.run("cp data/heldout/1.safetensors data/heldout/0.safetensors && python -m stages.train 0")
    after = project.contents("models/0.safetensors", "plots/training/0.csv")
    assert after["models/0.safetensors"] == before["models/0.safetensors"]
    assert after["plots/training/0.csv"] != before["plots/training/0.csv"]


def test_the_table_is_narrow_and_hides_no_number(project):
    lines = project.run("dvc metrics show").stdout.rstrip().splitlines()
    assert len(lines) == 1 + 3
    assert max(map(len, lines)) <= 120
    assert "0.0" not in " ".join(lines).split()


def test_the_plots_are_the_error_curves_and_the_figure(project):
    import json

    shown = json.loads(project.run("dvc plots show --json").stdout)
    assert "errors" not in shown
    assert {"prediction error", "plots/feature-recovery.png"} < set(shown["data"])
    (curves,) = shown["data"]["prediction error"]
    assert curves["content"]["encoding"]["y"]["scale"] == {"type": "log"}
    assert {row["seed"] for row in curves["content"]["data"]["values"]} == {0, 1, 2}
