"""NeuralModel: a neural network as a `LanguageModel`; and what each of its layers would predict (the logit lens).

The input of a text begins with </s>, as between the documents of a stream. The setting `memory` decides what the
network remembers after the end of a document: a stream's memory continues, a document's begins anew.

The logit lens (nostalgebraist 2020) reads each layer's hidden state by the network's own final norm and output: a
Transformer's layers all add to one residual stream, so that any of them can be read so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from chainrule.base.arguments import after_prefixes, as_tokens, check_rows, check_tokens
from chainrule.base.distributions import NAN_MESSAGE, NOTHING_TO_DRAW_MESSAGE, check_draw, check_log_probs
from chainrule.errors import ModelFormatError, SettingError
from chainrule.neural.device import SHARE, follow_load, in_shares
from chainrule.neural.embedding import NetworkVectors
from chainrule.neural.encoders.transformer import Transformer
from chainrule.neural.layers import state as encoder_states
from chainrule.neural.layers.matrix_products import log_softmax, one_by_one
from chainrule.neural.layers.output import FullSoftmax
from chainrule.neural.quantization import forms_of, rounds_activations
from chainrule.neural.scoring import (
    WARM_UP,
    documents_of,
    pad,
    position_tops,
    score_rows,
    stream_rows,
    stride,
    top_tokens,
    window_start,
)
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Bool, Float, Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.neural.network import Network

    Tokens = Int32[ndarray, " tokens"]

_SMALL = 1 << 24  # multiplications of an output that torch's threads are slower to share than shares of rows


@torch.inference_mode()
def layer_states(network: Network, inputs: Int32[ndarray, " T"]) -> Iterator[tuple[int, Float[Tensor, "T D"]]]:
    """Yield what the output reads of each layer at each input, by the number of the layer, from 1.

    Those of the last layer are what the network predicts from. Layers whose width is not that of the output's input are
    left out. inputs: as the network reads them, </s> before the text.
    """
    encoder = network.encoder
    final_norm = encoder.norm if isinstance(encoder, Transformer) else None
    tokens = torch.from_numpy(inputs.astype(np.int64))[None].to(network.device)
    hidden = [states[0] for states in encoder.hidden_layers(network.embed(tokens))]
    for layer, states in enumerate(hidden, 1):
        if states.shape[-1] != encoder.width:
            continue
        is_normed = final_norm is None or layer == len(hidden)  # the last ones are normalised already
        yield layer, states if is_normed or final_norm is None else final_norm(states)


@torch.inference_mode()
def layer_log_probs(network: Network, inputs: Int32[ndarray, " read"]) -> dict[int, Float32[ndarray, " V"]]:
    """Return the next-token distribution after what is read, in nats, by the number of the layer; as for
    `layer_states`.
    """
    states = layer_states(network, inputs)
    return {layer: network.output.log_probs(state[-1]).cpu().numpy() for layer, state in states}


@dataclass
class _Next:
    """The next-token distributions of some rows, computed once, when they are first used."""

    hidden: Tensor  # (rows, D)
    log_probs: Tensor | None = None  # (rows, V)
    logits: Tensor | None = None  # (rows, V), where they are known before
    sums: tuple[bytes, Tensor] | None = None  # banned ids, and the probabilities of the others summed up: (rows, V)


@dataclass(frozen=True)
class Reading:
    """The state after reading rows of text. Selecting rows copies nothing; the next step does.

    rows: the row of `memory` and `next` that each row refers to; None if each refers to its own.
    """

    memory: encoder_states.State
    next: _Next
    rows: Int32[ndarray, " rows"] | None = field(default=None)

    def __len__(self) -> int:
        return len(self.next.hidden) if self.rows is None else len(self.rows)


class NeuralModel(NetworkVectors):
    """P(w | the tokens before it, as far back as the network's context reaches)."""

    end = END

    def __init__(self, network: Network) -> None:
        """Set the network to evaluation mode, without dropout."""
        self.network = network.eval()
        self.vocabulary_size = network.vocabulary_size

    @property
    def stream_signature(self) -> str:
        """How much context a token has in `score_stream`, as a short text for records."""
        encoder = self.network.encoder
        parts = [f"context:{self.network.memory}"]
        if encoder.context is not None:
            parts += [f"window:{encoder.context}", f"stride:{stride(encoder.context, self.network.stride)}"]
        elif self.network.reach is not None:
            parts.append(f"reach:{self.network.reach}")
        elif self.network.memory == "stream":
            parts.append(f"warm-up:{WARM_UP}")
        if forms := forms_of(self.network):
            parts.append(f"weights:{'+'.join(forms)}")
        if rounds_activations(self.network):
            parts.append("activations:int8")
        if getattr(encoder, "cache_bits", None) is not None:
            parts.append("cache:int8")
        if wide := getattr(encoder, "float64_layers", 0):
            parts.append(f"float64-layers:{wide}")
        if self.network.alone:
            parts.append("alone")
        if self.network.begin is not None or self.network.config.first_read is not None:
            parts.append(f"begin:{self.network.first_token}")
        return "|".join(parts)

    def score(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " tokens"]]:
        """Implement `Scorer.score`; each sequence is a separate text."""
        return self._score(sequences, prefixes, end=end, unknown=False)[0]

    def unknown_log_probs(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " tokens"]]:
        """Implement `LanguageModel.unknown_log_probs`."""
        return self._score(sequences, prefixes, end=end, unknown=True)[1]

    def score_stream(self, stream: Tokens) -> Float32[ndarray, " tokens"]:
        """Implement `Scorer.score_stream`; if the memory is a stream's, earlier documents are context for later
        ones.
        """
        return self.score_stream_with_unknown(stream, unknown=False)[0]

    def score_stream_with_unknown(
        self, stream: Tokens, on_share: Callable[[float], None] | None = None, *, unknown: bool = True
    ) -> tuple[Float32[ndarray, " tokens"], Float32[ndarray, " tokens"]]:
        """Return the log-probabilities of a stream's tokens, and of <unk> at their positions (zeros unless `unknown`).

        on_share: a callback for the share of the stream that is done, from 0 to 1.
        """
        stream = as_tokens(stream)
        check_tokens(stream, self.vocabulary_size)
        if self.network.memory == "stream":
            scores, others = score_rows(self.network, [stream], unknown=unknown, warm_up=WARM_UP, on_share=on_share)
        else:
            scores, others = score_rows(self.network, documents_of(stream), unknown=unknown, on_share=on_share)
        empty = np.empty(0, np.float32)
        return np.concatenate([empty, *scores]), np.concatenate([empty, *others])

    def stream_rows(self, stream: Tokens, size: int) -> Iterator[Float32[ndarray, "part vocab"]]:
        """Implement `StreamReader.stream_rows`."""
        stream = as_tokens(stream)
        check_tokens(stream, self.vocabulary_size)
        texts = [stream] if self.network.memory == "stream" else documents_of(stream)
        return stream_rows(self.network, texts, size)

    def text_rows(
        self, texts: Sequence[Tokens], size: int, *, banned: bool = False
    ) -> Iterator[Float32[ndarray, "part vocab"]]:
        """Return the distributions at the positions of several texts, </s> included, one text after the other, at most
        `size` at a time; each has the same bits whatever the other texts are.

        banned: as for `stream_rows`.
        """
        ended = [np.append(as_tokens(text), np.int32(END)) for text in texts]
        for text in ended:
            check_tokens(text, self.vocabulary_size)
        return stream_rows(self.network, ended, size, alone=True, banned=banned)

    @torch.inference_mode()
    def start(self, prefixes: Sequence[Tokens]) -> Reading:
        """Implement `LanguageModel.start`."""
        if not prefixes:
            no_rows = torch.zeros(0, self.network.encoder.width, device=self.network.device)
            return Reading(self.network.start(0), _Next(no_rows))
        rows = [self.last_window(as_tokens(prefix)) for prefix in prefixes]
        tokens = pad(rows, END, left=True)
        lengths = np.array([len(row) for row in rows])
        starts = None
        if lengths.min() < lengths.max():
            starts = self._tensor(np.arange(tokens.shape[1]) == (tokens.shape[1] - lengths)[:, None])
        hidden, memory = self._read(self._tensor(tokens), self.network.start(len(rows)), starts)
        return Reading(memory, _Next(hidden[:, -1].clone()))

    @torch.inference_mode()
    def read(self, sequences: Sequence[Tokens], state: Reading | None = None) -> Reading:
        """Implement `PromptReader.read`."""
        rows = [as_tokens(sequence) for sequence in sequences]
        lengths = np.array([len(row) for row in rows])
        if not len(rows) or not lengths.min():
            raise SettingError("there is nothing to read: a sequence has no tokens")
        for row in rows:
            check_tokens(row, self.vocabulary_size)
        starts = None
        if state is None:
            memory = self.network.start(len(rows))
            if (context := self.network.encoder.context) is not None:
                rows = [row[window_start(len(row), context) :] for row in rows]
                lengths = np.array([len(row) for row in rows])
            if lengths.min() < lengths.max():
                starts = self._tensor(np.arange(lengths.max()) == (lengths.max() - lengths)[:, None])
        elif len(rows) != len(state) or lengths.min() < lengths.max():
            raise SettingError(
                f"{len(rows)} sequences of {lengths.min()} to {lengths.max()} tokens cannot continue {len(state)} "
                "rows; give as many sequences of one length"
            )
        else:
            memory = state.memory
            if state.rows is not None:
                memory = encoder_states.select(memory, self._tensor(state.rows.astype(np.int64)))
        hidden, memory = self.network.read(self._tensor(pad(rows, END, left=True)), memory, starts)
        return Reading(memory, _Next(hidden[:, -1].clone()))

    @torch.inference_mode()
    def advance(self, state: Reading, tokens: Int32[ndarray, " rows"]) -> Reading:
        """Implement `LanguageModel.advance`; the given state stays usable."""
        check_rows(tokens, len(state))
        tokens = as_tokens(tokens)
        check_tokens(tokens, self.vocabulary_size)
        if not len(tokens):
            return state
        memory = self._own_rows(state)[0]
        starts = None
        if self.network.memory == "document" and (tokens == END).any():
            starts = self._tensor(tokens == END)[:, None]
        hidden, memory = self._read(self._tensor(tokens.astype(np.int64))[:, None], memory, starts)
        return Reading(memory, _Next(hidden[:, -1]))

    @property
    def reads_ahead(self) -> bool:
        """As `AheadReader.reads_ahead`; products of a device other than the processor have other bits for more rows."""
        encoder = self.network.encoder
        reads = isinstance(encoder, Transformer) and not encoder.is_stateful and not encoder.is_bidirectional
        return reads and self.network.device.type == "cpu"

    def room_ahead(self, state: Reading) -> int:
        """Implement `AheadReader.room_ahead`."""
        encoder = self.network.encoder
        if len(state) != 1 or not self.reads_ahead or not isinstance(encoder, Transformer):
            return 0
        memory = self._own_rows(state)[0] if state.rows is not None else state.memory
        return encoder.room_ahead(memory) if isinstance(memory, encoder_states.Cache) else 0

    @torch.inference_mode()
    def read_ahead(self, state: Reading, tokens: Tokens) -> list[Reading]:
        """Implement `AheadReader.read_ahead`."""
        encoder, memory = self.network.encoder, self._own_rows(state)[0]
        assert isinstance(encoder, Transformer)
        assert isinstance(memory, encoder_states.Cache)
        check_tokens(tokens, self.vocabulary_size)
        read = self.network.embed(self._tensor(as_tokens(tokens).astype(np.int64))[None])
        hidden, memories = encoder.read_ahead(read, memory)
        nexts = [_Next(hidden[0, i : i + 1]) for i in range(len(memories))]
        if isinstance(self.network.output, FullSoftmax):  # which reads its large matrix once for all of them
            with one_by_one():
                logits = self.network.output.logits(hidden[0])
            for i, following in enumerate(nexts):
                following.logits = logits[i : i + 1]
        return [Reading(*pair) for pair in zip(memories, nexts, strict=True)]

    def forget_ahead(self, state: Reading) -> None:
        """Implement `AheadReader.forget_ahead`."""
        if isinstance(state.memory, encoder_states.Cache):
            state.memory.give_up_rest()

    def select(self, state: Reading, rows: Int32[ndarray, " new_rows"]) -> Reading:
        """Implement `LanguageModel.select`; nothing is copied until the next step."""
        chosen = np.asarray(rows) if state.rows is None else state.rows[rows]
        if len(chosen) == len(state.next.hidden) and np.array_equal(chosen, np.arange(len(chosen))):
            return replace(state, rows=None)
        return replace(state, rows=chosen)

    @torch.inference_mode()
    def join(self, states: Sequence[Reading]) -> Reading:
        """Implement `LanguageModel.join`."""
        not_empty = [state for state in states if len(state)] or states[:1]
        memories, hidden, log_probs = zip(*map(self._own_rows, not_empty), strict=True)
        known = None if any(part is None for part in log_probs) else torch.cat(log_probs)
        return Reading(encoder_states.join(memories), _Next(torch.cat(hidden), known))

    def next_log_probs(self, state: Reading) -> Float32[ndarray, "rows vocab"]:
        """Implement `LanguageModel.next_log_probs`."""
        log_probs = self._log_probs(state).cpu().numpy()
        rows = log_probs.copy() if state.rows is None else log_probs[state.rows]
        check_log_probs(rows)
        return rows

    @torch.inference_mode()
    def log_probs_of(
        self, state: Reading, rows: Int32[ndarray, " pairs"], tokens: Int32[ndarray, " pairs"]
    ) -> Float32[ndarray, " pairs"]:
        """Implement `LanguageModel.log_probs_of`."""
        check_tokens(tokens, self.vocabulary_size)
        computed = rows if state.rows is None else state.rows[rows]
        pairs = self._tensor(computed.astype(np.int64)), self._tensor(tokens.astype(np.int64))
        return self._log_probs(state)[pairs].cpu().numpy()

    @torch.inference_mode()
    def top(self, state: Reading, k: int) -> tuple[Float32[ndarray, "rows k"], Int32[ndarray, "rows k"]]:
        """Implement `LanguageModel.top`."""
        best, ids = top_tokens(self._log_probs(state), min(k, self.vocabulary_size))
        return (best, ids) if state.rows is None else (best[state.rows], ids[state.rows])

    @torch.inference_mode()
    def draw(
        self, state: Reading, uniforms: Float64[ndarray, " rows"], banned: Sequence[int] = ()
    ) -> tuple[Float32[ndarray, " rows"], Int32[ndarray, " rows"]]:
        """Implement `LanguageModel.draw`."""
        forbidden = check_draw(len(state), uniforms, banned, self.vocabulary_size)
        log_probs = self._log_probs(state)
        rows = np.arange(len(state)) if state.rows is None else state.rows.astype(np.int64)
        known = state.next.sums
        if known is not None and known[0] == forbidden.tobytes():
            sums = known[1]
        elif len(rows) < len(log_probs):  # some rows of a batch, whose settings differ from the others'
            log_probs, rows = log_probs[self._tensor(rows)], np.arange(len(rows))
            sums = _sums(log_probs, self._tensor(forbidden.astype(np.int64)))
        else:
            sums = _sums(log_probs, self._tensor(forbidden.astype(np.int64)))
            state.next.sums = forbidden.tobytes(), sums  # drawing by rejection asks again
        slots = np.arange(len(rows)) if len(log_probs) == 1 else _slots(rows)
        wanted = np.zeros((len(log_probs), slots.max(initial=0) + 1))
        wanted[rows, slots] = uniforms
        found = torch.searchsorted(sums, self._tensor(wanted) * sums[:, -1:], right=True)
        chosen = self._tensor(rows), found[self._tensor(rows), self._tensor(slots)].clamp(max=self.vocabulary_size - 1)
        drawn = log_probs[chosen].cpu().numpy()
        check_log_probs(drawn)
        return drawn, chosen[1].to(torch.int32).cpu().numpy()

    def position_tops(
        self, sequences: Sequence[Tokens], k: int
    ) -> list[tuple[Float32[ndarray, "tokens k"], Int32[ndarray, "tokens k"]]]:
        """Implement `PromptReader.position_tops`."""
        return position_tops(self.network, sequences, k)

    def layer_log_probs(self, prefix: Tokens) -> dict[int, Float32[ndarray, " vocab"]]:
        """Return the distributions that each layer would predict after a prefix, in nats, by its number; see
        `layer_log_probs` above.
        """
        return layer_log_probs(self.network, self.last_window(as_tokens(prefix)))

    def _score(
        self, sequences: Sequence[Tokens], prefixes: Sequence[Tokens] | None, *, end: bool, unknown: bool
    ) -> tuple[list[Float32[ndarray, " tokens"]], list[Float32[ndarray, " tokens"]]]:
        """Return the log-probabilities of each sequence's tokens, and of <unk> at their positions."""
        rows: list[Tokens] = []
        spans: list[slice] = []
        total = 0
        for text, own in after_prefixes(sequences, prefixes, self.vocabulary_size, end=end):
            rows += [text] if self.network.memory == "stream" else documents_of(text)
            spans.append(slice(total + own.start, total + len(text)))
            total += len(text)
        scores, others = (
            np.concatenate([np.empty(0, np.float32), *parts])
            for parts in score_rows(self.network, rows, unknown=unknown)
        )
        return [scores[span] for span in spans], [others[span] for span in spans]

    def _read(
        self, tokens: Int64[Tensor, "B T"], state: encoder_states.State, starts: Bool[Tensor, "B T"] | None
    ) -> tuple[Float[Tensor, "B T D"], encoder_states.State]:
        """Read tokens as `Network.forward` does, but begin a row anew only at `starts`, not at every </s>."""
        follow_load()
        return self.network.read(self.network.as_read(tokens), state, starts)

    def _own_rows(
        self, state: Reading
    ) -> tuple[encoder_states.State, Float[Tensor, "rows D"], Float32[Tensor, "rows V"] | None]:
        """Return the memory, the hidden states and, once computed, the distributions of a state's rows."""
        memory, hidden, log_probs = state.memory, state.next.hidden, state.next.log_probs
        if state.rows is None:
            return memory, hidden, log_probs
        rows = self._tensor(state.rows.astype(np.int64))
        return encoder_states.select(memory, rows), hidden[rows], None if log_probs is None else log_probs[rows]

    @torch.inference_mode()
    def _log_probs(self, state: Reading) -> Float32[Tensor, "rows V"]:
        """Return the distributions of the rows of `state.next`."""
        if state.next.log_probs is None and state.next.logits is not None:
            state.next.log_probs, state.next.logits = log_softmax(state.next.logits), None
        if state.next.log_probs is None:
            hidden, output = state.next.hidden, self.network.output
            is_small = hidden.device.type == "cpu" and hidden.numel() * self.vocabulary_size < _SMALL
            shares = in_shares(lambda rows: output.log_probs(hidden[rows]), len(hidden), SHARE) if is_small else []
            state.next.log_probs = torch.cat(shares) if shares else output.log_probs(hidden)
        return state.next.log_probs

    def last_window(self, prefix: Tokens) -> Tokens:
        """Implement `PromptReader.last_window`."""
        check_tokens(prefix, self.vocabulary_size)
        inputs = np.concatenate([[END], prefix])
        encoder = self.network.encoder
        if self.network.memory == "document":
            inputs = inputs[np.flatnonzero(inputs == END)[-1] :]
        inputs = np.where(inputs == END, self.network.first_token, inputs)
        if encoder.context is not None:
            return inputs[window_start(len(inputs), encoder.context) :]
        reach = self.network.reach
        return inputs if reach is None else inputs[-reach:]

    def _tensor(self, array: ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.network.device)


def _sums(log_probs: Float32[Tensor, "rows V"], banned: Int64[Tensor, " banned"]) -> Float64[Tensor, "rows V"]:
    """Return the probabilities of tokens that are not banned, summed up. Raises ModelFormatError, SettingError."""
    sums = log_probs.double().exp_()
    sums[:, banned] = 0
    sums.cumsum_(1)
    if bool(sums[:, -1].isnan().any()):
        raise ModelFormatError(NAN_MESSAGE)
    if not bool((sums[:, -1] > 0).all()):
        raise SettingError(NOTHING_TO_DRAW_MESSAGE)
    return sums


def _slots(rows: Int64[ndarray, " draws"]) -> Int64[ndarray, " draws"]:
    """Return, for each draw, how many of the draws before it are from the same row."""
    order = np.argsort(rows, kind="stable")
    counts = np.bincount(rows)
    slots = np.empty_like(order)
    slots[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return slots
