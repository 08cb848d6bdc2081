"""A network that learns from what it has read: dynamic evaluation.

Krause, Kahembwe, Murray and Renals, Dynamic evaluation of neural sequence models (2018). A text is read in segments.
Each token is scored with the weights that all earlier segments gave; once a segment is over, its mean loss L gives

    w = w - rate n / (n + 100) dL/dw / (s + 3 mean of s) + decay (w_0 - w)
    s = sqrt(mean of the squares of dL/dw in the n steps so far)

with the trained weights w_0. Their s is that of the training text; ours needs no text but the one that is read. The
mean of s over a matrix keeps steps small of which little is known. So every probability depends on earlier tokens
alone, and each distribution sums to one. In place of large or quantised weights, low-rank adapters take the steps.

All of it runs on one thread of torch, so that figures do not depend on how many there are.
Legend: B rows, T tokens of a segment, D width, V vocabulary.
"""

from __future__ import annotations

import copy
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.base.arguments import as_tokens, check_rows, check_tokens
from chainrule.base.distributions import check_log_probs
from chainrule.base.threads import pause
from chainrule.errors import EstimationError, SettingError
from chainrule.features.context.around import AroundNetwork
from chainrule.neural.adapters import adapter_matrices, add_adapters
from chainrule.neural.device import on_one_thread
from chainrule.neural.layers import state as encoder_states
from chainrule.neural.quantization import is_quantised, parameters_of
from chainrule.protocol import END, UNKNOWN
from chainrule.training.device import keep_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float, Float32, Int32
    from numpy import ndarray

    from chainrule.models.config import DynamicOptions
    from chainrule.neural.language_model import NeuralModel
    from chainrule.neural.network import Network

    Tokens = Int32[ndarray, " T"]

_LARGE, _RANK = 50_000_000, 8  # weights, above which adapters of this rank learn in their place
_RATE, _LOW_RATE = 6e-3, 2e-3  # by default; 0.006 harms Transformers and wide networks on lines in no order
_WIDE = 256  # units; wider networks have the low rate
_WARM_UP = 100  # steps after which the rate is half of the one that is set: s of few segments says little
_MEANS, _LEAST = 3.0, 1e-12  # how often the mean of s counts in what a step is divided by, and its least


@dataclass
class Learned:
    """The weights after some segments, and the means of their squared gradients. steps: how many there were."""

    weights: list[Tensor]
    squares: list[Tensor]
    steps: int = 0

    def copy(self) -> Learned:
        """Return the same in other tensors."""
        return Learned([own.clone() for own in self.weights], [own.clone() for own in self.squares], self.steps)


@dataclass(frozen=True)
class Row:
    """What was read of one text.

    before: the network's state at the beginning of the segment, which has room for all of it. window: the inputs that
    it holds, where the network's context is limited. inputs: of the segment, read so far. state, hidden: after these.
    """

    learned: Learned
    before: encoder_states.State
    window: tuple[int, ...]
    inputs: tuple[int, ...]
    state: encoder_states.State
    hidden: Float[Tensor, "1 D"]


