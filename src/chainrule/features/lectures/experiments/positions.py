"""The experiments positions (beyond the training length), extrapolation (rare positions), order (who sees it).

Positions: how well Transformers extrapolate beyond their training length, by position encoding (Press et al. 2022).
Each is trained on rows of one length and then reads longer ones. Learned positions have no vectors beyond that length,
so their line ends there.

Extrapolation: what a position knows depends on how often it was trained. Documents end after 1 to 64 words, all lengths
equally often, so that late positions are rare: the last one occurs in one document of 64. A position with a vector of
its own learns from nothing else; a rotation by distance learns from all positions at once. Every word repeats the one
four positions before it, so that a model that knows where it is can predict it with certainty.

Order: which networks notice that the words before the last one were shuffled. Attention is a weighted average over a
set: without position encodings, a permutation of the keys changes nothing. So an untrained network settles it: if its
prediction stays the same for random weights, it does for all weights. A second causal layer does see order, since the
outputs of the first were computed from texts that end at different words. A bidirectional network never does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.errors import TextError
from chainrule.features.lectures.experiments.findings import Findings, in_turn
from chainrule.features.lectures.experiments.small_models import FIRST_WORD, train_small
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.neural.build import build
from chainrule.neural.config import BagConfig, FeedforwardConfig, MaskedConfig, RecurrentConfig, TransformerConfig
from chainrule.neural.config.transformer import Positions
from chainrule.text.corpus.corpus import Lines
from chainrule.text.corpus.sample import sample_lines
from chainrule.training.config import TrainingConfig
from chainrule.training.job import StreamOptions
from chainrule.training.run import train_network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float64, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.config import NetworkConfig
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
    """Return perplexity by position in rows `times` as long as those of training, with a line for each position
    encoding.

    lines: a text, whose characters are predicted; by default the built-in one. rows: how many to predict.
    Raises TextError.
    """
    tokenizer, stream, *_ = tokenize_source(Lines(lines or sample_lines(progress)), "character", progress=silent)
    cut, length = int(len(stream) * (1 - _HELD_OUT)), config.context * times
    heldout = stream[cut:]
    if len(heldout) <= length:
        raise TextError(
            f"the text has {len(stream):,} characters; expected more than {10 * length:,}, so that its last tenth is "
            f"longer than a row of {length:,}"
        )
    training = TrainingConfig(steps=steps, seed=seed, compile="no")
    curves = []
    for _, kind in in_turn("positions", kinds, progress):
        own = replace(config, positions=kind)
        network, _ = train_network(stream[:cut], tokenizer.vocabulary_size, own, StreamOptions(training=training))
        reads = config.context if kind == "learned" else length
        losses = losses_by_position(network, heldout, reads, rows)
        ends, perplexities = in_groups(losses, config.context // 4)
        curves.append(Line(label=kind, x=ends, y=perplexities))
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
    """Return the mean loss in nats at each position of rows from all over a stream, each read as a separate text."""
    begins = np.linspace(0, len(stream) - length - 1, rows).astype(np.int64)
    text = torch.from_numpy(stream[begins[:, None] + np.arange(length + 1)].astype(np.int64))
    losses = [
        -network.output.log_probs_of(network.encoder(network.embed(some[:, :-1]), None, None)[0], some[:, 1:])
        for some in torch.split(text, _BATCH)
    ]
    return torch.cat(losses).double().mean(0).numpy()


def in_groups(losses: Float64[ndarray, " length"], size: int) -> tuple[list[float], list[float]]:
    """Return the last position of each group of `size` positions, and the perplexity of the group."""
    means = losses[: len(losses) // size * size].reshape(-1, size).mean(1)
    return [float(size * (i + 1)) for i in range(len(means))], np.exp(means).tolist()


def _beyond(line: Line, context: int) -> str:
    within = line.y[list(line.x).index(context)]
    if line.x[-1] <= context:
        return f"{line.label}: {within:.2f} at the training length, not defined beyond"
    times = line.x[-1] / context
    return f"{line.label}: {within:.2f} at the training length, {line.y[-1]:.2f} at {times:g} times that length"


LONGEST, PERIOD, WORDS = 64, 4, 8


def extrapolation(
    *,
    seed: int = 0,
    progress: Progress = silent,
    kinds: Sequence[Positions] = get_args(Positions),
    documents: int = 3000,
    tested: int = 200,
    steps: int = 300,
    group: int = 8,
) -> Findings:
    """Return the mean loss of groups of positions, with a line for each position encoding. Raises SettingError."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, LONGEST + 1, documents)
    train = [draw_document(rng, int(length)) for length in lengths]
    test = [draw_document(rng, LONGEST) for _ in range(tested)]
    ends = list(range(group, LONGEST + 1, group))
    training = TrainingConfig(steps=steps, batch=16, seed=seed, compile="no")
    lines = []
    for _, kind in in_turn("extrapolation", kinds, progress):
        config = TransformerConfig(layers=2, heads=4, width=64, context=LONGEST + 1, positions=kind, memory="document")
        model = train_small(train, FIRST_WORD + WORDS, config, training)
        losses = -np.mean([np.asarray(row)[:LONGEST] for row in model.score(test)], axis=0)
        lines.append(Line(label=kind, x=ends, y=[float(losses[end - group : end].mean()) for end in ends]))
    trained = {end: float((lengths >= end).mean()) for end in ends}
    changes = {line.label: line.y[-1] - line.y[1] for line in lines}
    return Findings(
        title="The loss of a position, by how often it was trained",
        x=Axis(label="position in the document"),
        y=Axis(label="loss of a word, nats"),
        lines=lines,
        finding=(
            f"Position {ends[1]} was in {trained[ends[1]]:.0%} of the training documents, position {ends[-1]} in "
            f"{trained[ends[-1]]:.0%}. From the one to the other the loss changes by "
            + ", ".join(f"{change:+.2f} ({label})" for label, change in changes.items())
            + "."
        ),
    )


