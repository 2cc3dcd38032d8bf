"""Stage `render_studies`: the figures of the population and the identifiability studies, from their metrics alone."""

import math

import msgspec
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from stages import figures, files, params
from stages.figures import COLOURS, FLOOR
from stages.results import Population, Study

LEAST, MOST = 1e-33, 1e4  # of the errors shown; what is beyond stands at the edge
PANELS = {  # the measures side by side, and in each panel from top to bottom
    "Prediction": {
        "heldout_mse": ("held-out mean squared error", "D"),
        "peak": ("highest error of a batch after the published stop", "v"),
    },
    "Query coordinates": {
        "query": ("as they are", "o"),
        "query_refitted": ("after the best 3×3 map", "s"),
        "query_map": ("what no change of basis alters", "^"),
    },
    "Value coordinates": {
        "value": ("as they are", "o"),
        "value_refitted": ("after the best 3×3 map", "s"),
        "value_map": ("what no change of basis alters", "^"),
    },
}
SHADES = {"D": COLOURS[6], "v": COLOURS[3], "o": COLOURS[1], "s": COLOURS[0], "^": COLOURS[2]}


def draw_population(result: Population) -> Figure:
    """The error of all runs over the training steps, as bands of their quantiles."""
    figure = Figure(figsize=(6.4, 4.2), dpi=150)
    axes = figure.subplots(gridspec_kw={"left": 0.12, "right": 0.97, "top": 0.86, "bottom": 0.12})
    rows = [msgspec.structs.asdict(band) for band in result.training]
    made = [row["step"] - 1 for row in rows]  # the error is that before the step
    bands = {name: [math.nan if row[name] is None else row[name] for row in rows] for name in rows[0]}
    axes.fill_between(
        made, bands["lowest"], bands["highest"], color=COLOURS[4], alpha=0.35, linewidth=0, label="all runs"
    )
    axes.fill_between(
        made, bands["q05"], bands["q95"], color=COLOURS[0], alpha=0.45, linewidth=0, label="5% to 95% of runs"
    )
    axes.plot(made, bands["median"], color="black", linewidth=1.2, marker=figures.mark(made), label="median run")
    axes.set_yscale("log")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=FLOOR / 1e3)
    axes.yaxis.set_major_formatter(figures.POWER)
    figures.label_line(axes, FLOOR, "float64 ε²", "top")
    for level, reached in result.steps_to.items():
        if reached.median is not None:
            axes.plot(reached.median, float(level), "o", color="black", markersize=3.5)
            text = f"{level} after {reached.median:.0f} steps"
            axes.annotate(text, (reached.median, float(level)), (7, 0), textcoords="offset points", va="center")
    axes.set_xlabel("training steps made")
    axes.set_ylabel("mean squared error of the step's fresh batch")
    axes.legend(loc="upper right")
    bound = f"at least {result.recovered_at_least:.1%} of all such runs would, at {result.confidence:.0%} confidence"
    figure.text(0.12, 0.945, f"{result.recovered} of {result.size} runs recover all features", size=10)
    figure.text(0.12, 0.89, bound, color="0.35")
    return figure


def draw_identifiability(studies: dict[str, Study]) -> Figure:
    """What every variant recovers, one mark for each run, on the bars where theory expects them; and what is left
    undetermined. Each variant is a row."""
    figure = Figure(figsize=(11.4, 2.1 + 0.5 * len(studies)), dpi=150)
    height = figure.get_figheight()
    margins = {"left": 0.145, "right": 0.99, "top": 1 - 0.75 / height, "bottom": 1.15 / height, "wspace": 0.06}
    panels = figure.subplots(1, 4, sharey=True, width_ratios=[1, 1.6, 1.6, 0.75], gridspec_kw=margins)
    for axes, (title, measures) in zip(panels, PANELS.items(), strict=False):
        for row, study in enumerate(studies.values()):
            for i, (measure, (_, mark)) in enumerate(measures.items()):
                place = row + 0.26 * (i - (len(measures) - 1) / 2)
                for prediction in study.theory:
                    if prediction.measure == measure:
                        low = LEAST if prediction.low is None else prediction.low
                        high = MOST if prediction.high is None else prediction.high
                        axes.barh(place, high - low, 0.24, left=low, color="0.85", zorder=0)
                found = [getattr(run, measure) for run in study.runs]
                errors = [min(max(error, LEAST), MOST) for error in found if error is not None]
                axes.plot(errors, [place] * len(errors), mark, color=SHADES[mark], markersize=4, alpha=0.8, mew=0)
        axes.set_title(title, loc="left")
    for axes in panels[:3]:
        axes.set_xscale("log")
        axes.set_xlim(LEAST, MOST)
        axes.set_xticks([1e-32, 1e-24, 1e-16, 1e-8, 1], ["1e-32", "", "1e-16", "", "1"])
        axes.axvline(1, color="0.6", linewidth=0.8, zorder=0)
    panels[0].set_xlabel("mean squared error")
    panels[1].set_xlabel("share not recovered, 1 − R²")
    panels[2].set_xlabel("share not recovered, 1 − R²")
    panels[0].set_yticks(range(len(studies)), [name.replace("-", " ") for name in studies])
    panels[0].set_ylim(len(studies) - 0.5, -0.5)
    for axes in panels:
        axes.tick_params(axis="y", length=0)
        for row in range(1, len(studies)):
            axes.axhline(row - 0.5, color="0.92", linewidth=0.8, zorder=-1)
    panels[3].set_title("Free directions", loc="left")
    panels[3].set_xlim(0, 1)
    panels[3].set_xticks([])
    panels[3].spines[:].set_visible(False)
    for row, study in enumerate(studies.values()):
        expected = [each for each in study.theory if each.measure == "null" and each.low is not None]
        text = f"{study.null} of {study.scalars}"
        text += f", theory {expected[0].low:.0f}" if expected else ""
        panels[3].text(0.04, row, text, va="center")
    marks = [
        Line2D([], [], linestyle="", marker=mark, color=SHADES[mark], markersize=5, label=label)
        for label, mark in [*PANELS["Prediction"].values(), *PANELS["Query coordinates"].values()]
    ]
    bar = Patch(color="0.85", label="where theory expects every run")
    figure.legend(handles=[*marks, bar], loc="lower center", ncols=3, handletextpad=0.4, columnspacing=1.6)
    line = "Each mark is a run. Far left: recovered to rounding. At 1 or beyond: not recovered. "
    line += "Free directions: changes of the trained weights that move no prediction."
    figure.text(0.015, 1 - 0.28 / height, line, color="0.35")
    return figure


def main() -> None:
    listed = params.load().ablations
    files.discard("metrics/ablations", ".json", lambda name: name not in listed)
    studies = {name: files.read_json(f"metrics/ablations/{name}.json", Study) for name in listed}
    figures.save(draw_population(files.read_json("metrics/population.json", Population)), "plots/population")
    figures.save(draw_identifiability(studies), "plots/identifiability")
    print("plots/population and plots/identifiability, .png and .svg")


if __name__ == "__main__":
    main()
