"""A seq2seq network as a model: given its sources, it is a `LanguageModel` like any other.

A batch of sources is one array: tokens with </s> and padding, or vectors, with padding if they are of regions.
Legend: B rows, M sources, S tokens of a source, T time, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self, cast

import numpy as np
import torch
from torch import Tensor

from chainrule.base.arguments import after_prefixes, as_tokens, check_tokens
from chainrule.base.distributions import check_log_probs
from chainrule.errors import SettingError
from chainrule.features.seq2seq.network.cross_attention import WeightLists
from chainrule.features.seq2seq.network.vector_sources import VectorInput, check_vectors
from chainrule.neural.language_model import NeuralModel, Reading
from chainrule.neural.layers import state as encoder_states
from chainrule.neural.scoring import pad
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Float32, Int32, Int64, Shaped
    from numpy import ndarray

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.features.seq2seq.network.cross_attention import Source
    from chainrule.features.seq2seq.network.network import Seq2SeqNetwork
    from chainrule.neural.layers.state import Cache, State
    from chainrule.neural.network import Network

    Tokens = Int32[ndarray, " tokens"]


class SourceBatch(NamedTuple):
    """Sources in one array, and which positions hold a token or vector, not padding."""

    inputs: Shaped[ndarray, "M S ..."]
    is_token: Bool[ndarray, "M S"]


def batch_sources(
    sources: Sequence[Shaped[ndarray, "*shape"]], config: Seq2SeqConfig, *, length: int | None = None
) -> SourceBatch:
    """Return the sources in one array.

    length: the length to pad to; by default that of the longest source, for tokens with its </s> and what else is read
    with each source.
    """
    if config.reads_regions:
        lengths = np.array([len(source) for source in sources])
        length = int(lengths.max()) if length is None else length
        rows = np.zeros((len(sources), length, sources[0].shape[1]), np.float32)
        for row, source in zip(rows, sources, strict=True):
            row[: len(source)] = source
        return SourceBatch(rows, np.arange(length) < lengths[:, None])
    if config.reads_vectors:
        return SourceBatch(np.stack(sources), np.ones((len(sources), config.max_source), bool))
    before, after = (np.array(ids, np.int32) for ids in (config.before_source, (END, *config.after_source)))
    ended = [np.concatenate([before, as_tokens(source), after]) for source in sources]
    lengths = np.array([len(row) for row in ended])
    length = int(lengths.max()) if length is None else length
    return SourceBatch(pad(ended, END, length=length), np.arange(length) < lengths[:, None])


def source_length(source: Shaped[ndarray, "*shape"], config: Seq2SeqConfig) -> int:
    """Return the number of positions of a source that the decoder attends to."""
    if config.reads_regions:
        return len(source)
    added = config.max_source - config.most_source_tokens
    return config.max_source if config.reads_vectors else len(source) + added


_TOGETHER = 1 << 14  # tokens that are scored at once
_ROWS = 256  # targets whose hidden states are computed at once


class NeuralSeq2SeqModel:
    """P(target | source)."""

    def __init__(self, network: Seq2SeqNetwork) -> None:
        """Set the network to evaluation mode, without dropout."""
        self.network = network.eval()
        self.vocabulary_size = network.vocabulary_size

    @torch.inference_mode()
    def given(
        self, sources: Sequence[Shaped[ndarray, "*shape"]], *, alignments: bool = False
    ) -> SourceConditionedModel:
        """Return the language model of the targets of some sources, which are encoded once.

        sources: tokens, (S,); or where the model reads vectors, these, (S, F), or the pixels of pictures, (H, W, C).
        alignments: whether to record attention weights for `Given.attention`. Raises SettingError if a source is too
        long or an id is outside the vocabulary, or if there is no attention to record.
        """
        config, source_input = self.network.config, self.network.source_embedding
        if isinstance(source_input, VectorInput):
            check_vectors(sources, config, source_input.body)
        else:
            self._check_tokens(sources)
        if alignments and config.attention == "none":
            raise SettingError("a model without attention has no alignments; expected alignments=False")
        batch = batch_sources(sources, config)
        inputs, is_token = (torch.from_numpy(array).to(self.network.device) for array in batch)
        return SourceConditionedModel(
            SourceConditionedNetwork(self.network, self.network.read(inputs, is_token), alignments=alignments)
        )

    def _check_tokens(self, sources: Sequence[Tokens]) -> None:
        """Raise SettingError if a source has an unknown id, or too many tokens."""
        longest = self.network.config.most_source_tokens
        for i, source in enumerate(sources, 1):
            check_tokens(as_tokens(source), self.network.source_vocabulary_size)
            if len(source) > longest:
                which = f"source {i}" if len(sources) > 1 else "the source"
                raise SettingError(
                    f"{which} has {len(source):,} tokens; the model reads at most {longest:,}: "
                    "cut it, or train with a larger max_source"
                )


@torch.inference_mode()
def hidden_states(
    model: NeuralSeq2SeqModel, sources: Sequence[Shaped[ndarray, "*shape"]], targets: Sequence[Tokens]
) -> list[Float32[ndarray, "T D"]]:
    """Return the hidden states from which the tokens of each target and its end are predicted, T with </s>."""
    config, states = model.network.config, []
    for first in range(0, len(sources), _ROWS):
        own = targets[first : first + _ROWS]
        batch = batch_sources(sources[first : first + _ROWS], config)
        inputs = pad([np.concatenate([[END], target]) for target in own], END)
        arrays = (torch.from_numpy(array).to(model.network.device) for array in (*batch, inputs))
        hidden = model.network(*arrays).float().cpu().numpy()
        states += [row[: len(target) + 1] for row, target in zip(hidden, own, strict=True)]
    return states


class SourceConditionedNetwork:
    """A seq2seq network with its sources, in the role of a `Network`; its state holds the source of each row."""

    memory = "document"
    is_bidirectional = False
    context: int | None = None
    reach: int | None = None

    def __init__(self, network: Seq2SeqNetwork, source: Source, *, alignments: bool = False) -> None:
        self.network, self.source, self.alignments = network, source, alignments
        self.embedding, self.embed, self.output = network.embedding, network.embed, network.output
        self.vocabulary_size, self.width, self.device = network.vocabulary_size, network.decoder.width, network.device

    @property
    def config(self) -> Seq2SeqConfig:
        return self.network.config

    @property
    def encoder(self) -> Self:
        """The context encoder: this object itself."""
        return self

    @property
    def first_token(self) -> int:
        """As `Network.first_token`."""
        return BEGIN if self.config.begins_with == "<s>" else END

    def eval(self) -> Self:
        self.network.eval()
        return self

    def as_read(self, tokens: Int64[Tensor, "B T"]) -> Int64[Tensor, "B T"]:
        """Return the tokens themselves, as `Network.as_read` may."""
        return tokens

    def read(
        self, tokens: Int64[Tensor, "B T"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T *choices D"], State]:
        """Return the same as `Network.read`."""
        return self(self.embed(tokens), state, starts)

    def start(self, rows: int) -> State:
        """Return the state of one row for each source, or of any number of rows for a single source.

        Raises SettingError.
        """
        sources = self.rows_of(rows)
        attention = sources.new_zeros(rows, self.source.is_token.shape[1], dtype=torch.float32)
        return (sources, self.network.decoder.start(self.source.at(sources)), attention if self.alignments else None)

    def rows_of(self, rows: int) -> Int64[Tensor, " B"]:
        """Return the source of each row. Raises SettingError."""
        sources = len(self.source.is_token)
        if sources == 1:
            return torch.zeros(rows, dtype=torch.int64, device=self.device)
        if rows not in (sources, 0):
            raise SettingError(f"there are {rows} rows for {sources} sources; expected one row each, or one source")
        return torch.arange(rows, device=self.device)

    def __call__(
        self, x: Float[Tensor, "B T D"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T *choices D"], State]:
        """Return the hidden states and the new state, as `Encoder` does."""
        current = self.start(len(x)) if state is None else state
        rows, inner, attention = cast("tuple[Tensor, State, Tensor | None]", current)
        maps = WeightLists([], None) if attention is not None else None
        if self.config.before_target:
            begins = torch.full_like(rows, cast("Cache", inner).columns == 0, dtype=torch.bool)
            begins = begins if starts is None or begins.all() else starts.any(1)
            if begins.any() and not begins.all():
                return self._apart(x, current, begins)
            if begins.all():
                inner = self.network.decoder.start(self.source.at(rows))
            read = self.network.decode if begins.all() else self.network.decoder
        else:
            read = self.network.decoder
        hidden, inner = read(x, inner, starts, self.source.at(rows, maps))
        if maps is not None:
            attention = maps.source[-1][:, :, -1].mean(1)  # the last layer's mean over heads, for the next token
        return hidden, (rows, inner, attention)

    def _apart(
        self, x: Float[Tensor, "B 1 D"], state: State, begins: Bool[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B 1 D"], State]:
        """Return one step of rows that begin a text, which read more tokens than this one, and of rows that go on."""
        groups = [begins.nonzero().flatten(), (~begins).nonzero().flatten()]
        hidden, states = zip(
            *(
                self(x[rows], encoder_states.select(state, rows), begins[rows, None] if is_first else None)
                for is_first, rows in zip((True, False), groups, strict=True)
            ),
            strict=True,
        )
        back = torch.cat(groups).argsort()
        return torch.cat(hidden)[back], encoder_states.select(encoder_states.join(states), back)


class SourceConditionedModel:
    """A seq2seq model with its sources: a `LanguageModel` with a row for each source, or any rows for one."""

    end = END

    def __init__(self, bound: SourceConditionedNetwork) -> None:
        """Take the steps of `NeuralModel`; only the rows of whole sequences are scored with a source each."""
        self.bound, self.vocabulary_size = bound, bound.vocabulary_size
        self.stepping = stepping = NeuralModel(cast("Network", bound))
        self.start, self.advance = stepping.start, stepping.advance
        self.select, self.join = stepping.select, stepping.join
        self.next_log_probs, self.log_probs_of = stepping.next_log_probs, stepping.log_probs_of
        self.top, self.draw = stepping.top, stepping.draw

    @property
    def is_exact(self) -> bool:
        """False where hard attention continues with the likeliest position, instead of summing over all."""
        config = self.bound.config
        return config.attention != "hard" or not config.feeds

    def attention(self, state: Reading) -> Float32[ndarray, "rows source"]:
        """Return the attention weights of each row on its source for the next token; NaN past the end of the source.

        Those on tokens of `before_source` and `after_source` are left out.
        """
        sources, _, attention = cast("tuple[Tensor, State, Tensor]", state.memory)
        before, after = (len(ids) for ids in (self.bound.config.before_source, self.bound.config.after_source))
        is_token = self.bound.source.is_token[sources]
        is_token = is_token[:, before + after :]  # of the text and its </s>: rows are padded at their ends
        kept = attention[:, before : before + is_token.shape[1]]
        weights = kept.masked_fill(~is_token, torch.nan).float().cpu().numpy()
        return weights if state.rows is None else weights[state.rows]

    def score(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " tokens"]]:
        """Implement `Scorer.score`."""
        return self._score(sequences, prefixes, end=end)[0]

    def unknown_log_probs(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " tokens"]]:
        """Implement `LanguageModel.unknown_log_probs`."""
        return self._score(sequences, prefixes, end=end)[1]

    def score_stream(self, stream: Tokens) -> Float32[ndarray, " tokens"]:
        """Implement `Scorer.score_stream`, with as many documents as sources, or any number of documents for one
        source.
        """
        parts = np.split(as_tokens(stream), np.flatnonzero(as_tokens(stream) == END) + 1)
        scores = self.score([part[:-1] for part in parts[:-1]])
        if parts[-1].size:  # a document without an end
            scores += self.score([parts[-1]], end=False)
        return np.concatenate([np.empty(0, np.float32), *scores])

    @torch.inference_mode()
    def _score(
        self, sequences: Sequence[Tokens], prefixes: Sequence[Tokens] | None, *, end: bool
    ) -> tuple[list[Float32[ndarray, " tokens"]], list[Float32[ndarray, " tokens"]]]:
        """Return the log-probabilities of each sequence's tokens, and of <unk> at their positions."""
        texts = after_prefixes(sequences, prefixes, self.vocabulary_size, end=end)
        rows = [text for text, _ in texts]
        sources = self.bound.rows_of(len(rows)).cpu().numpy()
        scores = [np.empty(len(row), np.float32) for row in rows]
        others = [np.empty(len(row), np.float32) for row in rows]
        order = sorted((i for i, row in enumerate(rows) if len(row)), key=lambda i: len(rows[i]))
        while order:
            longest = len(rows[order[-1]])
            batch, order = order[-max(1, _TOGETHER // longest) :], order[: -max(1, _TOGETHER // longest)]
            log_probs = self._log_probs_of([rows[i] for i in batch], sources[batch])
            for i, row in zip(batch, log_probs, strict=True):
                scores[i][:], others[i][:] = row[: len(rows[i])].T
        for row in (*scores, *others):
            check_log_probs(row)
        return [[row[own] for row, (_, own) in zip(part, texts, strict=True)] for part in (scores, others)]  # type: ignore[return-value]

    def _log_probs_of(self, rows: list[Tokens], sources: Int64[ndarray, " B"]) -> Float32[ndarray, "B T 2"]:
        """Return the log-probabilities of the tokens of padded rows, and of <unk> at their positions."""
        bound, device = self.bound, self.bound.device
        inputs = torch.from_numpy(pad([np.concatenate([[END], row[:-1]]) for row in rows], END)).to(device)
        targets = torch.from_numpy(pad(rows, END)).to(device)
        source = bound.source.at(torch.from_numpy(sources).to(device))
        starts = inputs == END if bool((inputs[:, 1:] == END).any()) else None
        hidden, _ = bound.network.decode(bound.embed(inputs), None, starts, source)
        asked = torch.stack([targets, torch.full_like(targets, UNKNOWN)], -1)
        return bound.output.log_probs_of(hidden, asked).cpu().numpy()
