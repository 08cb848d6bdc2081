"""The network that predicts trees from the root down, as a LanguageModel of their texts, and its state on disk.

An LSTM whose states go on not from left to right, but in the tree. Only trees have a probability: see `tree_text`. A
child's word is read after those of its elder siblings, as in any LSTM. An opening bracket begins the children of a
node; the closing one continues from the state before the opening one, and reads the node's head. So each state knows
the nodes above, and the elder siblings of all these. All states whose predecessors are known are computed at once,
those of all trees of a batch: one gather and one product a level.
Legend: N states of a batch, n of a level, D width, L layers, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.base.arguments import after_prefixes, as_tokens, check_rows, check_tokens
from chainrule.base.distributions import ByDistributions, check_log_probs
from chainrule.base.options import config_from_json
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.trees.config import TreeConfig
from chainrule.features.trees.structures.linearized import CLOSE, OPEN, Action, Brackets, ParserState, step, tree_steps
from chainrule.neural.config.network import settings_of, without_ngram_memory
from chainrule.neural.layers.basic import Embedding, drop
from chainrule.neural.layers.cross_entropy import blocks, cross_entropy
from chainrule.neural.saving import arrays_of, check_layers, filled_network
from chainrule.neural.scoring import documents_of, make_batches
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.features.trees.structures.linearized import TreeSteps
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Tokens = Int32[ndarray, " T"]
    Json = dict[str, Any]
    Arrays = dict[str, ndarray]

_TOGETHER = 1 << 12  # tokens that are scored at once


class TreeState(NamedTuple):
    """The state of several texts of trees.

    vectors: h and c of each layer, (B, L, 2, D). places: where the text of each row stands. An open bracket keeps the
    vectors before it: a tensor of several rows, and the row.
    """

    vectors: Tensor
    places: tuple[ParserState, ...]


class TreeModel(ByDistributions[TreeState]):
    """P(token | the nodes above it, and the elder siblings of all these)."""

    end = END

    def __init__(self, network: TreeNetwork) -> None:
        """Set the network to evaluation mode, without dropout."""
        self.network = network.eval()
        self.vocabulary_size = network.vocabulary_size

    def score(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " T"]]:
        """Implement `Scorer.score`."""
        return [rows[:, 0].copy() for rows in self._score(sequences, prefixes, end=end)]

    def unknown_log_probs(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " T"]]:
        """Implement `LanguageModel.unknown_log_probs`."""
        return [rows[:, 1].copy() for rows in self._score(sequences, prefixes, end=end)]

    def score_stream(self, stream: Tokens) -> Float32[ndarray, " T"]:
        """Implement `Scorer.score_stream`."""
        documents = documents_of(as_tokens(stream))
        return np.concatenate([np.empty(0, np.float32), *self.score(documents, end=False)])

    @torch.inference_mode()
    def start(self, prefixes: Sequence[Tokens]) -> TreeState:
        """Implement `LanguageModel.start`."""
        config = self.network.config
        rows = [as_tokens(prefix) for prefix in prefixes]
        for row in rows:
            check_tokens(row, self.vocabulary_size)
        vectors = torch.zeros(len(rows), config.layers, 2, config.width, device=self.network.device)
        state = self._begun(TreeState(vectors, (ParserState(),) * len(rows)))
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
        """Implement `LanguageModel.select`."""
        chosen = torch.from_numpy(np.asarray(rows, np.int64)).to(self.network.device)
        return TreeState(state.vectors.index_select(0, chosen), tuple(state.places[row] for row in rows))

    @torch.inference_mode()
    def join(self, states: Sequence[TreeState]) -> TreeState:
        """Implement `LanguageModel.join`."""
        vectors = torch.cat([state.vectors for state in states])
        return TreeState(vectors, tuple(place for state in states for place in state.places))

    @torch.inference_mode()
    def advance(self, state: TreeState, tokens: Int32[ndarray, " B"]) -> TreeState:
        """Implement `LanguageModel.advance`; the given state stays usable."""
        check_rows(tokens, len(state.places))
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
        """Implement `LanguageModel.next_log_probs`."""
        turns = torch.tensor([place.turn for place in state.places], dtype=torch.int64, device=self.network.device)
        log_probs: Float32[ndarray, "B V"] = self.network.log_probs(state.vectors[:, -1, 0], turns).cpu().numpy()
        check_log_probs(log_probs)
        return log_probs

    def _begun(self, state: TreeState) -> TreeState:
        """Return the state of rows after the </s> before a text."""
        return self._read(state, [END] * len(state.places), [-1] * len(state.places))

    def _read(self, before: TreeState, tokens: list[int], heads: list[int]) -> TreeState:
        """Return the state after one more token in each row.

        before: the vectors that each row continues from, and its place afterwards.
        """
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
        """Return the log-probabilities of each sequence's tokens, and of <unk> at their positions."""
        texts = after_prefixes(sequences, prefixes, self.vocabulary_size, end=end)
        rows = [text for text, _ in texts]
        scores = [np.zeros((len(row), 2), np.float32) for row in rows]
        order = sorted((i for i in range(len(rows)) if len(rows[i])), key=lambda i: -len(rows[i]))
        for batch in make_batches(order, lambda i: len(rows[i]), _TOGETHER):
            trees = [tree_steps(rows[i][:-1], self.network.brackets) for i in batch]
            turns = torch.from_numpy(np.concatenate([tree.turns for tree in trees])).to(self.network.device)
            targets = torch.from_numpy(np.concatenate([rows[i] for i in batch]).astype(np.int64))
            both = self.network.log_probs_of(self.network(trees), turns, targets.to(self.network.device)).cpu().numpy()
            check_log_probs(both)
            for i, part in zip(batch, np.split(both, np.cumsum([len(rows[i]) for i in batch])[:-1]), strict=True):
                scores[i][:] = part
        return [row[own] for row, (_, own) in zip(scores, texts, strict=True)]


