"""A network that also predicts what came after similar states: of the text that it reads, or of another text.

    P = (1 - c - d) P_network + c P_cache + d P_datastore

with the weights c and d, and the distributions of `states.py`; where the cache is empty, the network has its weight.
The cache holds the state before each of the last tokens that were read, and nothing of what comes, so that every
probability depends on earlier tokens alone. A stream's cache goes on over the ends of documents, unless it forgets.
Legend: B rows, T tokens, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chainrule.base.arguments import as_tokens, check_tokens
from chainrule.base.distributions import check_log_probs
from chainrule.base.threads import pause
from chainrule.errors import ModelFormatError
from chainrule.features.context.around import AroundNetwork
from chainrule.features.neighbours.states import Recent, Similar
from chainrule.neural.scoring import documents_of, hidden_in_order, pieces_of
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Float, Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.features.neighbours.options import NeighbourSettings
    from chainrule.features.neighbours.states import Datastore
    from chainrule.neural.language_model import NeuralModel, Reading

    Tokens = Int32[ndarray, " T"]

_TOGETHER = 128  # positions whose states are compared at once


@dataclass
class NeighbourState:
    """The state of some rows. reading: the network's. recents: the last states of each. probs: once computed."""

    reading: Reading
    recents: tuple[Recent, ...]
    probs: Float32[ndarray, "B V"] | None = field(default=None)


class Found(NamedTuple):
    """Some positions of a text, with the network's states there, and similar ones. cache, store: None without one."""

    places: slice
    hidden: Float[Tensor, "Q D"]
    cache: Similar | None
    store: Similar | None