class DynamicModel(AroundNetwork[tuple[Row, ...]]):
    """P(w | the tokens before it), by a network that has learned from them. A state is a `Row` for each text."""

    def __init__(self, family: str, model: NeuralModel, options: DynamicOptions, counts_unknown: bool = True) -> None:
        """Take a network of a family, which does not change.

        counts_unknown: whether it learns from <unk>, too. Raises SettingError if it has no linear layers for adapters.
        """
        super().__init__(family, model, counts_unknown=counts_unknown)
        config = model.network.config
        usual = _LOW_RATE if config.blocks or config.width > _WIDE else _RATE
        self.learning_rate = usual if options.rate is None else options.rate
        self.options = replace(options, rate=self.learning_rate)
        shared = {id(tensor): tensor for tensor in (*model.network.parameters(), *model.network.buffers())}
        network = copy.deepcopy(model.network, shared)  # modules alone
        rank = options.rank
        if rank is None and (is_quantised(network) or parameters_of(network) > _LARGE):
            rank = _RANK
        if rank is not None and not network.config.blocks:
            raise SettingError("rank is for the adapters of Transformers, and this network is none; leave it out")
        if rank is not None:
            with torch.random.fork_rng([]):
                torch.manual_seed(0)
                add_adapters(network, rank, 1.0)
            self._learning = adapter_matrices(network)
        else:
            self._learning = _own_parameters(network)
        self.rank, self.network = rank, network.eval()
        weights = [weight.detach() for weight in self._learning]
        self._trained = Learned(weights, [torch.zeros_like(weight) for weight in weights])
        context = network.encoder.context
        self._segment = options.segment if context is None else min(options.segment, max(1, context - context // 2))
        self._lock = RLock()
        if network.device.type == "cpu":
            keep_memory()

    @property
    def stream_signature(self) -> str:
        """How much context a token has in `score_stream`, and how the network learns, as a short text for records."""
        own = self.options
        parts = [
            self.model.stream_signature,
            f"learns:segment={self._segment},rate={self.learning_rate:g},decay={own.decay:g}",
        ]
        parts += [f"rank={self.rank}"] * (self.rank is not None) + ["forgets"] * own.forgets
        return ",".join(parts)

    def rows_along(self, stream: Tokens) -> Iterator[Float32[ndarray, "part V"]]:
        """Implement `AroundNetwork.rows_along`."""
        for _, hidden, learned in self._segments(stream):
            yield self._distributions(learned, hidden)

    def start(self, prefixes: Sequence[Tokens]) -> tuple[Row, ...]:
        """Implement `LanguageModel.start`; prefixes are read, and learned from."""
        rows = []
        for prefix in prefixes:
            check_tokens(as_tokens(prefix), self.vocabulary_size)
            rows.append(self._after(self._at_start(), as_tokens(prefix).tolist()))
        return tuple(rows)

    def next_log_probs(self, state: tuple[Row, ...]) -> Float32[ndarray, "B V"]:
        """Implement `LanguageModel.next_log_probs`."""
        rows = [self._distributions(row.learned, row.hidden) for row in state]
        return np.concatenate([np.empty((0, self.vocabulary_size), np.float32), *rows])

    def advance(self, state: tuple[Row, ...], tokens: Int32[ndarray, " B"]) -> tuple[Row, ...]:
        """Implement `LanguageModel.advance`; the given state stays usable."""
        check_rows(tokens, len(state))
        tokens = as_tokens(tokens)
        check_tokens(tokens, self.vocabulary_size)
        return tuple(self._after(row, [token]) for row, token in zip(state, tokens.tolist(), strict=True))

    def select(self, state: tuple[Row, ...], rows: Int32[ndarray, " new_B"]) -> tuple[Row, ...]:
        """Implement `LanguageModel.select`."""
        return tuple(state[row] for row in rows)

    def join(self, states: Sequence[tuple[Row, ...]]) -> tuple[Row, ...]:
        """Implement `LanguageModel.join`."""
        return tuple(row for state in states for row in state)

    def read_texts(
        self, texts: Sequence[Tokens], on_share: Callable[[float], None] | None = None
    ) -> list[Float32[ndarray, "T 2"]]:
        """Implement `AroundNetwork.read_texts`."""
        return [self._read(text, on_share) for text in texts]

    def _read(self, stream: Tokens, on_share: Callable[[float], None] | None = None) -> Float32[ndarray, "T 2"]:
        """Return the log-probabilities of a stream's tokens, and of <unk> in their places."""
        scores = np.zeros((len(stream), 2), np.float32)
        asked = np.stack([stream, np.full(len(stream), UNKNOWN)], -1).astype(np.int64)
        for span, hidden, learned in self._segments(stream):
            with self._having(learned), torch.no_grad():
                scores[span] = self.network.output.log_probs_of(hidden, self._tensor(asked[span])).cpu().numpy()
            if on_share is not None:
                on_share(span.stop / len(stream))
            pause()
        check_log_probs(scores)
        return scores

    def _distributions(self, learned: Learned, hidden: Float[Tensor, "T D"]) -> Float32[ndarray, "T V"]:
        with self._having(learned), torch.no_grad():
            rows: ndarray = self.network.output.log_probs(hidden).cpu().numpy()
        check_log_probs(rows)
        return rows

    def _segments(self, stream: Tokens) -> Iterator[tuple[slice, Float[Tensor, "T D"], Learned]]:
        """Yield the positions of each segment, its hidden states, and the weights with which it is read."""
        stream = stream.astype(np.int64)
        inputs = np.append(END, stream)[: len(stream)]
        learned, state, begin = self._trained.copy(), self.network.start(1), 0
        window: tuple[int, ...] = ()
        while begin < len(stream):
            stop = begin + self._room(inputs[begin : begin + self._segment])
            if self.options.forgets and begin and inputs[begin] == END:
                learned = self._trained.copy()
            state, window = self._with_room(learned, state, window)
            given, targets = inputs[begin:stop].tolist(), stream[begin:stop].tolist()
            if stop - begin == self._segment and stop < len(stream):
                hidden, state, gradients = self._gradients(learned, state, given, targets)
                yield slice(begin, stop), hidden, learned
                self._step(learned, gradients)
            else:
                hidden, state = self._hidden(learned, state, given)
                yield slice(begin, stop), hidden, learned
            window, begin = (*window, *given), stop

    def _room(self, inputs: Tokens) -> int:
        """Return how many of these inputs a segment has: up to the next document, if it forgets."""
        ends = np.flatnonzero(inputs[1:] == END)
        return int(ends[0]) + 1 if self.options.forgets and ends.size else len(inputs)

    def _at_start(self) -> Row:
        """Return what is known before a text, after </s>."""
        state = self.network.start(1)
        hidden, after = self._hidden(self._trained, self._copy(state), [END])
        return Row(self._trained, state, (), (END,), after, hidden)

    def _after(self, row: Row, tokens: list[int]) -> Row:
        """Return what is known after more tokens, and learned from them."""
        while tokens:
            is_full, anew = len(row.inputs) == self._segment, self.options.forgets and tokens[0] == END
            if is_full or anew:
                learned = row.learned
                if anew:
                    learned = self._trained
                elif is_full:
                    targets = [*row.inputs[1:], tokens[0]]
                    _, _, gradients = self._gradients(learned, self._copy(row.before), [*row.inputs], targets)
                    learned = learned.copy()
                    self._step(learned, gradients)
                state, window = self._with_room(learned, row.state, (*row.window, *row.inputs))
                row = Row(learned, self._copy(state), window, (), state, row.hidden)
            count = self._room(np.array(tokens[: self._segment - len(row.inputs)]))
            hidden, state = self._hidden(row.learned, row.state, tokens[:count])
            row = replace(row, inputs=(*row.inputs, *tokens[:count]), state=state, hidden=hidden[-1:])
            tokens = tokens[count:]
        return row

    def _with_room(
        self, learned: Learned, state: encoder_states.State, window: tuple[int, ...]
    ) -> tuple[encoder_states.State, tuple[int, ...]]:
        """Return a state with room for a segment, and the inputs that it holds: a full one keeps the newer half of the
        context, read again.
        """
        context = self.network.encoder.context
        if context is None:
            return state, ()
        if len(window) + self._segment <= context:
            return state, window
        kept = window[max(0, len(window) - context // 2) :]
        _, state = self._hidden(learned, self.network.start(1), [*kept]) if kept else (None, self.network.start(1))
        return state, kept

    def _hidden(
        self, learned: Learned, state: encoder_states.State, inputs: list[int]
    ) -> tuple[Float[Tensor, "T D"], encoder_states.State]:
        """Return the hidden states after inputs, and the state to continue from."""
        with self._having(learned), torch.no_grad():
            hidden, state = self.network(self._tensor(np.array([inputs])), state)
        return hidden[0], state

    def _gradients(
        self, learned: Learned, state: encoder_states.State, inputs: list[int], targets: list[int]
    ) -> tuple[Float[Tensor, "T D"], encoder_states.State, list[Tensor | None]]:
        """Return what `_hidden` does, and the gradients of the mean loss of these inputs' targets.

        Raises EstimationError if the loss is no number.
        """
        counted = [i for i, target in enumerate(targets) if self.counts_unknown or target != UNKNOWN]
        gradients: Sequence[Tensor | None] = [None] * len(self._learning)
        with self._having(learned), torch.enable_grad():
            hidden, state = self.network(self._tensor(np.array([inputs])), state)
            if counted:
                known = self._tensor(np.array(targets)[counted])
                loss = self.network.output.loss(hidden[0, counted], known) / len(counted)
                gradients = torch.autograd.grad(loss, self._learning, allow_unused=True)
                self._check(learned, loss)
        return hidden[0].detach(), encoder_states.detach(state), [*gradients]

    @torch.no_grad()
    def _step(self, learned: Learned, gradients: Sequence[Tensor | None]) -> None:
        """Take a step, in place; none without gradients. Raises EstimationError if a weight is no number after it."""
        chosen = [i for i, own in enumerate(gradients) if own is not None]
        if not chosen:
            return
        learned.steps += 1
        own = [gradient for gradient in gradients if gradient is not None]
        weights, squares, trained = (
            [tensors[i] for i in chosen] for tensors in (learned.weights, learned.squares, self._trained.weights)
        )
        torch._foreach_mul_(squares, 1 - 1 / learned.steps)
        torch._foreach_addcmul_(squares, own, own, value=1 / learned.steps)
        scales = torch._foreach_sqrt(squares)
        for scale in scales:
            scale.add_(_MEANS * scale.mean() + _LEAST)
        rate = self.learning_rate * learned.steps / (learned.steps + _WARM_UP)
        torch._foreach_addcdiv_(weights, own, scales, value=-rate)
        if self.options.decay:
            torch._foreach_lerp_(weights, trained, self.options.decay)
        self._check(learned, sum(torch._foreach_norm(weights), start=torch.zeros(())))

    def _check(self, learned: Learned, number: Tensor) -> None:
        """Raise EstimationError if a loss or a norm is no number."""
        if not bool(number.isfinite()):
            raise EstimationError(
                f"learning from the text gave weights that are no numbers, at step {learned.steps:,}, with a rate of "
                f"{self.learning_rate:g}; set a lower one. The trained network did not change"
            )

    @contextmanager
    def _having(self, learned: Learned) -> Iterator[None]:
        """Let the network have these weights, and torch one thread."""
        with self._lock, on_one_thread():
            for parameter, weight in zip(self._learning, learned.weights, strict=True):
                parameter.data = weight
            yield

    def _copy(self, state: encoder_states.State) -> encoder_states.State:
        return encoder_states.select(state, self._tensor(np.zeros(1, np.int64)))

    def _tensor(self, array: ndarray) -> Tensor:
        return torch.from_numpy(np.asarray(array, np.int64)).to(self.network.device)


def _own_parameters(network: Network) -> list[nn.Parameter]:
    """Give a network its own parameters in place of those that it shares, each once; return them."""
    own = {id(weight): nn.Parameter(weight.detach()) for weight in network.parameters()}
    for module in network.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                module._parameters[name] = own[id(weight)]
    return [*own.values()]