class TreeLSTMLayer(nn.Module):
    """An LSTM (Hochreiter and Schmidhuber 1997) over states that form a tree; on a chain, it equals torch's.

    Gates are in the order input, forget, cell, output.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, 4 * width)
        self.before = nn.Linear(width, 4 * width, bias=False)
        nn.init.zeros_(self.own.bias)
        with torch.no_grad():
            self.own.bias[width : 2 * width] = 1

    def step(
        self, own: Float[Tensor, "n 4*D"], h: Float[Tensor, "n D"], c: Float[Tensor, "n D"]
    ) -> tuple[Float[Tensor, "n D"], Float[Tensor, "n D"]]:
        """Return the new h and c, given those of the predecessors. own: W x + b."""
        i, f, g, o = (own + self.before(h)).float().chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, x: Float[Tensor, "N D"], levels: Levels) -> Float[Tensor, "N D"]:
        """Return the hidden vectors of all states. x: the inputs, level by level."""
        h = c = x.new_zeros(1, x.shape[1])
        hidden = []
        for own, before in zip(torch.split(self.own(x), levels.sizes), levels.before, strict=True):
            h, c = self.step(own, h[before], c[before])
            hidden.append(h)
        return torch.cat(hidden)


class Levels(NamedTuple):
    """States in the order in which they are computed. before: for the states of each level, the predecessor's position
    in the level before; 0 in the first level. order: the states by level.
    """

    sizes: list[int]
    before: list[Int64[Tensor, " n"]]
    order: Int64[Tensor, " N"]


class TreeNetwork(nn.Module):
    """Token vectors, layers, and a softmax over the tokens that may come next."""

    def __init__(self, config: TreeConfig, vocabulary_size: int) -> None:
        """Build the layers. Raises SettingError where the vocabulary has no such brackets."""
        super().__init__()
        if len(config.brackets) != 2 or max(config.brackets) >= vocabulary_size:
            raise SettingError(
                f"brackets are {config.brackets}, and the vocabulary has {vocabulary_size:,} tokens; expected the "
                "tokens ( and )"
            )
        self.config, self.vocabulary_size = config, vocabulary_size
        self.brackets = Brackets(*config.brackets)
        self.embedding = Embedding(vocabulary_size, config.width)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.layers = nn.ModuleList(TreeLSTMLayer(config.width) for _ in range(config.layers))
        weight = self.embedding.weight if config.tied else nn.Parameter(torch.zeros(vocabulary_size, config.width))
        self.output_weight, self.output_bias = weight, nn.Parameter(torch.zeros(vocabulary_size))
        self.register_buffer("never", _never(vocabulary_size, self.brackets), persistent=False)

    def forward(self, trees: Sequence[TreeSteps]) -> Float[Tensor, "N D"]:
        """Return the hidden vectors of all states, tree by tree."""
        levels = self._levels(trees)
        tokens, heads = (np.concatenate([tree[i] for tree in trees]) for i in (0, 2))
        x = self.read(*(torch.from_numpy(array).to(self.device)[levels.order] for array in (tokens, heads)))
        for layer in self.layers:
            x = layer(drop(x, self.config.dropout, self.training), levels)
        return drop(torch.empty_like(x).index_copy(0, levels.order, x), self.config.dropout, self.training)

    def read(self, tokens: Int64[Tensor, " n"], heads: Int64[Tensor, " n"]) -> Float[Tensor, "n D"]:
        """Return the vectors of tokens; to that of a closing bracket, the vector of its node's head is added."""
        return cast("Tensor", self.embedding(tokens) + self.embedding(heads.clamp(min=0)) * (heads >= 0)[:, None])

    def loss(
        self,
        hidden: Float[Tensor, "N D"],
        turns: Int64[np.ndarray, " N"],
        targets: Int64[Tensor, " N"],
        *,
        label_smoothing: float = 0.0,
    ) -> Float32[Tensor, ""]:
        """Return -log P of the next token after each state, in nats, summed; the end of a complete tree is certain."""
        total = hidden.new_zeros((), dtype=torch.float32)
        for turn in (Action.BEGIN, Action.HEAD, Action.FIRST, Action.MORE):
            own = torch.from_numpy(np.flatnonzero(turns == turn)).to(self.device)
            if len(own):
                total = total + cross_entropy(
                    hidden[own], self.output_weight, self.output_bias + self._banned[turn], targets[own],
                    smoothing=label_smoothing,
                )  # fmt: skip
        return total

    def log_probs(self, hidden: Float[Tensor, "n D"], turns: Int64[Tensor, " n"]) -> Float32[Tensor, "n V"]:
        """Return log P of each token after states, in nats."""
        logits = torch.nn.functional.linear(hidden, self.output_weight, self.output_bias).float()
        return (logits + self._banned[turns]).log_softmax(1)

    def log_probs_of(
        self, hidden: Float[Tensor, "n D"], turns: Int64[Tensor, " n"], targets: Int64[Tensor, " n"]
    ) -> Float32[Tensor, "n 2"]:
        """Return log P of a target after each state, and of <unk>."""
        columns = torch.stack((targets, torch.full_like(targets, UNKNOWN)), 1)
        rows = [
            self.log_probs(hidden[block], turns[block]).gather(1, columns[block])
            for block in blocks(hidden, self.vocabulary_size)
        ]
        return torch.cat(rows) if rows else hidden.new_zeros(0, 2)

    @property
    def device(self) -> torch.device:
        return self.output_bias.device

    def matrices(self) -> list[nn.Parameter]:
        """Return the matrices of the layers."""
        return [weight for weight in self.layers.parameters() if weight.ndim == 2]

    @property
    def _banned(self) -> Float32[Tensor, "turns V"]:
        assert isinstance(self.never, Tensor)
        return self.never

    def _levels(self, trees: Sequence[TreeSteps]) -> Levels:
        levels = np.concatenate([tree.levels for tree in trees])
        firsts = np.cumsum([0, *(len(tree.tokens) for tree in trees)])
        before = np.concatenate(
            [np.where(tree.before < 0, -1, tree.before + first) for tree, first in zip(trees, firsts, strict=False)]
        )
        order = np.argsort(levels, kind="stable")
        sizes = np.bincount(levels)
        edges = np.cumsum([0, *sizes])
        positions = np.empty(len(order), np.int64)
        positions[order] = np.arange(len(order))
        within = positions[before[order]] - edges[np.maximum(levels[order] - 1, 0)]
        within[: sizes[0]] = 0
        parts = torch.split(torch.from_numpy(within).to(self.device), sizes.tolist())
        return Levels(sizes.tolist(), list(parts), torch.from_numpy(order).to(self.device))