class NeighbourModel(AroundNetwork[NeighbourState]):
    """P(w | the tokens before it), by a network and what came after similar states."""

    def __init__(
        self,
        family: str,
        model: NeuralModel,
        settings: NeighbourSettings,
        store: Datastore | None = None,
        *,
        counts_unknown: bool = True,
    ) -> None:
        """Take a network of a family, which does not change, and a datastore of its states.

        settings: with all that a cache and a datastore need. counts_unknown: whether states before <unk> count, too.
        Raises ModelFormatError if the datastore is none of this network.
        """
        super().__init__(family, model, counts_unknown=counts_unknown)
        self.settings, self.store, self.network = settings, store, model.network
        width = self.network.encoder.width
        if store is not None and (store.keys.shape[1] != width or store.tokens.max() >= self.vocabulary_size):
            raise ModelFormatError(
                f"the datastore has states of width {store.keys.shape[1]}, and tokens up to {store.tokens.max()}; the "
                f"network has {width}, and {self.vocabulary_size} tokens, so it is of another network, or damaged: "
                "try chainrule verify"
            )

    @property
    def weights(self) -> tuple[float, float, float]:
        """The weights of the network, the cache and the datastore; 0 of one that there is not."""
        own = self.settings
        cache = 0.0 if own.neural_cache is None else own.neural_cache_weight or 0.0
        store = 0.0 if self.store is None else own.neighbours_weight or 0.0
        return 1 - cache - store, cache, store

    @property
    def stream_signature(self) -> str:
        """How much context a token has in `score_stream`, and what similar states count, as a short text."""
        own, parts, (_, cache, store) = self.settings, [self.model.stream_signature], self.weights
        if own.neural_cache is not None:
            forgets = ",forgets" * own.neural_cache_forgets
            parts.append(f"neural-cache:{own.neural_cache},theta={own.neural_cache_theta:g},weight={cache:g}{forgets}")
        if self.store is not None:
            near = f"count={own.neighbours_count},temperature={own.neighbours_temperature:g}"
            parts.append(f"neighbours:{len(self.store)},{near},weight={store:g}")
        return "|".join(parts)

    def rows_along(self, stream: Tokens) -> Iterator[Float32[ndarray, "part V"]]:
        """Implement `AroundNetwork.rows_along`."""
        for found in self.found_along(stream, self.hidden_of([stream])):
            yield self._distributions(found)

    def start(self, prefixes: Sequence[Tokens]) -> NeighbourState:
        """Implement `LanguageModel.start`; what a prefix has is in the cache."""
        prefixes = [as_tokens(prefix) for prefix in prefixes]
        return NeighbourState(self.model.start(prefixes), tuple(map(self._recent_after, prefixes)))

    @torch.inference_mode()
    def next_log_probs(self, state: NeighbourState) -> Float32[ndarray, "B V"]:
        """Implement `LanguageModel.next_log_probs`."""
        if state.probs is None:
            log_probs, hidden = self.model.next_log_probs(state.reading), self._hidden(state.reading)
            rows = np.empty_like(log_probs)
            known: dict[tuple[int, int], int] = {}
            own_rows = range(len(rows)) if state.reading.rows is None else state.reading.rows.tolist()
            for row, key in enumerate(zip(own_rows, map(id, state.recents), strict=True)):
                if (first := known.setdefault(key, row)) != row:  # of many that were selected from one
                    rows[row] = rows[first]
                    continue
                found = self._found(state, hidden, row)
                rows[row] = self._mixed(log_probs[row : row + 1], found, None)
            check_log_probs(rows)
            state.probs = rows
        return state.probs.copy()

    @torch.inference_mode()
    def advance(self, state: NeighbourState, tokens: Int32[ndarray, " B"]) -> NeighbourState:
        """Implement `LanguageModel.advance`; the given state stays usable."""
        reading = self.model.advance(state.reading, tokens)
        recents = state.recents
        if (window := self.settings.neural_cache) is not None:
            rows = zip(recents, self._hidden(state.reading), as_tokens(tokens).tolist(), strict=True)
            recents = tuple(
                self._empty()
                if self.settings.neural_cache_forgets and token == END
                else recent.after(key, token, window)
                for recent, key, token in rows
            )
        return NeighbourState(reading, recents)

    def select(self, state: NeighbourState, rows: Int32[ndarray, " new_B"]) -> NeighbourState:
        """Implement `LanguageModel.select`."""
        probs = None if state.probs is None else state.probs[rows]
        return NeighbourState(self.model.select(state.reading, rows), tuple(state.recents[row] for row in rows), probs)

    def join(self, states: Sequence[NeighbourState]) -> NeighbourState:
        """Implement `LanguageModel.join`."""
        recents = tuple(recent for state in states for recent in state.recents)
        return NeighbourState(self.model.join([state.reading for state in states]), recents)

    @torch.inference_mode()
    def found(self, state: NeighbourState) -> list[Found]:
        """Return, for each row, the similar states."""
        hidden = self._hidden(state.reading)
        return [self._found(state, hidden, row) for row in range(len(state.recents))]

    @torch.inference_mode()
    def parts_of(self, state: NeighbourState) -> list[Float32[ndarray, "B V"]]:
        """Return the distributions of the network, the cache and the datastore; zeros of one that there is not."""
        network = np.exp(self.model.next_log_probs(state.reading))
        cache, store = np.zeros_like(network), np.zeros_like(network)
        for row, found in enumerate(self.found(state)):
            for probs, similar, sharpness in zip((cache, store), found[2:], self.sharpness, strict=True):
                if similar is not None:
                    probs[row] = similar.probs(sharpness, self.vocabulary_size).cpu().numpy()
        return [network, cache, store]

    @property
    def sharpness(self) -> tuple[float, float]:
        """What similarities in the cache and in the datastore are multiplied with."""
        return self.settings.neural_cache_theta or 0.0, 1 / (self.settings.neighbours_temperature or 1.0)

    def hidden_of(self, texts: Sequence[Tokens]) -> Iterator[Float[Tensor, "part D"]]:
        """Yield the network's states before each token of some texts, as `states_along`."""
        return states_along(self.model, texts)

    @torch.inference_mode()
    def found_along(self, text: Tokens, hidden: Iterable[Float[Tensor, "part D"]]) -> Iterator[Found]:
        """Yield the similar states at some positions of a text at a time. hidden: those before each of its tokens."""
        window, device = self.settings.neural_cache, self.network.device
        tokens = torch.from_numpy(text.astype(np.int64)).to(device)
        begins = np.maximum.accumulate(np.where(np.append(END, text)[: len(text)] == END, np.arange(len(text)), 0))
        keys, done = self._empty().keys, 0
        for part in _in_parts(hidden, len(text)):
            places = torch.arange(done, done + len(part), device=device)[:, None]
            cache = store = None
            if window is not None:
                keys = torch.cat([keys, part.float()])
                known = torch.arange(done + len(part) - len(keys), done + len(part), device=device)[None]
                after = tokens[known]
                counts = (known < places) & (known >= places - window) & (after != BEGIN)
                if self.settings.neural_cache_forgets:
                    counts &= known >= torch.from_numpy(begins[done : done + len(part)]).to(device)[:, None]
                cache = Similar(part.float() @ keys.T, counts, after, known)
                keys = keys[max(0, len(keys) - window) :]
            if self.store is not None:
                store = self.store.similar(part, self.settings.neighbours_count or 1)
            yield Found(slice(done, done + len(part)), part, self._counted(cache), self._counted(store))
            done += len(part)
            pause()

    def read_texts(
        self, texts: Sequence[Tokens], on_share: Callable[[float], None] | None = None
    ) -> list[Float32[ndarray, "T 2"]]:
        """Implement `AroundNetwork.read_texts`; the cache is empty before each."""
        hidden = _Cut(self.hidden_of(texts))
        read = []
        for text in texts:
            scores = np.zeros((len(text), 2), np.float32)
            asked = np.stack([text, np.full(len(text), UNKNOWN)], -1).astype(np.int64)
            for found in self.found_along(text, hidden.take(len(text))):
                own = torch.from_numpy(asked[found.places]).to(self.network.device)
                scores[found.places] = self._mixed(self.network_log_probs(found.hidden, own), found, own)
                if on_share is not None:
                    on_share(found.places.stop / len(text))
            check_log_probs(scores)
            read.append(scores)
        return read

    @torch.inference_mode()
    def network_log_probs(self, hidden: Float[Tensor, "Q D"], asked: Int64[Tensor, "Q A"]) -> Float32[ndarray, "Q A"]:
        """Return what the network alone gives to the tokens that are asked for."""
        log_probs: ndarray = self.network.output.log_probs_of(hidden, asked).cpu().numpy()
        return log_probs

    @torch.inference_mode()
    def _distributions(self, found: Found) -> Float32[ndarray, "Q V"]:
        rows = self._mixed(self.network.output.log_probs(found.hidden).cpu().numpy(), found, None)
        check_log_probs(rows)
        return rows

    def _mixed(
        self, log_probs: Float32[ndarray, "Q A"], found: Found, asked: Int64[Tensor, "Q A"] | None
    ) -> Float32[ndarray, "Q A"]:
        """Return the logarithms of the mixture. log_probs: the network's, of tokens that are asked for, or of all."""
        probs = np.exp(log_probs, dtype=np.float64)
        shares = np.ones((len(probs), 1))
        mixed = np.zeros_like(probs)
        for weight, similar, sharpness in zip(self.weights[1:], found[2:], self.sharpness, strict=True):
            if similar is None or not weight:
                continue
            own = similar.probs(sharpness, probs.shape[1]) if asked is None else similar.probs_of(sharpness, asked)
            has_any = similar.any().cpu().numpy()[:, None]
            mixed += weight * own.cpu().numpy()
            shares -= weight * has_any
        with np.errstate(divide="ignore"):
            rows: ndarray = np.log(mixed + shares * probs).astype(np.float32)
        return rows

    def _found(self, state: NeighbourState, hidden: Float[Tensor, "B D"], row: int) -> Found:
        own = hidden[row : row + 1]
        cache = None if self.settings.neural_cache is None else state.recents[row].similar(own)
        store = None if self.store is None else self.store.similar(own, self.settings.neighbours_count or 1)
        return Found(slice(row, row + 1), own, self._counted(cache), self._counted(store))

    def _counted(self, similar: Similar | None) -> Similar | None:
        """Return the same states; those before <unk> do not count if it stands for one of many unseen types."""
        if similar is None or self.counts_unknown:
            return similar
        return similar._replace(counts=similar.counts & (similar.tokens != UNKNOWN))

    @torch.inference_mode()
    def _recent_after(self, prefix: Tokens) -> Recent:
        """Return the last states before the tokens of a prefix."""
        window = self.settings.neural_cache
        if window is None or not len(prefix):
            return self._empty()
        check_tokens(prefix, self.vocabulary_size)
        begin = max(0, len(prefix) - window)
        if self.settings.neural_cache_forgets and (ends := np.flatnonzero(prefix == END)).size:
            begin = max(begin, int(ends[-1]) + 1)
        keys = torch.cat([*self.hidden_of([prefix])])[begin:]
        return Recent(keys.float(), torch.from_numpy(prefix[begin:].astype(np.int64)).to(keys.device))

    def _empty(self) -> Recent:
        device = self.network.device
        no_tokens = torch.zeros(0, dtype=torch.int64, device=device)
        return Recent(torch.zeros(0, self.network.encoder.width, device=device), no_tokens)

    def _hidden(self, reading: Reading) -> Float[Tensor, "B D"]:
        """Return the network's state in each row."""
        hidden = reading.next.hidden
        return hidden if reading.rows is None else hidden[torch.from_numpy(reading.rows.astype(np.int64))]


