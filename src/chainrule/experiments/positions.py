"""Positions: how well Transformers extrapolate beyond their training length, by position encoding (Press et al. 2022).

Each is trained on rows of one length and then reads longer ones. Learned positions have no vectors beyond that length,
so their line ends there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np
import torch

from chainrule.api.tokenizers import tokenized
from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.errors import TextError
from chainrule.experiments.findings import Findings
from chainrule.neural.config import TransformerConfig
from chainrule.neural.config.transformer import Positions
from chainrule.text.corpus.corpus import Lines
from chainrule.text.corpus.sample import sample_lines
from chainrule.training.config import TrainingConfig
from chainrule.training.job import StreamOptions
from chainrule.training.run import train_network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int32
    from numpy import ndarray

    from chainrule.neural.network import Network

SMALL = TransformerConfig(layers=2, width=64, heads=2, context=64)
_HELD_OUT = 0.1  # the share of the text that is predicted
_BATCH = 20  # rows


def positions(
    *,
    seed: int = 0,
    progress: Progress = silent,
    lines: Sequence[str] | None = None,
    config: TransformerConfig = SMALL,
    kinds: Sequence[Positions] = get_args(Positions),
    steps: int = 300,
    times: int = 4,
    rows: int = 200,
) -> Findings:
    """Perplexity by position in rows `times` as long as those of training, with a line for each position encoding.

    lines: a text, whose characters are predicted; by default the built-in one. rows: how many to predict.
    Raises TextError.
    """
    tokenizer, stream, _ = tokenized(Lines(lines or sample_lines(progress)), "character", progress=silent)
    cut, length = int(len(stream) * (1 - _HELD_OUT)), config.context * times
    heldout = stream[cut:]
    if len(heldout) <= length:
        raise TextError(
            f"the text has {len(stream):,} characters; expected more than {10 * length:,}, so that its last tenth is "
            f"longer than a row of {length:,}"
        )
    training = TrainingConfig(steps=steps, seed=seed, compile="no")
    curves = []
    for i, kind in enumerate(kinds):
        progress(f"positions: {kind}", i, len(kinds))
        own = replace(config, positions=kind)
        network, _ = train_network(stream[:cut], tokenizer.vocabulary_size, own, StreamOptions(training=training))
        reads = config.context if kind == "learned" else length
        losses = losses_by_position(network, heldout, reads, rows)
        ends, perplexities = in_groups(losses, config.context // 4)
        curves.append(Line(label=kind, x=ends, y=perplexities))
    progress("positions", 1, 1)
    return Findings(
        title=f"Perplexity beyond the training length, {config.context}",
        x=Axis(label="position in the row", log=True),
        y=Axis(label="perplexity of a character", log=True),
        lines=curves,
        says=[_beyond(line, config.context) for line in curves],
    )


@torch.inference_mode()
def losses_by_position(
    network: Network, stream: Int32[ndarray, " tokens"], length: int, rows: int
) -> Float64[ndarray, " length"]:
    """The mean loss in nats at each position of rows from all over a stream, each read as a text of its own."""
    begins = np.linspace(0, len(stream) - length - 1, rows).astype(np.int64)
    text = torch.from_numpy(stream[begins[:, None] + np.arange(length + 1)].astype(np.int64))
    losses = [
        -network.output.log_probs_of(network.encoder(network.embed(some[:, :-1]), None, None)[0], some[:, 1:])
        for some in torch.split(text, _BATCH)
    ]
    return torch.cat(losses).double().mean(0).numpy()


def in_groups(losses: Float64[ndarray, " length"], size: int) -> tuple[list[float], list[float]]:
    """The last position of each group of `size` positions, and the perplexity of the group."""
    means = losses[: len(losses) // size * size].reshape(-1, size).mean(1)
    return [float(size * (i + 1)) for i in range(len(means))], np.exp(means).tolist()


def _beyond(line: Line, context: int) -> str:
    within = line.y[list(line.x).index(context)]
    if line.x[-1] <= context:
        return f"{line.label}: {within:.2f} at the training length, not defined beyond"
    times = line.x[-1] / context
    return f"{line.label}: {within:.2f} at the training length, {line.y[-1]:.2f} at {times:g} times that length"