def with_brackets(config: TreeConfig, tokenizer: Tokenizer) -> TreeConfig:
    """Return the configuration with the ids of ( and ). Raises SettingError where the vocabulary has none."""
    ids = tokenizer.vocabulary.id_of(OPEN), tokenizer.vocabulary.id_of(CLOSE)
    if UNKNOWN in ids:
        raise SettingError(
            "the text has no brackets, so it is not a text of trees; give a Treebank, with the whitespace tokenizer"
        )
    return replace(config, brackets=ids)


def _never(vocabulary_size: int, brackets: Brackets) -> Float32[Tensor, "turns V"]:
    """Return -inf for tokens that may not come at a turn, else 0."""
    never = torch.zeros(len(Action), vocabulary_size, device="cpu")
    never[:, [BEGIN, END]] = -torch.inf
    for turn in (Action.BEGIN, Action.HEAD, Action.FIRST):
        never[turn, brackets.close] = -torch.inf
    never[Action.HEAD, brackets.open] = -torch.inf
    never[Action.COMPLETE] = -torch.inf
    never[Action.COMPLETE, END] = 0
    return never


def to_state(model: TreeModel) -> tuple[Json, Arrays]:
    """Return the settings of the network, and its weights by name."""
    return {"network": settings_of(model.network.config)}, arrays_of(model.network)


def from_state(settings: Json, arrays: Arrays, vocabulary_size: int) -> TreeModel:
    """Return a model from what `to_state` returned; it uses the arrays without a copy. Raises ModelFormatError."""
    if settings.keys() != {"network"}:
        raise ModelFormatError(
            f"the fields of the settings are {', '.join(sorted(settings)) or 'missing'}; expected network"
        )
    config: TreeConfig = config_from_json(TreeConfig, without_ngram_memory(settings["network"]))
    check_layers(config.layers, arrays)
    return TreeModel(filled_network(lambda: TreeNetwork(config, vocabulary_size), arrays))
