"""States of a network, each with the token that came after it: the last ones of a row, or those of a whole text.

A state h_i counts for another one, h, by their similarity:

    s(h, h_i) = h . h_i                    in a cache of the last ones (Grave, Joulin and Usunier 2017)
    s(h, h_i) = 2 h . h_i - h_i . h_i      in a datastore: |h|^2 less the squared distance (Khandelwal et al. 2020)

    P(w | h) = sum of exp(a s(h, h_i)) over the i after which w came / the same over all i

with a = theta, or a = 1 / temperature over the k nearest.
Legend: Q queries, K states, D width, V vocabulary.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chainrule.errors import ModelFormatError
from chainrule.neural.layers.matrix_products import product
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float16, Float32, Int32, Int64
    from numpy import ndarray

_BLOCK = 1 << 14  # states of a datastore that are compared at once
_FEW = 32  # queries that states in 16 bits are compared with as they are; for more, widening a block first is quicker
_ROOM = 64  # states for which a new row has room


class Similar(NamedTuple):
    """The states that queries are compared with. counts: which of them count for each query.

    tokens: those that came after them, for all queries or for each. places: their numbers, likewise.
    """

    similarities: Float32[Tensor, "Q K"]
    counts: Bool[Tensor, "#Q K"]
    tokens: Int64[Tensor, "#Q K"]
    places: Int64[Tensor, "#Q K"]

    def any(self) -> Bool[Tensor, " Q"]:
        """Return whether any state counts for each query."""
        return self.counts.any(1).expand(len(self.similarities))

    def shares(self, sharpness: float) -> Float32[Tensor, "Q K"]:
        """Return the share of each state, 0 of those that do not count. sharpness: a."""
        return (self.similarities * sharpness).masked_fill(~self.counts, -torch.inf).softmax(1).nan_to_num(0.0)

    def probs_of(self, sharpness: float, asked: Int64[Tensor, "Q A"]) -> Float32[Tensor, "Q A"]:
        """Return P of the tokens that are asked for."""
        shares = self.shares(sharpness)
        return torch.stack([(shares * (self.tokens == own[:, None])).sum(1) for own in asked.T], 1)

    def probs(self, sharpness: float, vocabulary_size: int) -> Float32[Tensor, "Q V"]:
        """Return P of all tokens."""
        shares = self.shares(sharpness)
        probs = shares.new_zeros(len(shares), vocabulary_size)
        return probs.scatter_add_(1, self.tokens.expand(shares.shape), shares)


class Recent:
    """The last states of a row of text, which never change. Rows that go on share memory as long as they agree."""

    def __init__(self, keys: Float[Tensor, "K D"], tokens: Int64[Tensor, " K"]) -> None:
        """Take states, with the tokens after them."""
        self._keys, self._tokens = keys, tokens
        self._begin, self._end = 0, len(keys)
        self._filled, self._lock = [len(keys)], Lock()  # shared, as the memory is

    def after(self, key: Float[Tensor, " D"], token: int, window: int) -> Recent:
        """Return the row after one more token, with at most `window` states."""
        begin = max(self._begin, self._end + 1 - window)
        made = Recent(self._keys, self._tokens)
        with self._lock:
            is_free = self._end == self._filled[0] < len(self._keys)
            if is_free:
                self._filled[0] += 1
                self._keys[self._end], self._tokens[self._end] = key, token
        if is_free:
            made._begin, made._end, made._filled, made._lock = begin, self._end + 1, self._filled, self._lock
            return made
        kept = self._end - begin
        room = max(_ROOM, 2 * kept)
        made._keys, made._tokens = self._keys.new_empty(room, self._keys.shape[1]), self._tokens.new_empty(room)
        made._keys[:kept], made._tokens[:kept] = self._keys[begin : self._end], self._tokens[begin : self._end]
        made._keys[kept], made._tokens[kept] = key, token
        made._end, made._filled = kept + 1, [kept + 1]
        return made

    @property
    def keys(self) -> Float[Tensor, "K D"]:
        return self._keys[self._begin : self._end]

    @property
    def tokens(self) -> Int64[Tensor, " K"]:
        return self._tokens[self._begin : self._end]

    def similar(self, queries: Float[Tensor, "Q D"]) -> Similar:
        """Return all its states, as they are similar to some queries."""
        tokens = self.tokens[None]
        places = torch.arange(tokens.shape[1], device=queries.device)[None]
        return Similar(queries.float() @ self.keys.T, tokens != BEGIN, tokens, places)


class Datastore:
    """The states of a network before each token of a text, which are searched exactly."""

    def __init__(self, keys: Float16[ndarray, "K D"], tokens: Int32[ndarray, " K"]) -> None:
        """Take states, and the tokens of the text. Raises ModelFormatError if they do not fit together."""
        if keys.ndim != 2 or tokens.shape != keys.shape[:1] or not len(keys) or keys.dtype.kind != "f":
            raise ModelFormatError(
                f"the datastore has states of shape {[*keys.shape]} for tokens of shape {[*tokens.shape]}; its file is "
                "damaged: try chainrule verify"
            )
        self.keys, self.tokens = keys, tokens
        self._compared: tuple[Tensor, Tensor, Tensor] | None = None
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self.tokens)

    @torch.inference_mode()
    def similar(self, queries: Float[Tensor, "Q D"], nearest: int) -> Similar:
        """Return the nearest states of each query, in no order; of equal ones, the first of the text."""
        from chainrule.features.neighbours.nearest_kernels import finish_nearest, keep_nearest

        keys, norms, tokens = self._on(queries.device)
        nearest, twice = min(nearest, len(keys)), 2 * queries.float()
        values = np.full((len(queries), 2 * nearest), -np.inf, np.float32)
        chosen = np.zeros(values.shape, np.int64)
        counts, least = np.zeros(len(queries), np.int64), np.full(len(queries), -np.inf, np.float32)
        for begin in range(0, len(keys), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            if len(queries) <= _FEW:
                similarities = product(twice, keys[block], -norms[block])
            else:
                similarities = torch.addmm(-norms[None, block], twice, keys[block].float().T)
            keep_nearest(similarities.cpu().numpy(), begin, nearest, values, chosen, counts, least)
        finish_nearest(nearest, values, chosen, counts)
        near = torch.from_numpy(values[:, :nearest].copy()).to(keys.device)
        places = torch.from_numpy(chosen[:, :nearest].copy()).to(keys.device)
        return Similar(near, near > -torch.inf, tokens[places], places)

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Return states, their squared lengths and tokens, on a device."""
        with self._lock:
            if self._compared is None or self._compared[0].device != device:
                keys = torch.from_numpy(self.keys).to(device)
                norms = torch.cat([part.float().square().sum(1) for part in torch.split(keys, _BLOCK)])
                self._compared = keys, norms, torch.from_numpy(self.tokens.astype(np.int64)).to(device)
            return self._compared
