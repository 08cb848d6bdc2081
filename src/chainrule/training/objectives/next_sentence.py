"""BERT's objective: masked tokens of pairs of parts, and whether the second part of a pair follows the first.

The loss of a step is the mean over the tokens to predict, plus the mean over its pairs (Devlin et al. 2019, appendix
A.2). In the text, a line is a sentence, and an empty line ends a document. Lines that follow each other in a document
and fill a row are a run, which is cut in two between lines; in about half of the rows, the second part is drawn from
another run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from chainrule.errors import TextError
from chainrule.neural.scoring import pad, round_up
from chainrule.neural.sentence_pairs import MARKERS, pair_tokens, separator
from chainrule.protocol import END
from chainrule.training.defaults import row_length
from chainrule.training.job import StatelessObjective, ValidationResult
from chainrule.training.objectives.masked import begins_word, mask_rows, unigram_loss_of_masked
from chainrule.training.objectives.stream import flops_per_token, stream_job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Bool, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.config import MaskedConfig, NetworkConfig
    from chainrule.neural.network import Network
    from chainrule.neural.sentence_pairs import NextSentence
    from chainrule.training.job import Setup, StreamOptions, TrainingJob

_FOLLOWING = 0.5  # share of rows


class PairRows(NamedTuple):
    """</s> a </s> b </s>, padded with </s>; where b begins, and where the padding does; and whether b follows a."""

    tokens: Int64[ndarray, "B T"]
    second: Int64[ndarray, " B"]
    lengths: Int64[ndarray, " B"]
    follows: Bool[ndarray, " B"]


class SentencePairs:
    """The runs of a text, and pairs made of them."""

    def __init__(
        self, stream: Int32[ndarray, " tokens"], longest: int, seed: int, *, name: str = "the training text"
    ) -> None:
        """Cut the text into runs.

        longest: the most tokens of a row. name: that of the text, for messages. Raises TextError if there are fewer
        than two runs.
        """
        ends = np.flatnonzero(stream == END)
        if not ends.size or ends[-1] != stream.size - 1:
            ends = np.append(ends, stream.size)
        self.stream, self.room, self.seed = stream, longest - MARKERS, seed
        self._edges = np.concatenate([[0], ends + 1])  # where lines begin; the one after the last, too
        lengths = np.diff(self._edges) - 1
        self._tokens_before = np.concatenate([[0], np.cumsum(lengths)])  # each line, and all
        self._document_ends = _document_ends(lengths)
        self.runs = _runs(self._fitting(np.arange(lengths.size), self.room), self._document_ends)
        if len(self.runs) < 2:
            raise TextError(
                f"{name} has fewer than two pairs of lines that follow each other, which next_sentence reads; give "
                "more text, a sentence a line, with empty lines between documents only"
            )

    def rows(self, runs: Sequence[int], rng: np.random.Generator) -> PairRows:
        """Return a pair of each of these runs."""
        pairs, follows = [], rng.random(len(runs)) < _FOLLOWING
        for run, is_next in zip(runs, follows.tolist(), strict=True):
            first, end = self.runs[run]
            middle = int(rng.integers(first + 1, end))
            a = self._line_tokens(first, middle)
            b = self._line_tokens(middle, end) if is_next else self._drawn(run, self.room - len(a), rng)
            pairs.append(pair_tokens(a, b, END, self.room))
        tokens = [row for row, _ in pairs]
        return PairRows(
            pad(tokens, END, length=min(round_up(max(map(len, tokens))), self.room + MARKERS)),
            np.array([second for _, second in pairs]),
            np.array([len(row) for row in tokens]),
            follows,
        )

    def runs_of_step(self, step: int, batch: int) -> list[int]:
        """Return the runs of a step: each epoch reads all runs, in another order."""
        indices = np.arange(step * batch, (step + 1) * batch)
        epochs, places = np.divmod(indices, len(self.runs))
        orders = {epoch: self._order(epoch) for epoch in np.unique(epochs).tolist()}
        return [int(orders[epoch][place]) for epoch, place in zip(epochs.tolist(), places.tolist(), strict=True)]

    def _order(self, epoch: int) -> Int64[ndarray, " runs"]:
        return np.random.default_rng([self.seed, epoch]).permutation(len(self.runs))

    def _drawn(self, run: int, room: int, rng: np.random.Generator) -> Int32[ndarray, " tokens"]:
        """Return lines that follow each other, from any line of another run on, as many as fit; one at least.

        They do not end with that run, or drawn parts would be shorter than others; but they do where `run` begins.
        """
        other = int(rng.integers(len(self.runs) - 1))
        begin = int(rng.integers(*self.runs[other + (other >= run)]))
        own = self.runs[run][0]
        limit = int(self._document_ends[begin])
        fitting = int(self._fitting(np.array([begin]), room)[0])
        return self._line_tokens(begin, min(max(begin + 1, fitting), limit, own if begin < own else limit))

    def _fitting(self, lines: Int64[ndarray, " lines"], room: int) -> Int64[ndarray, " lines"]:
        """Return the line after the last that fits into `room` tokens together with all from each of these on."""
        return np.searchsorted(self._tokens_before, self._tokens_before[lines] + room, "right") - 1

    def _line_tokens(self, first: int, end: int) -> Int32[ndarray, " tokens"]:
        """Return the tokens of lines, without what separates them."""
        part = self.stream[self._edges[first] : self._edges[end]]
        return part[part != END]


def _document_ends(lengths: Int64[ndarray, " lines"]) -> Int64[ndarray, " lines"]:
    """Return the line after the last of each line's document; an empty line ends one, and is none."""
    borders = np.append(np.flatnonzero(lengths == 0), lengths.size)
    return np.asarray(borders[np.searchsorted(borders, np.arange(lengths.size))])


