"""A network that predicts trees from the root down: an LSTM whose states go on not from left to right, but in the tree.

A child's word is read after those of its elder siblings, as in any LSTM. An opening bracket begins the children of a
node; the closing one goes on from the state before the opening one, and reads the node's head. So each state knows the
nodes above, and the elder siblings of all these. All states whose predecessors are known are computed at once, those
of all trees of a batch: one gather and one product a level.
Legend: N states of a batch, n of a level, D width, L layers, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.cross_entropy import blocks, cross_entropy
from chainrule.neural.dropout import dropped
from chainrule.neural.layers import Embedding
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.structures.linearized import CLOSE, OPEN, Brackets, Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32, Int64

    from chainrule.neural.config.tree import TreeConfig
    from chainrule.structures.linearized import TreeSteps
    from chainrule.text.tokenization.tokenizer import Tokenizer


class TreeLSTMLayer(nn.Module):
    """An LSTM (Hochreiter and Schmidhuber 1997) of states that form a tree; of a chain, it is torch's.

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
        """h and c after those before. own: W x + b."""
        i, f, g, o = (own + self.before(h)).float().chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, x: Float[Tensor, "N D"], levels: Levels) -> Float[Tensor, "N D"]:
        """x: by level."""
        h = c = x.new_zeros(1, x.shape[1])
        hidden = []
        for own, before in zip(torch.split(self.own(x), levels.sizes), levels.before, strict=True):
            h, c = self.step(own, h[before], c[before])
            hidden.append(h)
        return torch.cat(hidden)


class Levels(NamedTuple):
    """States in the order in which they are computed. before: of the states of each level, the predecessor in the one
    before; in the first level, 0. order: the states by level.
    """

    sizes: list[int]
    before: list[Int64[Tensor, " n"]]
    order: Int64[Tensor, " N"]


class TreeNetwork(nn.Module):
    """Vectors of tokens, layers, and a softmax over what may come next."""

    def __init__(self, config: TreeConfig, vocabulary_size: int) -> None:
        """Raises SettingError where the vocabulary has no such brackets."""
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
        """The hidden vectors of all states, tree by tree."""
        levels = self._levels(trees)
        tokens, heads = (np.concatenate([tree[i] for tree in trees]) for i in (0, 2))
        x = self.read(*(torch.from_numpy(array).to(self.device)[levels.order] for array in (tokens, heads)))
        for layer in self.layers:
            x = layer(dropped(x, self.config.dropout, self.training), levels)
        return dropped(torch.empty_like(x).index_copy(0, levels.order, x), self.config.dropout, self.training)

    def read(self, tokens: Int64[Tensor, " n"], heads: Int64[Tensor, " n"]) -> Float[Tensor, "n D"]:
        """The vectors of tokens; that of a closing bracket plus its node's head's."""
        return cast("Tensor", self.embedding(tokens) + self.embedding(heads.clamp(min=0)) * (heads >= 0)[:, None])

    def loss(
        self,
        hidden: Float[Tensor, "N D"],
        turns: Int64[np.ndarray, " N"],
        targets: Int64[Tensor, " N"],
        *,
        label_smoothing: float = 0.0,
    ) -> Float32[Tensor, ""]:
        """-log P of what comes next after each state, in nats, summed; the end of a complete tree is sure."""
        total = hidden.new_zeros((), dtype=torch.float32)
        for turn in (Turn.BEGIN, Turn.HEAD, Turn.FIRST, Turn.MORE):
            own = torch.from_numpy(np.flatnonzero(turns == turn)).to(self.device)
            if len(own):
                total = total + cross_entropy(
                    hidden[own], self.output_weight, self.output_bias + self._banned[turn], targets[own],
                    smoothing=label_smoothing,
                )  # fmt: skip
        return total

    def log_probs(self, hidden: Float[Tensor, "n D"], turns: Int64[Tensor, " n"]) -> Float32[Tensor, "n V"]:
        """log P of each token after states, in nats."""
        logits = torch.nn.functional.linear(hidden, self.output_weight, self.output_bias).float()
        return (logits + self._banned[turns]).log_softmax(1)

    def log_probs_of(
        self, hidden: Float[Tensor, "n D"], turns: Int64[Tensor, " n"], targets: Int64[Tensor, " n"]
    ) -> Float32[Tensor, "n 2"]:
        """log P of a target after each state, and of <unk>."""
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
        """Those of the layers."""
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
    """The configuration with the ids of ( and ). Raises SettingError where the vocabulary has none."""
    ids = tokenizer.vocabulary.id_of(OPEN), tokenizer.vocabulary.id_of(CLOSE)
    if UNKNOWN in ids:
        raise SettingError(
            "the text has no brackets, so it is none of trees; give a Treebank, with the whitespace tokenizer"
        )
    return replace(config, brackets=ids)


def _never(vocabulary_size: int, brackets: Brackets) -> Float32[Tensor, "turns V"]:
    """-inf for tokens that may not come at a turn, else 0."""
    never = torch.zeros(len(Turn), vocabulary_size, device="cpu")
    never[:, [BEGIN, END]] = -torch.inf
    for turn in (Turn.BEGIN, Turn.HEAD, Turn.FIRST):
        never[turn, brackets.close] = -torch.inf
    never[Turn.HEAD, brackets.open] = -torch.inf
    never[Turn.COMPLETE] = -torch.inf
    never[Turn.COMPLETE, END] = 0
    return never
