"""Stage `render`: the article's figure, from metrics/results.json alone. The same numbers give the same bytes."""

import matplotlib
from matplotlib.figure import Figure

from stages import figures, files
from stages.figures import COLOURS, FLOOR
from stages.results import Results

DASHES = ["-", "--", "-.", ":"]
MOST_NAMED = 10  # seeds in the legend
GROUPS = ["query", "payload", "noise"]


def draw(results: Results) -> Figure:
    """The error curves of all seeds, and both response maps of the first seed."""
    figure = Figure(figsize=(9.6, 4.4), dpi=150)
    margins = {"left": 0.085, "right": 0.99, "top": 0.93, "bottom": 0.11, "wspace": 0.04}
    curves, gap, query, value = figure.subplots(1, 4, width_ratios=[2.1, 0.35, 1, 1], gridspec_kw=margins)
    gap.remove()  # room for the row labels
    draw_curves(curves, results)
    first, result = next(iter(results.seeds.items()))
    for axes, found, letter, title in (
        (query, result.query, "q", "Query response  R Wq"),
        (value, result.value, "v", "Value response  R Wv"),
    ):
        draw_response(axes, found.response, letter, title)
        axes.set_xlabel(f"seed {first}: off by {found.response_error:.0e} at most")
    value.tick_params(labelleft=False)
    return figure


def draw_curves(axes, results: Results) -> None:
    """Held-out error over training steps, one line per seed, between uniform attention and rounding."""
    seeds = results.seeds
    for i, seed in enumerate(seeds):
        trace = [row for row in results.training if str(row.seed) == seed]
        axes.semilogy(
            [row.step for row in trace],
            [row.heldout_mse for row in trace],
            color=COLOURS[i % len(COLOURS)],
            linestyle=DASHES[i % len(DASHES)],
            marker=figures.mark(trace),
            label=f"seed {seed}",
        )
    uniform = sum(result.uniform.mse for result in seeds.values()) / len(seeds)
    for error, name, side in [(uniform, f"uniform attention  {uniform:.3f}", "bottom"), (FLOOR, "float64 ε²", "top")]:
        figures.label_line(axes, error, name, side)
    axes.set_ylim(bottom=FLOOR / 1e3)
    axes.yaxis.set_major_formatter(figures.POWER)
    axes.set_title("Prediction error on held-out examples", loc="left")
    axes.set_xlabel("training step")
    axes.set_ylabel("mean squared error")
    axes.set_xlim(left=0)
    if len(seeds) <= MOST_NAMED:
        axes.legend(loc="center right")


def draw_response(axes, response: list[list[float]], letter: str, title: str) -> None:
    """One response map (9, 3) as a heat map with its rounded numbers, rows in the order of the latent coordinates."""
    bound = max(1.0, *(abs(entry) for row in response for entry in row))
    # 256 colours: Matplotlib reads their number from the user's style files when it is loaded
    colours = matplotlib.colormaps["RdBu_r"].resampled(256)
    axes.imshow(response, cmap=colours, vmin=-bound, vmax=bound, aspect="auto")
    for i, row in enumerate(response):
        for j, entry in enumerate(row):
            text = f"{entry:.2f}".replace("-0.00", "0.00") if abs(entry) < 100 else f"{entry:.0e}"
            axes.text(j, i, text, ha="center", va="center", color="white" if abs(entry) > 0.6 * bound else "black")
    for boundary in (2.5, 5.5):
        axes.axhline(boundary, color="black", linewidth=1)
    axes.set_title(title, loc="left")
    axes.set_xticks(range(3), [f"{letter}{j}" for j in (1, 2, 3)])
    axes.set_yticks(range(9), [f"{group} {i}" for group in GROUPS for i in (1, 2, 3)])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def main() -> None:
    figures.save(draw(files.read_json("metrics/results.json", Results)), "plots/feature-recovery")
    print("plots/feature-recovery.png and .svg")


if __name__ == "__main__":
    main()