def _runs(fitting: Int64[ndarray, " lines"], document_ends: Int64[ndarray, " lines"]) -> list[tuple[int, int]]:
    """Return the first line of each run, and the one after its last: two lines at least, none of them empty.

    fitting: from each line on, the line after the last that fits into a row.
    """
    lines = fitting.size
    ends = np.minimum(np.maximum(fitting, np.arange(lines) + 2), document_ends).tolist()
    runs, first = [], 0
    while first < lines:
        end = ends[first]
        if end - first >= 2:
            runs.append((first, end))
        first = max(end, first + 1)
    return runs


_VALIDATION, _TRAINING = 0, 1  # the uses of random numbers
_BATCH_TOKENS = 1 << 13
_FOLLOWS, _DRAWN = 0, 1  # the classes of `NextSentence`


class MicroBatch(NamedTuple):
    """Some pairs of a step, with masks: (B, T) and (B,)."""

    inputs: Tensor
    targets: Tensor
    predicted: Tensor  # True at tokens to predict
    second: Tensor  # where the second part of a pair begins
    lengths: Tensor  # where its padding begins
    classes: Tensor


class Losses(NamedTuple):
    """Sums over a part, in nats; and how many pairs were classified correctly."""

    tokens: Tensor
    pairs: Tensor
    right: Tensor


def next_sentence_job(
    stream: Int32[ndarray, " tokens"],
    vocabulary_size: int,
    config: NetworkConfig,
    options: StreamOptions,
) -> TrainingJob[Network]:
    """Return a job that trains a masked network on pairs. Raises TextError, SettingError."""
    begins, seed = begins_word(options, vocabulary_size), options.training.seed
    length = row_length(config, options.training)
    pairs = SentencePairs(stream, length, seed)
    held_out = None
    if options.validation is not None:
        held_out = SentencePairs(options.validation.stream, length, seed, name="the held-out text")
    return stream_job(
        stream,
        vocabulary_size,
        config,
        options,
        lambda network, setup: NextSentenceObjective(network, setup, pairs, held_out, begins),
    )


