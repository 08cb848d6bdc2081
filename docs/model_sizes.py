"""Draws language models by year and number of parameters, as their papers say.

python docs/model_sizes.py docs/drawings/models.svg
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from chainrule.drawing.colours import INK, LINES, PAPER, QUIET
from chainrule.drawing.plots import write_plot


class Published(NamedTuple):
    """A model, the year of its publication, its parameters in millions, and where they are stated."""

    name: str
    year: int
    millions: float
    source: str


MODELS = (
    Published("GPT", 2018, 117, "Radford et al. 2018; its number in Radford et al. 2019"),
    Published("BERT", 2018, 340, "Devlin et al. 2019, BERT large"),
    Published("GPT-2", 2019, 1_542, "Radford et al. 2019"),
    Published("T5", 2019, 11_000, "Raffel et al. 2020"),
    Published("GPT-3", 2020, 175_000, "Brown et al. 2020"),
    Published("Gopher", 2021, 280_000, "Rae et al. 2021"),
    Published("PaLM", 2022, 540_000, "Chowdhery et al. 2022"),
    Published("LLaMA", 2023, 65_000, "Touvron et al. 2023"),
    Published("Llama 3.1", 2024, 405_000, "Llama team 2024"),
    Published("SmolLM2", 2025, 135, "Allal et al. 2025: the smallest of three"),
)


def chart() -> Figure:
    """A point for each model, on a logarithmic scale."""
    figure = Figure(figsize=(6.8, 3.5), layout="constrained", facecolor=PAPER.light)
    axes = figure.add_subplot(facecolor=PAPER.light)
    axes.set_title("Parameters of language models", loc="left", fontsize=11, fontweight="bold", color=INK.light)
    axes.set(yscale="log", xlim=(2017.5, 2026), ylim=(5e7, 4e12))
    axes.set_yticks([1e8, 1e9, 1e10, 1e11, 1e12], ["100 M", "1 B", "10 B", "100 B", "1,000 B"])
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=QUIET.light, labelsize=9)
    for model in MODELS:
        parameters = model.millions * 1e6
        axes.plot([model.year], [parameters], marker="o", markersize=6, color=LINES[0].light)
        axes.annotate(
            model.name,
            (model.year, parameters),
            xytext=(7, -3),
            textcoords="offset points",
            fontsize=9,
            color=INK.light,
        )
    return figure


if __name__ == "__main__":
    write_plot(chart(), Path(sys.argv[1]))
