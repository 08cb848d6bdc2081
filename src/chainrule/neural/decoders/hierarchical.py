"""A decoder of paragraphs: a sentence network gives each sentence a topic, from which a word network writes it.

Krause et al. 2017, A Hierarchical Approach for Generating Descriptive Image Paragraphs, section 4.3. After a sentence,
the word network writes the end or the next sentence, so that there is no stop probability apart from that of </s>.
Legend: B rows, T time, D width, C choices of hard attention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from chainrule.neural.config.recurrent import RecurrentConfig
from chainrule.neural.decoders.recurrent import RecurrentDecoder
from chainrule.neural.dropout import dropped
from chainrule.neural.encoders.recurrent import Recurrent

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from chainrule.neural.config.conditional import ConditionalConfig
    from chainrule.neural.encoded_source import KeysAndValues, Source
    from chainrule.neural.encoder_states import State
    from chainrule.neural.encoders.recurrent import LayerState


class _ParagraphState(NamedTuple):
    """sentences: of the sentence network. topic: of the current sentence, (B, D). words: of the word network."""

    sentences: tuple[LayerState, ...]
    topic: Tensor
    words: State


class HierarchicalDecoder(nn.Module):
    """A Decoder whose inputs end with a number that says whether a sentence begins: (B, T, D + 1).

    Between two sentences, the sentence network reads the summary of the source and the last state of the word network;
    the word network begins again from the topic, which is also added to each of its inputs.
    """

    def __init__(self, config: ConditionalConfig) -> None:
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
        """As `Decoder.keys_and_values`."""
        return self.words.keys_and_values(memory)

    def start(self, source: Source) -> _ParagraphState:
        """As `Decoder.start`."""
        words = self.words.start(source)
        topic = source.memory.new_zeros(len(source.rows), self.width)
        return _ParagraphState(self.sentences.start(len(source.rows)), topic, tuple(words))

    def forward(
        self, x: Float[Tensor, "B T D+1"], state: State, starts: Bool[Tensor, "B T"] | None, source: Source
    ) -> tuple[Float[Tensor, "B T *C D"], State]:
        """As `Decoder`; from the start, without a state, there is none afterwards."""
        if state is None and starts is None and not self.words.feeds and source.weights_out is None:
            return self._read_by_sentence(x, source), None
        current = self.start(source) if state is None else _ParagraphState(*cast("tuple", state))  # type: ignore[type-arg]
        steps = []
        for time in range(x.shape[1]):
            if starts is not None:
                current = _chosen(starts[:, time], self.start(source), current)
            begins = x[:, time, -1] > 0
            if bool(begins.any()):
                current = _chosen(begins, self._next_sentence(current, source), current)
            inputs = x[:, time : time + 1, :-1] + current.topic[:, None]
            hidden, words = self.words(inputs, current.words, None, source)
            current = current._replace(words=words)
            steps.append(hidden)
        return torch.cat(steps, 1), tuple(current)

    def _read_by_sentence(self, x: Float[Tensor, "B T D+1"], source: Source) -> Float[Tensor, "B T *C D"]:
        """As `forward` from the start, the first sentences of all rows at once, then the second ones, and so on."""
        state, inputs = self.start(source), x[..., :-1]
        sentence = (x[..., -1] > 0).cumsum(1)  # 0: before the first one begins
        hidden: Tensor | None = None
        for number in range(int(sentence.min()), int(sentence.max()) + 1):
            own = sentence == number  # (B, T)
            lengths, first = own.sum(1), own.int().argmax(1)
            steps = torch.arange(int(lengths.max()), device=x.device)
            if number:
                state = _chosen(lengths > 0, self._next_sentence(state, source), state)
            at = (first[:, None] + steps).clamp(max=x.shape[1] - 1)
            read = inputs.gather(1, at[..., None].expand(-1, -1, inputs.shape[2])) + state.topic[:, None]
            read = dropped(read, self.words.dropout, self.training)
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
        """The state of all rows, if each began a sentence now."""
        layers, *others = cast("tuple[tuple[LayerState, ...], Tensor, Tensor]", state.words)
        read = torch.cat((source.summary[source.rows], layers[-1][0]), 1)
        hidden, sentences = self.sentences(read[:, None], state.sentences)
        topic = torch.tanh(self.topic(hidden[:, 0]))
        vectors = iter(torch.tanh(self.first(topic)).chunk(self.first.out_features // self.width, 1))
        first = tuple(tuple(next(vectors) for _ in layer) for layer in layers)
        return _ParagraphState(sentences, topic, (first, *others))


def _chosen(rows: Bool[Tensor, " B"], new: _ParagraphState, old: _ParagraphState) -> _ParagraphState:
    """The old state with some rows of the new one."""

    def chosen(one: State, other: State) -> State:
        if isinstance(one, Tensor):
            assert isinstance(other, Tensor)
            return torch.where(rows.view(-1, *[1] * (one.ndim - 1)), one, other)
        pairs = zip(cast("tuple[State, ...]", one), cast("tuple[State, ...]", other), strict=True)
        return tuple(chosen(*pair) for pair in pairs)

    return _ParagraphState(*cast("tuple", chosen(tuple(new), tuple(old))))  # type: ignore[type-arg]