class NextSentenceObjective(StatelessObjective):
    """An Objective: -log P(masked token | a, b) - log P(whether b follows a | a, b)."""

    def __init__(
        self,
        network: Network,
        setup: Setup,
        pairs: SentencePairs,
        held_out: SentencePairs | None,
        begins: Bool[ndarray, " vocab"],
    ) -> None:
        """Prepare the pairs. begins: whether a token begins a word. Raises SettingError if a batch cannot be
        divided.
        """
        setup.processes.check_batch(setup.recipe.batch, setup.training.accumulate)
        self.network, self.setup, self.pairs, self.held_out = network, setup, pairs, held_out
        self.config, self.begins, self.batch = cast("MaskedConfig", network.config), begins, setup.recipe.batch
        self.head = cast("NextSentence", network.next_sentence)
        self.epoch = pairs.stream.size
        self.flops_per_token = flops_per_token(network)
        self.row_tokens = pairs.stream.size / len(pairs.runs)
        self.validation_tokens = 0 if held_out is None else held_out.stream.size
        self._last: tuple[int, MicroBatch] | None = None

    def tokens(self, steps: int) -> int:
        return int(steps * self.batch * self.row_tokens)

    def parts(self, step: int) -> list[MicroBatch]:
        own, device = slice(*self.setup.processes.rows(self.batch)), self.setup.machine.device
        columns = (
            column[own].to(device, non_blocking=True).chunk(self.setup.training.accumulate)
            for column in self._pairs_of_step(step)
        )
        return [MicroBatch(*part) for part in zip(*columns, strict=True)]

    def weight(self, step: int) -> float:
        """Return the tokens to predict; `loss` weights pairs so that these divide their sum, too."""
        return float(self._pairs_of_step(step).predicted.sum())

    def loss(self, number: int, part: MicroBatch, forward: Callable[..., Any], done: float) -> Tensor:
        assert self._last is not None
        losses = self._losses(part, forward, self.setup.training.label_smoothing)
        return losses.tokens + losses.pairs * (self.weight(self._last[0]) / self.batch)

    @torch.no_grad()
    def validate(self, tokens: int) -> ValidationResult:
        """Return the loss of tokens, and separate figures of pairs."""
        assert self.held_out is not None
        held_out, processes = self.held_out, self.setup.processes
        count = max(1, min(len(held_out.runs), len(held_out.runs) * tokens // held_out.stream.size))
        chosen = (np.arange(count) * len(held_out.runs) // count).tolist()
        rows = max(1, _BATCH_TOKENS // row_length(self.config, self.setup.training))
        sums = torch.zeros(4, dtype=torch.float64)
        for block, first in enumerate(range(0, count, rows)):
            if block % processes.number != processes.rank:
                continue
            part = self._with_masks(held_out, chosen[first : first + rows], (_VALIDATION, block))
            with self.setup.machine.precision():
                losses = self._losses(
                    MicroBatch(*(column.to(self.setup.machine.device) for column in part)), self.network, 0.0
                )
            sums += torch.tensor([*map(float, losses), float(part.predicted.sum())], dtype=torch.float64)
        processes.add([sums])
        nats, pair_nats, right, predicted = sums.tolist()
        figures = {"pairs": count, "next_sentence_loss": pair_nats / count, "next_sentence_accuracy": right / count}
        return ValidationResult(nats / predicted, int(predicted), figures)

    def unigram_loss(self) -> float:
        assert self.held_out is not None
        return unigram_loss_of_masked(self.pairs.stream, self.held_out.stream, self.network.vocabulary_size)

    def _losses(self, part: MicroBatch, forward: Callable[..., Any], smoothing: float) -> Losses:
        places = torch.arange(part.inputs.shape[1], device=part.inputs.device)
        hidden, _ = forward(part.inputs, None, places == part.lengths[:, None], part.second)
        predicted = part.predicted
        logits = self.head(hidden).float()
        return Losses(
            self.network.output.loss(hidden[predicted], part.targets[predicted], label_smoothing=smoothing),
            F.cross_entropy(logits, part.classes, reduction="sum"),
            (logits.argmax(1) == part.classes).sum(),
        )

    def _pairs_of_step(self, step: int) -> MicroBatch:
        """Return all pairs of a step: every process must know how many tokens the whole step predicts."""
        if self._last is None or self._last[0] != step:
            runs = self.pairs.runs_of_step(step, self.batch)
            self._last = step, self._with_masks(self.pairs, runs, (_TRAINING, step))
        return self._last[1]

    def _with_masks(self, pairs: SentencePairs, runs: Sequence[int], purpose: tuple[int, int]) -> MicroBatch:
        rng = np.random.default_rng([self.setup.training.seed, *purpose])
        rows = pairs.rows(runs, rng)
        masked = mask_rows(rows.tokens, self.config, self.begins, rng)
        places = np.arange(rows.tokens.shape[1])
        separates = (places == rows.second[:, None] - 1) | (places == rows.lengths[:, None] - 1)
        inputs = np.where(separates, separator(self.config), masked.inputs)
        classes = np.where(rows.follows, _FOLLOWS, _DRAWN)
        columns = (inputs, masked.targets, masked.predicted, rows.second, rows.lengths, classes)
        return MicroBatch(*map(torch.from_numpy, columns))
