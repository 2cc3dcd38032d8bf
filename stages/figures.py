"""The figures' common style, whatever the user's own style files say, and their files: the same bytes every time."""

import io
import sys

import matplotlib
from matplotlib.figure import Figure

from stages import files

COLOURS = [
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#E69F00",
    "#000000",
]  # Okabe & Ito, colour-blind safe
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "feature-recovery",
    "svg.fonttype": "path",
}

POWER = "{x:.0e}"  # of ten, on a logarithmic axis; Matplotlib's own typeset label takes as long as all the rest

FLOOR = sys.float_info.epsilon**2  # of a squared error, drawn as a line

matplotlib.rcdefaults()
matplotlib.rcParams.update(STYLE)


def mark(points: list) -> str:
    """The marker of a curve, which is not seen without one if it has a single point."""
    return "." if len(points) == 1 else ""


def label_line(axes, height: float, text: str, side: str) -> None:
    """A thin line across the axes with its name at the right end, above ("bottom" of the name touches it) or below."""
    axes.axhline(height, color="0.6", linewidth=0.8, zorder=0)
    away = (-3, 2 if side == "bottom" else -2)
    axes.annotate(
        text,
        (1, height),
        away,
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        ha="right",
        va=side,
        color="0.4",
    )


def save(figure: Figure, name: str) -> None:
    """Write a figure as <name>.png and <name>.svg."""
    for suffix, metadata in [("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})]:
        content = io.BytesIO()
        figure.savefig(content, format=suffix, metadata=metadata)
        files.write(f"{name}.{suffix}", content.getvalue())
