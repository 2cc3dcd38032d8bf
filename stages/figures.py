"""The figures' common style, whatever the user's own style files say, and their files: the same bytes every time."""

import io

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

matplotlib.rcdefaults()
matplotlib.rcParams.update(STYLE)


def save(figure: Figure, name: str) -> None:
    """Write a figure as <name>.png and <name>.svg."""
    for suffix, metadata in [("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})]:
        content = io.BytesIO()
        figure.savefig(content, format=suffix, metadata=metadata)
        files.write(f"{name}.{suffix}", content.getvalue())