class _Cut:
    """Parts that come one after the other, taken in other lengths."""

    def __init__(self, parts: Iterator[Float[Tensor, "part D"]]) -> None:
        self._parts = parts
        self._rest: Tensor | None = None

    def take(self, count: int) -> Iterator[Float[Tensor, "part D"]]:
        """Yield the next so many, in parts."""
        while count:
            part = next(self._parts) if self._rest is None or not len(self._rest) else self._rest
            yield part[:count]
            self._rest = part[count:]
            count -= min(count, len(part))


def _in_parts(hidden: Iterable[Float[Tensor, "part D"]], count: int) -> Iterator[Float[Tensor, "part D"]]:
    """Yield the same, in parts of at most `_TOGETHER`."""
    for part in hidden:
        for begin in range(0, len(part), _TOGETHER):
            yield part[begin : begin + _TOGETHER]


def states_along(model: NeuralModel, texts: Sequence[Tokens]) -> Iterator[Float[Tensor, "part D"]]:
    """Yield the states of a network before each token of some texts, each read from its beginning, in parts."""
    network = model.network
    rows = [
        part for text in texts if len(text) for part in ([text] if network.memory == "stream" else documents_of(text))
    ]
    return hidden_in_order(network, rows, pieces_of([len(row) for row in rows], network))