def draw_document(rng: np.random.Generator, length: int) -> Int32[ndarray, " T"]:
    """Return random words, of which every one repeats the one four positions before it."""
    words = rng.integers(WORDS, size=PERIOD)
    return (FIRST_WORD + np.resize(words, length)).astype(np.int32)


_VOCABULARY = 40
_WIDTH = 32
_BLIND = 1e-4  # a smaller change is rounding
_TRANSFORMER: dict[str, Any] = {"width": _WIDTH, "heads": 2, "zero_projections": False}

NETWORKS: dict[str, NetworkConfig | MaskedConfig] = {
    "bag": BagConfig(width=_WIDTH, window=None),
    "feed-forward, window 4": FeedforwardConfig(width=_WIDTH, window=4),
    "RNN": RecurrentConfig(cell="rnn_tanh", layers=1, width=_WIDTH),
    "LSTM": RecurrentConfig(layers=1, width=_WIDTH),
    "attention, no positions": TransformerConfig(layers=1, positions="none", **_TRANSFORMER),
    "two causal layers, no positions": TransformerConfig(layers=2, positions="none", **_TRANSFORMER),
    "bidirectional, 4 layers, no positions": MaskedConfig(layers=4, positions="none", **_TRANSFORMER),
    "attention, rotary": TransformerConfig(layers=1, positions="rotary", **_TRANSFORMER),
    "attention, sinusoidal": TransformerConfig(layers=1, positions="sinusoidal", **_TRANSFORMER),
}


def order(*, seed: int = 0, progress: Progress = silent, length: int = 12, rows: int = 64) -> Findings:
    """Return how much the prediction after a text changes when all words but the last are shuffled.

    As a share of how much it changes when they are replaced by others: 0 is blind to order, 1 is as if the text were
    another one.
    """
    generator = torch.Generator().manual_seed(seed)
    text, other = (torch.randint(3, _VOCABULARY, (rows, length), generator=generator) for _ in range(2))
    shuffled = torch.stack([row[_shuffle(length, generator)] for row in text])
    other[:, -1] = text[:, -1]
    changes = []
    for _, config in in_turn("order", NETWORKS, progress):
        torch.manual_seed(seed)
        probs, probs_shuffled, probs_other = (predictions(config, read, seed) for read in (text, shuffled, other))
        changes.append(moved_probability(probs, probs_shuffled) / moved_probability(probs, probs_other))
    blind = [label for label, change in zip(NETWORKS, changes, strict=True) if change < _BLIND]
    return Findings(
        title="What a shuffled text changes",
        x=Axis(label="network", categories=list(NETWORKS)),
        y=Axis(label="change of the prediction, relative to another text's"),
        lines=[Line(label="words before the last one shuffled", x=list(range(len(NETWORKS))), y=changes)],
        finding=f"Blind to order, whatever their weights: {'; '.join(blind)}.",
        says=[f"{label}: {change:.6f}" for label, change in zip(NETWORKS, changes, strict=True)],
    )


def _shuffle(length: int, generator: torch.Generator) -> Int64[Tensor, " T"]:
    """Return a permutation of positions that leaves the last one where it is."""
    return torch.cat([torch.randperm(length - 1, generator=generator), torch.tensor([length - 1])])


@torch.inference_mode()
def predictions(config: NetworkConfig | MaskedConfig, text: Int64[Tensor, "B T"], seed: int) -> Float[Tensor, "B V"]:
    """Return the distribution that an untrained network gives at the last position."""
    torch.manual_seed(seed)
    network = build(config, _VOCABULARY).eval()
    for parameter in network.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=parameter.shape[-1] ** -0.5)  # so that predictions differ visibly
    hidden, _ = network.encoder(network.embed(text), None, None)
    return network.output.log_probs(hidden[:, -1]).exp()


def moved_probability(p: Float[Tensor, "B V"], q: Float[Tensor, "B V"]) -> float:
    """Return the mean total variation distance of distributions: the probability that moved."""
    return float((p - q).abs().sum(1).mean() / 2)
