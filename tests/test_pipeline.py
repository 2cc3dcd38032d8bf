"""The pipeline as its users run it, in a temporary clone: what reruns, what does not, and the same bytes each time."""

from tests.conftest import OUTPUTS


def test_second_repro_runs_nothing_and_force_changes_nothing(project):
    assert project.repro() == []
    before = project.contents(*OUTPUTS)
    assert project.repro("--force") == ["generate", "train@0", "train@1", "train@2", "evaluate", "render"]
    assert project.contents(*OUTPUTS) == before
    assert project.run("git status --porcelain").stdout == ""
