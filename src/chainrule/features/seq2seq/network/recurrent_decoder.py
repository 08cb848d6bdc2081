"""Recurrent decoders of texts and of paragraphs, which attend to a source.

A RecurrentDecoder attends after each step (Luong 2015), before it (Bahdanau 2015), or never. In a HierarchicalDecoder,
a sentence network gives each sentence of a paragraph a topic, from which a word network writes it: Krause et al. 2017,
A Hierarchical Approach for Generating Descriptive Image Paragraphs, section 4.3. Unlike there, no stop probability is
apart from that of </s>: after a sentence, the word network writes the end or the next sentence.
Legend: B rows, T time, D width, C choices of hard attention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from chainrule.features.seq2seq.network.cross_attention import ContextVectors, SingleHeadAttention
from chainrule.neural.config.language_models import RecurrentConfig
from chainrule.neural.encoders.recurrent import Recurrent
from chainrule.neural.layers.basic import drop

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.features.seq2seq.network.cross_attention import KeysAndValues, Source
    from chainrule.neural.encoders.recurrent import LayerState
    from chainrule.neural.layers.state import State


class _State(NamedTuple):
    """The state of a recurrent decoder.

    layers: the states of the cells. fed: the last step's output, (B, D), or nothing, (B, 0). positions: of the next
    tokens, (B,).
    """

    layers: tuple[LayerState, ...]
    fed: Tensor
    positions: Tensor


class RecurrentDecoder(nn.Module):
    """A Decoder whose first state is computed from the encoder's summary.

    Where hard attention chooses among C positions, there is a hidden state for each choice, with the log-probability of
    the choice as its last element: (B, T, C, D + 1).
    """

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.width, self.dropout = config.width, config.dropout
        self.glance = None if config.attention == "none" else SingleHeadAttention(config)
        self.attends_before, self.feeds = config.attends == "before", config.feeds
        self.hard = config.attention == "hard"
        fed = config.width if self.feeds else 0
        self.cells = Recurrent(
            RecurrentConfig(
                cell="gru" if config.decoder == "gru" else "lstm",
                layers=config.decoder_layers,
                width=config.width,
                embedding_width=config.width + fed,
                dropout=config.dropout,
                variational=False,
            )
        )
        self.fed_width = fed if not self.attends_before else 0
        vectors = sum(len(layer) for layer in self.cells.start(0))
        self.begin = nn.Linear(config.width, vectors * config.width)
        self.reads_word = config.deep_output
        parts = 1 + (self.glance is not None) + self.reads_word
        self.out = nn.Linear(parts * config.width, config.width)

    def keys_and_values(self, memory: Float[Tensor, "M S D"]) -> tuple[KeysAndValues, ...]:
        """Implement `Decoder.keys_and_values`."""
        return () if self.glance is None else (self.glance.keys_and_values(memory),)

    def start(self, source: Source) -> _State:
        """Implement `Decoder.start`."""
        vectors = iter(
            torch.tanh(self.begin(source.summary))[source.rows].chunk(self.begin.out_features // self.width, 1)
        )
        layers = tuple(tuple(next(vectors) for _ in layer) for layer in self.cells.start(0))
        rows = source.rows
        return _State(layers, source.memory.new_zeros(len(rows), self.fed_width), torch.zeros_like(rows))

    def forward(
        self, x: Float[Tensor, "B T D"], state: State, starts: Bool[Tensor, "B T"] | None, source: Source
    ) -> tuple[Float[Tensor, "B T *C D"], State]:
        """Return the hidden states and the new state, as `Decoder` does."""
        current = self.start(source) if state is None else _State(*cast("tuple", state))  # type: ignore[type-arg]
        x = drop(x, self.dropout, self.training)
        if starts is None and not self.feeds:
            return self._read_at_once(x, current, source)
        steps = []
        for time in range(x.shape[1]):
            if starts is not None:
                current = _State(*_chosen(starts[:, time], self.start(source), current))
            hidden, current = self._step(x[:, time : time + 1], current, source)
            steps.append(hidden)
        return torch.cat(steps, 1), tuple(current)

    def _read_at_once(self, x: Float[Tensor, "B T D"], state: _State, source: Source) -> tuple[Tensor, State]:
        """Return all steps in one call, if none of them depends on the context vectors of the step before."""
        hidden, _, layers = self.read_steps(x, state.layers, state.positions, source)
        return hidden, (layers, state.fed, state.positions + x.shape[1])

    def read_steps(
        self, x: Float[Tensor, "B T D"], layers: State, first: Int64[Tensor, " B"], source: Source
    ) -> tuple[Float[Tensor, "B T *C D"], Float[Tensor, "B T D"], State]:
        """Return the hidden states to predict from, the states of the last cells, and those of all layers after the
        last step.

        Only for decoders whose steps do not depend on the context vectors of the step before. first: the position of
        each row's first step.
        """
        cells, after = self.cells(x, layers)
        positions = first[:, None] + torch.arange(x.shape[1], device=x.device)
        contexts = None if self.glance is None else self.glance(cells, positions, source)
        return self._hidden(x, cells, contexts), cells, after

    def _step(self, x: Float[Tensor, "B 1 D"], state: _State, source: Source) -> tuple[Tensor, _State]:
        positions = state.positions[:, None]
        if self.glance is None or not self.feeds:
            hidden, after = self._read_at_once(x, state, source)
            return hidden, _State(*cast("tuple", after))  # type: ignore[type-arg]
        if self.attends_before:
            contexts = self.glance(state.layers[-1][0][:, None], positions, source)
            cells, layers = self.cells(torch.cat((x, contexts.values[:, :, 0]), 2), state.layers)
            hidden, fed = self._hidden(x, cells, contexts), state.fed
        else:
            cells, layers = self.cells(torch.cat((x, state.fed[:, None]), 2), state.layers)
            contexts = self.glance(cells, positions, source)
            hidden = self._hidden(x, cells, contexts)
            fed = hidden[:, 0, 0, :-1] if self.hard else hidden[:, 0]
        return hidden, _State(cast("tuple[LayerState, ...]", layers), fed, state.positions + 1)

    def _hidden(
        self, words: Float[Tensor, "B T D"], cells: Float[Tensor, "B T D"], contexts: ContextVectors | None
    ) -> Float[Tensor, "B T *C D"]:
        """Return tanh(W [state; context vector]) (Luong 2015, equation 5); hard attention: (B, T, C, D + 1).

        A deep output also reads the last token: tanh(W [token; state; context vector]) (Xu et al. 2015, equation 7).
        """
        if self.reads_word:
            cells = torch.cat((words, cells), 2)
        if contexts is None:
            return drop(torch.tanh(self.out(cells)), self.dropout, self.training)
        both = torch.cat((cells.unsqueeze(2).expand(-1, -1, contexts.values.shape[2], -1), contexts.values), 3)
        hidden = drop(torch.tanh(self.out(both)), self.dropout, self.training)
        return torch.cat((hidden, contexts.log_probs.unsqueeze(3)), 3) if self.hard else hidden[:, :, 0]


def _chosen(rows: Bool[Tensor, " B"], new: tuple[State, ...], old: tuple[State, ...]) -> tuple[Any, ...]:
    """Return the old state with some rows of the new one."""

    def chosen(one: State, other: State) -> State:
        if isinstance(one, Tensor):
            assert isinstance(other, Tensor)
            return torch.where(rows.view(-1, *[1] * (one.ndim - 1)), one, other)
        return _chosen(rows, cast("tuple[State, ...]", one), cast("tuple[State, ...]", other))

    return tuple(chosen(*pair) for pair in zip(new, old, strict=True))


class _ParagraphState(NamedTuple):
    """The state of a hierarchical decoder.

    sentences: the state of the sentence network. topic: that of the current sentence, (B, D). words: the state of the
    word network.
    """

    sentences: tuple[LayerState, ...]
    topic: Tensor
    words: State


class HierarchicalDecoder(nn.Module):
    """A Decoder whose inputs end with a number that says whether a sentence begins: (B, T, D + 1).

    Between two sentences, the sentence network reads the summary of the source and the last state of the word network;
    the word network begins again from the topic, which is also added to each of its inputs.
    """

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.width = config.width
        self.words = RecurrentDecoder(config)
        self.sentences = Recurrent(
            RecurrentConfig(
                cell="lstm",
                layers=1,
                width=config.width,
                embedding_width=2 * config.width,
                dropout=config.dropout,
                variational=False,
            )
        )
        self.topic = nn.Linear(config.width, config.width)
        self.first = nn.Linear(config.width, self.words.begin.out_features)

    def keys_and_values(self, memory: Float[Tensor, "M S D"]) -> tuple[KeysAndValues, ...]:
        """Implement `Decoder.keys_and_values`."""
        return self.words.keys_and_values(memory)

    def start(self, source: Source) -> _ParagraphState:
        """Implement `Decoder.start`."""
        words = self.words.start(source)
        topic = source.memory.new_zeros(len(source.rows), self.width)
        return _ParagraphState(self.sentences.start(len(source.rows)), topic, tuple(words))

    def forward(
        self, x: Float[Tensor, "B T D+1"], state: State, starts: Bool[Tensor, "B T"] | None, source: Source
    ) -> tuple[Float[Tensor, "B T *C D"], State]:
        """Return the hidden states and the new state, as `Decoder` does; from the start, without a state, there is none
        afterwards.
        """
        if state is None and starts is None and not self.words.feeds and source.weights_out is None:
            return self._read_by_sentence(x, source), None
        current = self.start(source) if state is None else _ParagraphState(*cast("tuple", state))  # type: ignore[type-arg]
        steps = []
        for time in range(x.shape[1]):
            if starts is not None:
                current = _ParagraphState(*_chosen(starts[:, time], self.start(source), current))
            begins = x[:, time, -1] > 0
            if bool(begins.any()):
                current = _ParagraphState(*_chosen(begins, self._next_sentence(current, source), current))
            inputs = x[:, time : time + 1, :-1] + current.topic[:, None]
            hidden, words = self.words(inputs, current.words, None, source)
            current = current._replace(words=words)
            steps.append(hidden)
        return torch.cat(steps, 1), tuple(current)

    def _read_by_sentence(self, x: Float[Tensor, "B T D+1"], source: Source) -> Float[Tensor, "B T *C D"]:
        """Return the hidden states of `forward` from the start: the first sentences of all rows at once, then the
        second ones, and so on.
        """
        state, inputs = self.start(source), x[..., :-1]
        sentence = (x[..., -1] > 0).cumsum(1)  # 0: before the first one begins
        hidden: Tensor | None = None
        for number in range(int(sentence.min()), int(sentence.max()) + 1):
            own = sentence == number  # (B, T)
            lengths, first = own.sum(1), own.int().argmax(1)
            steps = torch.arange(int(lengths.max()), device=x.device)
            if number:
                state = _ParagraphState(*_chosen(lengths > 0, self._next_sentence(state, source), state))
            at = (first[:, None] + steps).clamp(max=x.shape[1] - 1)
            read = inputs.gather(1, at[..., None].expand(-1, -1, inputs.shape[2])) + state.topic[:, None]
            read = drop(read, self.words.dropout, self.training)
            layers, fed, _ = cast("tuple[tuple[LayerState, ...], Tensor, Tensor]", state.words)
            written, cells, _ = self.words.read_steps(read, layers, first, source)
            if hidden is None:
                hidden = written.new_zeros(*x.shape[:2], *written.shape[2:])
            hidden[own] = written[steps < lengths[:, None]]
            last = cells[torch.arange(len(x), device=x.device), (lengths - 1).clamp(min=0)]
            tops = (torch.where(lengths[:, None] > 0, last, layers[-1][0]), *layers[-1][1:])
            state = state._replace(words=((*layers[:-1], tops), fed, first + lengths))
        assert hidden is not None
        return hidden

    def _next_sentence(self, state: _ParagraphState, source: Source) -> _ParagraphState:
        """Return the state of all rows, if each began a sentence now."""
        layers, *others = cast("tuple[tuple[LayerState, ...], Tensor, Tensor]", state.words)
        read = torch.cat((source.summary[source.rows], layers[-1][0]), 1)
        hidden, sentences = self.sentences(read[:, None], state.sentences)
        topic = torch.tanh(self.topic(hidden[:, 0]))
        vectors = iter(torch.tanh(self.first(topic)).chunk(self.first.out_features // self.width, 1))
        first = tuple(tuple(next(vectors) for _ in layer) for layer in layers)
        return _ParagraphState(sentences, topic, (first, *others))
