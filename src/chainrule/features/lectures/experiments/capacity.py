"""The experiments nonlinearity, places and nesting: what a network can represent, and what it learns only by place.

Nonlinearity: the exclusive or of two inputs (Minsky and Papert 1969). Layers without a nonlinearity between them
multiply out to one matrix, so that they never learn it, however many there are; one hidden layer with tanh or ReLU
does.

Places: in a feed-forward network with a window, a word at two places of the window is two features, each with weights
of its own. Some opinions are trained at one place only, and asked for at the other. A bag has no places; what learns
from the place as well as from the word, as the others may, need not know the word anywhere else.

Nesting: ListOps (Nangia and Bowman 2018), small: [max [min 4 7 ] 2 ] = 4. Sentences nest without a limit, and so do
these; networks are trained up to a depth, and asked beyond it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.features.lectures.experiments.findings import Findings, in_turn, share_of
from chainrule.features.lectures.experiments.small_models import FIRST_WORD, by_adamw, train_small
from chainrule.neural.config import (
    BagConfig,
    ConvolutionConfig,
    FeedforwardConfig,
    RecurrentConfig,
    TransformerConfig,
)
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from _typeshed import DataclassInstance

    from chainrule.protocol import LanguageModel

_BETWEEN: dict[str, type[nn.Module]] = {"linear": nn.Identity, "tanh": nn.Tanh, "ReLU": nn.ReLU}


def nonlinearity(
    *,
    seed: int = 0,
    progress: Progress = silent,
    layers: Sequence[int] = (0, 1, 2, 3),
    width: int = 8,
    networks: int = 5,
    steps: int = 400,
) -> Findings:
    """Return the loss of networks that learn the exclusive or, in bits, by the number of hidden layers.

    networks: how many are trained of each kind, from different weights.
    """
    lines, right = [], {}
    for label, between in in_turn("nonlinearity", _BETWEEN, progress):
        means = []
        for count in layers:
            losses = []
            for i in range(networks):
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(seed + i)
                    sizes = [2, *[width] * count]  # of what each layer reads
                    hidden = [part for size in sizes[:-1] for part in (nn.Linear(size, width), between())]
                    network = nn.Sequential(*hidden, nn.Linear(sizes[-1], 1))
                losses.append(_loss_after(network, steps))
            means.append(float(np.mean(losses)))
            right[label, count] = sum(loss < 0.1 for loss in losses)
        lines.append(Line(label=label, x=list(layers), y=means))
    linear = lines[0]
    deep = [count for count in layers if count]
    solved = {label: sum(right[label, count] for count in deep) for label in _BETWEEN if label != "linear"}
    told = ", ".join(f"{count} of {networks * len(deep)} with {label}" for label, count in solved.items())
    return Findings(
        title="The exclusive or, learned",
        x=Axis(label="hidden layers"),
        y=Axis(label="loss in bits"),
        lines=lines,
        finding=(
            f"Without a nonlinearity the loss stays at {min(linear.y):.2f} to {max(linear.y):.2f} bits, which is to "
            f"guess, with up to {max(layers)} hidden layers; with one, networks learn it: {told}."
        ),
    )


def _loss_after(network: nn.Module, steps: int) -> float:
    """Return the loss of the exclusive or in bits, after this many steps."""
    inputs = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    targets = torch.tensor([0.0, 1.0, 1.0, 0.0])
    optimiser = torch.optim.Adam(network.parameters(), lr=0.03)
    for _ in range(steps):
        optimiser.zero_grad()
        loss = F.binary_cross_entropy_with_logits(network(inputs)[:, 0], targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return float(loss.detach()) / np.log(2)


_PLACES = (2, 6)  # of the opinions, of 8 words
_LENGTH = 8
_OPINIONS, _FILLERS = 8, 12  # of each kind; words
_GOOD, _BAD = FIRST_WORD, FIRST_WORD + 1  # the verdicts
_FIRST_OPINION = FIRST_WORD + 2
_FIRST_FILLER = _FIRST_OPINION + 2 * _OPINIONS
_SMALL: dict[str, Any] = {"width": 32, "context": 64, "memory": "document"}

READERS: dict[str, DataclassInstance] = {
    "feed-forward, window 9": FeedforwardConfig(window=9, **_SMALL),
    "bag": BagConfig(window=None, **_SMALL),
    "convolution": ConvolutionConfig(**_SMALL),
    "LSTM": RecurrentConfig(layers=1, **_SMALL),
    "Transformer": TransformerConfig(layers=2, heads=2, **_SMALL),
}


def places(
    *,
    seed: int = 0,
    progress: Progress = silent,
    compared: Mapping[str, DataclassInstance] = READERS,
    documents: int = 4000,
    tested: int = 400,
    steps: int = 300,
) -> Findings:
    """Return the share of right verdicts on opinions at the place where they were trained, and at another."""
    rng = np.random.default_rng(seed)
    train = [draw_opinion(rng, is_moved=False) for _ in range(documents)]
    tests = [[draw_opinion(rng, is_moved=is_moved) for _ in range(tested)] for is_moved in (False, True)]
    shares = {}
    for label, config in in_turn("places", compared, progress):
        model = train_small(train, _FIRST_FILLER + _FILLERS, config, by_adamw(steps, seed))
        shares[label] = [_right_ends(model, test, [_GOOD, _BAD]) for test in tests]
    return Findings(
        title="Opinions at the trained place, and at another",
        x=Axis(label="the opinion's place", categories=["as trained", "another"]),
        y=Axis(label="share of right verdicts"),
        lines=[Line(label=label, x=[0, 1], y=values) for label, values in shares.items()],
        finding="At a place where they were never seen, opinions are understood in "
        + ", ".join(f"{share_of(values[1], tested)} by {label}" for label, values in shares.items())
        + "; half would be guessed.",
    )


def draw_opinion(rng: np.random.Generator, *, is_moved: bool) -> list[int]:
    """Return eight words, one of them an opinion, and the verdict: good or bad.

    The first half of the opinions are trained at one place, the others at the other; is_moved: the other way round.
    """
    words = (_FIRST_FILLER + rng.integers(_FILLERS, size=_LENGTH)).tolist()
    kind, opinion = int(rng.integers(2)), int(rng.integers(_OPINIONS))
    place = _PLACES[(opinion < _OPINIONS // 2) != is_moved]
    words[place] = _FIRST_OPINION + kind * _OPINIONS + opinion
    return [*words, (_GOOD, _BAD)[kind]]


def _right_ends(model: LanguageModel[Any], documents: Sequence[Sequence[int]], ends: Sequence[int]) -> float:
    """Return the share of documents whose last token is likelier than any other of `ends` in its place."""
    state = model.start([np.array(document[:-1], np.int32) for document in documents])
    likeliest = model.next_log_probs(state)[:, list(ends)].argmax(1)
    right = [ends[i] == document[-1] for i, document in zip(likeliest.tolist(), documents, strict=True)]
    return float(np.mean(right))


_OPERATORS = {"max": max, "min": min}
_CLOSE, _EQUALS = FIRST_WORD, FIRST_WORD + 1
_FIRST_OPERATOR = FIRST_WORD + 2
_FIRST_DIGIT = _FIRST_OPERATOR + len(_OPERATORS)
_DIGITS = 10
_DEEP: dict[str, Any] = {"width": 64, "context": 256, "memory": "document"}

NESTING: dict[str, DataclassInstance] = {
    "LSTM": RecurrentConfig(layers=1, **_DEEP),
    "Transformer": TransformerConfig(layers=3, heads=4, **_DEEP),
}


def nesting(
    *,
    seed: int = 0,
    progress: Progress = silent,
    compared: Mapping[str, DataclassInstance] = NESTING,
    depths: Sequence[int] = (1, 2, 3, 4, 5, 6),
    trained_to: int = 3,
    documents: int = 12_000,
    tested: int = 300,
    steps: int = 350,
) -> Findings:
    """Return the share of right values of nested expressions by depth, with a line for each network.

    Raises SettingError. trained_to: the deepest training expression.
    """
    rng = np.random.default_rng(seed)
    train = [draw_expression(rng, int(rng.integers(1, trained_to + 1))) for _ in range(documents)]
    tests = [[draw_expression(rng, depth) for _ in range(tested)] for depth in depths]
    training = TrainingConfig(steps=steps, batch=32, seed=seed, compile="no")
    digits = list(range(_FIRST_DIGIT, _FIRST_DIGIT + _DIGITS))
    lines = []
    for label, config in in_turn("nesting", compared, progress):
        model = train_small(train, _FIRST_DIGIT + _DIGITS, config, training)
        lines.append(Line(label=label, x=list(depths), y=[_right_ends(model, test, digits) for test in tests]))
    usual = [max(np.bincount([document[-1] for document in test], minlength=1)) / len(test) for test in tests]
    lines.append(Line(label="the commonest value", x=list(depths), y=[float(share) for share in usual]))
    at, beyond = list(depths).index(trained_to), len(depths) - 1
    return Findings(
        title=f"Values of nested expressions; trained to depth {trained_to}",
        x=Axis(label="depth"),
        y=Axis(label="share of right values"),
        lines=lines,
        finding=f"At depth {depths[at]}, the deepest trained, and {depths[beyond]}: "
        + "; ".join(
            f"{line.label} {share_of(line.y[at], tested)} and {share_of(line.y[beyond], tested)}" for line in lines
        )
        + ".",
    )


def draw_expression(rng: np.random.Generator, depth: int) -> list[int]:
    """Return an expression and its value, such as [max [min 4 7 ] 2 ] = 4, with brackets exactly this deep."""
    tokens, value = _nested(rng, depth)
    return [*tokens, _EQUALS, _FIRST_DIGIT + value]


def _nested(rng: np.random.Generator, depth: int) -> tuple[list[int], int]:
    if depth == 0:
        digit = int(rng.integers(_DIGITS))
        return [_FIRST_DIGIT + digit], digit
    operator = int(rng.integers(len(_OPERATORS)))
    deep = int(rng.integers(2))  # this argument is as deep as can be
    tokens, values = [_FIRST_OPERATOR + operator], []
    for i in range(2):
        own, value = _nested(rng, depth - 1 if i == deep else int(rng.integers(2)) * max(0, depth - 2))
        tokens += own
        values.append(value)
    return [*tokens, _CLOSE], list(_OPERATORS.values())[operator](values)
