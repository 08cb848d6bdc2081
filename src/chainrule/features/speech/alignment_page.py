"""A text over the spectrogram of a sound: log-mel frames as a network reads them, and below what it heard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.drawing.colours import INK, LINES, PAPER, QUIET
from chainrule.drawing.pages import xml_text
from chainrule.drawing.plots import check_matplotlib
from chainrule.features.speech.sounds.features import HOP_SECONDS, band_centres, normalised

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int16
    from matplotlib.figure import Figure
    from numpy import ndarray

_HEIGHT = 6.0  # inches
_NARROWEST, _WIDEST, _PER_CHARACTER = 7.0, 60.0, 0.22  # inches
_TICKS = 6
_CLIPPED = 3  # deviations from a band's mean that are black, or white
_SHOWN = 0.02  # labels that never have this probability get no row


def alignment_figure(
    title: str,
    frames: Int16[ndarray, "T M"],
    log_probs: Float32[ndarray, "S C"],
    characters: Sequence[tuple[str, float, float]],
    labels: Sequence[str],
    step: float,
    rate: int,
) -> Figure:
    """Return characters over the spectrogram, and below the probability of each label at each step.

    characters: each with its first second and its last. labels: of the columns, without the blank. step: the seconds of
    a step. rate: samples a second. Raises SettingError where matplotlib is missing.
    """
    check_matplotlib()
    from matplotlib.figure import Figure

    width = float(np.clip(_PER_CHARACTER * len(characters), _NARROWEST, _WIDEST))
    figure = Figure(figsize=(width, _HEIGHT), layout="constrained", facecolor=PAPER.light)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    above.set_title(
        xml_text(title), loc="left", fontsize=11, fontweight="bold", color=INK.light, parse_math=False, pad=22
    )
    seconds = HOP_SECONDS * len(frames)
    shared = {"aspect": "auto", "origin": "lower", "interpolation": "nearest"}
    bands = frames.shape[1]
    levels = normalised(frames).T
    above.imshow(levels, cmap="Greys", vmin=-_CLIPPED, vmax=_CLIPPED, extent=(0, seconds, 0, bands), **shared)
    centres = band_centres(bands, rate)
    ticks = np.linspace(0, bands - 1, _TICKS).round().astype(int)
    above.set_yticks(ticks + 0.5, [f"{centres[i] / 1000:.1f}" for i in ticks.tolist()])
    above.set(ylabel="pitch in kHz")
    for character, start, stop in characters:
        for edge in (start, stop):
            above.axvline(edge, color=LINES[0].light, linewidth=0.6)
        name = "␣" if character == " " else character
        above.text(
            *((start + stop) / 2, bands * 1.01, xml_text(name)),
            ha="center",
            va="bottom",
            fontsize=9,
            color=INK.light,
            parse_math=False,
        )
    probs = np.exp(log_probs)
    heard = np.flatnonzero(probs.max(0) >= _SHOWN) if len(probs) else np.zeros(0, np.int64)
    below.imshow(
        probs[:, heard].T if heard.size else np.zeros((1, len(probs))),
        cmap="Blues",
        vmin=0,
        vmax=1,
        extent=(0, step * len(log_probs), 0, max(1, heard.size)),
        **shared,
    )
    names = [xml_text("␣" if labels[i] == " " else labels[i]) for i in heard.tolist()]
    below.set_yticks(np.arange(len(names)) + 0.5, names, parse_math=False)
    below.set(ylabel="P(label)", xlabel="seconds", xlim=(0, seconds))
    for axes in (above, below):
        axes.tick_params(colors=QUIET.light, labelsize=8)
    return figure
