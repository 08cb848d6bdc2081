"""A network over trees as a `LanguageModel` of their texts. It gives only trees a probability: see `tree_text`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from chainrule.base.arguments import as_tokens, check_prefixes, check_tokens
from chainrule.base.distributions import ByDistributions, check_log_probs
from chainrule.errors import SettingError
from chainrule.neural.scoring_batches import batched
from chainrule.protocol import END
from chainrule.structures.linearized import Place, step, tree_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.tree_network import TreeNetwork

    Tokens = Int32[ndarray, " T"]

_TOGETHER = 1 << 12  # tokens that are scored at once


class TreeState(NamedTuple):
    """vectors: h and c of each layer, (B, L, 2, D). places: where the text of each row stands.

    An open bracket keeps the vectors before it: a tensor of several rows, and the row.
    """

    vectors: Tensor
    places: tuple[Place, ...]


class TreeModel(ByDistributions[TreeState]):
    """P(token | the nodes above it, and the elder siblings of all these)."""

    end = END

    def __init__(self, network: TreeNetwork) -> None:
        """Sets the network to evaluation mode, without dropout."""
        self.network = network.eval()
        self.vocabulary_size = network.vocabulary_size

    def score(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " T"]]:
        """As `Scorer.score`."""
        return [rows[:, 0].copy() for rows in self._score(sequences, prefixes, end=end)]

    def unknown_log_probs(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " T"]]:
        """As `LanguageModel.unknown_log_probs`."""
        return [rows[:, 1].copy() for rows in self._score(sequences, prefixes, end=end)]

    def score_stream(self, stream: Tokens) -> Float32[ndarray, " T"]:
        """As `Scorer.score_stream`."""
        stream = as_tokens(stream)
        documents = np.split(stream, np.flatnonzero(stream == END) + 1)  # the last may be empty
        return np.concatenate([np.empty(0, np.float32), *self.score(documents, end=False)])

    @torch.inference_mode()
    def start(self, prefixes: Sequence[Tokens]) -> TreeState:
        """As `LanguageModel.start`."""
        config = self.network.config
        rows = [as_tokens(prefix) for prefix in prefixes]
        for row in rows:
            check_tokens(row, self.vocabulary_size)
        vectors = torch.zeros(len(rows), config.layers, 2, config.width, device=self.network.device)
        state = self._begun(TreeState(vectors, (Place(),) * len(rows)))
        for i in range(max(map(len, rows), default=0)):  # rows that have ended stay as they are
            own = np.array([row for row, tokens in enumerate(rows) if i < len(tokens)], np.int32)
            advanced = self.advance(self.select(state, own), np.array([rows[row][i] for row in own], np.int32))
            places = list(state.places)
            for row, place in zip(own.tolist(), advanced.places, strict=True):
                places[row] = place
            chosen = torch.from_numpy(own.astype(np.int64)).to(self.network.device)
            state = TreeState(state.vectors.index_copy(0, chosen, advanced.vectors), tuple(places))
        return state

    def select(self, state: TreeState, rows: Int32[ndarray, " new_B"]) -> TreeState:
        """As `LanguageModel.select`."""
        chosen = torch.from_numpy(np.asarray(rows, np.int64)).to(self.network.device)
        return TreeState(state.vectors.index_select(0, chosen), tuple(state.places[row] for row in rows))

    @torch.inference_mode()
    def join(self, states: Sequence[TreeState]) -> TreeState:
        """As `LanguageModel.join`."""
        vectors = torch.cat([state.vectors for state in states])
        return TreeState(vectors, tuple(place for state in states for place in state.places))

    @torch.inference_mode()
    def advance(self, state: TreeState, tokens: Int32[ndarray, " B"]) -> TreeState:
        """As `LanguageModel.advance`; the given state stays usable."""
        if len(tokens) != len(state.places):
            raise SettingError(
                f"there are {len(tokens)} tokens for {len(state.places)} rows; expected one for each row"
            )
        tokens = as_tokens(tokens)
        check_tokens(tokens, self.vocabulary_size)
        if not len(tokens):
            return state
        places, sources, heads = [], [], []
        for i, (place, token) in enumerate(zip(state.places, tokens.tolist(), strict=True)):
            after, closed = step(place, token, (state.vectors, i), self.network.brackets)
            vectors, row = (state.vectors, i) if closed is None else closed.before
            places.append(after)
            sources.append(torch.zeros_like(vectors[row]) if token == END else vectors[row])
            heads.append(-1 if closed is None else closed.head)
        return self._read(TreeState(torch.stack(sources), tuple(places)), tokens.tolist(), heads)

    @torch.inference_mode()
    def next_log_probs(self, state: TreeState) -> Float32[ndarray, "B V"]:
        """As `LanguageModel.next_log_probs`."""
        turns = torch.tensor([place.turn for place in state.places], dtype=torch.int64, device=self.network.device)
        log_probs: Float32[ndarray, "B V"] = self.network.log_probs(state.vectors[:, -1, 0], turns).cpu().numpy()
        check_log_probs(log_probs)
        return log_probs

    def _begun(self, state: TreeState) -> TreeState:
        """The state of rows after the </s> before a text."""
        return self._read(state, [END] * len(state.places), [-1] * len(state.places))

    def _read(self, before: TreeState, tokens: list[int], heads: list[int]) -> TreeState:
        """The state after one more token in each row. before: what each goes on from, and where it then stands."""
        device = self.network.device
        x = self.network.read(torch.tensor(tokens, device=device).long(), torch.tensor(heads, device=device).long())
        after = []
        for layer, vectors in zip(self.network.layers, before.vectors.unbind(1), strict=True):
            x, c = layer.step(layer.own(x), vectors[:, 0], vectors[:, 1])  # type: ignore[operator]
            after.append(torch.stack((x, c), 1))
        return TreeState(torch.stack(after, 1), before.places)

    @torch.inference_mode()
    def _score(
        self, sequences: Sequence[Tokens], prefixes: Sequence[Tokens] | None, *, end: bool
    ) -> list[Float32[ndarray, "T 2"]]:
        """The log-probabilities of each sequence's tokens, and of <unk> at their positions."""
        check_prefixes(len(sequences), prefixes)
        rows, spans = [], []
        for i, sequence in enumerate(sequences):
            before = as_tokens([] if prefixes is None else prefixes[i])
            rows.append(np.concatenate([before, as_tokens(sequence), np.full(int(end), END, np.int32)]))
            check_tokens(rows[-1], self.vocabulary_size)
            spans.append(slice(len(before), None))
        scores = [np.zeros((len(row), 2), np.float32) for row in rows]
        order = sorted((i for i in range(len(rows)) if len(rows[i])), key=lambda i: -len(rows[i]))
        for batch in batched(order, lambda i: len(rows[i]), _TOGETHER):
            trees = [tree_steps(rows[i][:-1], self.network.brackets) for i in batch]
            turns = torch.from_numpy(np.concatenate([tree.turns for tree in trees])).to(self.network.device)
            targets = torch.from_numpy(np.concatenate([rows[i] for i in batch]).astype(np.int64))
            both = self.network.log_probs_of(self.network(trees), turns, targets.to(self.network.device)).cpu().numpy()
            check_log_probs(both)
            for i, part in zip(batch, np.split(both, np.cumsum([len(rows[i]) for i in batch])[:-1]), strict=True):
                scores[i][:] = part
        return [rows[span] for rows, span in zip(scores, spans, strict=True)]
