"""From hidden states to tokens: softmax over all, or in clusters; and losses that sum over a few tokens in training.

<s> has no probability anywhere. Legend: (...) any positions, D width, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.cross_entropy import blocks, cross_entropy
from chainrule.neural.layers import product
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Sequence


class Output(Protocol):
    """What stands at the end of a network; an nn.Module."""

    def loss(
        self, hidden: Tensor, targets: Tensor, *, label_smoothing: float = 0.0, weights: Tensor | None = None
    ) -> Tensor:
        """What is minimised, summed over all positions: of a softmax, -log P(target) in nats.

        hidden: (..., D). targets: (...), int64. weights: (...), what each position counts; all 1 if left out.
        Raises SettingError where labels cannot be smoothed.
        """

    def log_probs(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V), float32: the whole distribution, whatever the loss in training was."""

    def log_probs_of(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """(..., D), (...) -> (...), float32: what `log_probs` has for some tokens, without holding the rest."""


class FullSoftmax(nn.Module):
    """softmax(U h + b) over the whole vocabulary."""

    def __init__(
        self, weight: nn.Parameter, *, bias: bool, ends: Sequence[int] = (), banned: Sequence[int] = ()
    ) -> None:
        """weight: (V, D), its own or that of the embedding. ends: tokens whose probability is counted to that of </s>.
        banned: tokens that have none, beside <s>. Raises SettingError where the vocabulary has no such tokens.
        """
        super().__init__()
        for token in (*ends, *banned):
            if token >= len(weight):
                raise SettingError(f"ends and banned name token {token}, but the vocabulary has {len(weight):,}")
        self.weight, self.ends = weight, list(ends)
        self.bias = nn.Parameter(torch.zeros(len(weight))) if bias else None
        self.register_buffer("never", _never(len(weight), BEGIN, *banned), persistent=False)

    def loss(
        self, hidden: Tensor, targets: Tensor, *, label_smoothing: float = 0.0, weights: Tensor | None = None
    ) -> Tensor:
        """As `Output.loss`."""
        flat, ids = hidden.flatten(0, -2), targets.flatten()
        counts = None if weights is None else weights.flatten()
        shift = self.shift
        if self.ends:  # training goes on with one token that ends texts
            shift = shift.index_fill(0, torch.tensor(self.ends, device=shift.device), -torch.inf)
        return cross_entropy(flat, self.weight, shift, ids, smoothing=label_smoothing, weights=counts)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """As `Output.log_probs`."""
        return self._logits(hidden).log_softmax(-1)

    def log_probs_of(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """As `Output.log_probs_of`."""
        flat, ids = hidden.flatten(0, -2), targets.flatten()
        found = torch.empty(len(flat), device=flat.device)
        for block in blocks(flat, len(self.weight)):
            logits = self._logits(flat[block])
            found[block] = logits.gather(1, ids[block, None])[:, 0] - logits.logsumexp(1)
        return found.view(targets.shape)

    def _logits(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V), float32."""
        logits = product(hidden, self.weight, self.shift).float()
        if self.ends:
            logits[..., END] = logits[..., [END, *self.ends]].logsumexp(-1)
            logits[..., self.ends] = -torch.inf
        return logits

    @property
    def shift(self) -> Tensor:
        """(V,): the bias, -inf for <s>."""
        assert isinstance(self.never, Tensor)
        return self.never if self.bias is None else self.never + self.bias


class SampledSoftmax(nn.Module):
    """A full softmax that is trained against few tokens, drawn for each batch; evaluated with the full sum.

    sampled: the target against all tokens that were drawn, each once, in one softmax; the logarithm of the chance to be
    drawn is taken from each logit, and a draw of the target itself is left out (Jean 2015). nce: each is told apart
    from noise by itself, the softmax's denominator being held to be 1 (Gutmann and Hyvärinen 2010, Mnih and Teh 2012).
    """

    def __init__(
        self, full: FullSoftmax, kind: Literal["sampled", "nce"], samples: int, counts: Tensor, power: float
    ) -> None:
        """counts: (V,), how often each token was seen; one more is added. power: of the counts, to draw by."""
        super().__init__()
        self.full, self.kind, self.samples = full, kind, samples
        noise = (counts.double() + 1) ** power
        noise[BEGIN] = 0
        self.register_buffer("noise", (noise / noise.sum()).float())

    def loss(
        self, hidden: Tensor, targets: Tensor, *, label_smoothing: float = 0.0, weights: Tensor | None = None
    ) -> Tensor:
        """As `Output.loss`; of the full softmax where the network is not in training."""
        if not self.training:
            return self.full.loss(hidden, targets, label_smoothing=label_smoothing, weights=weights)
        if label_smoothing:
            raise SettingError(f"labels cannot be smoothed with the output {self.kind}; leave one of them out")
        assert isinstance(self.noise, Tensor)
        flat, ids = hidden.flatten(0, -2), targets.flatten()
        drawn = torch.multinomial(self.noise, self.samples, replacement=True)
        expected = (self.noise * self.samples).log()
        if self.kind == "sampled":
            drawn = drawn.bincount().nonzero()[:, 0]
            expected = (-torch.expm1(self.samples * torch.log1p(-self.noise))).log()
        shift, weight = self.full.shift, self.full.weight
        right = (flat * F.embedding(ids, weight)).sum(1).float() + shift[ids] - expected[ids]  # (R,)
        wrong = F.linear(flat, F.embedding(drawn, weight)).float() + shift[drawn] - expected[drawn]  # (R, samples)
        if self.kind == "sampled":
            wrong = wrong.masked_fill(drawn == ids[:, None], -torch.inf)
            losses = torch.cat((right[:, None], wrong), 1).logsumexp(1) - right
        else:
            losses = F.softplus(-right) + F.softplus(wrong).sum(1)
        return losses.sum() if weights is None else (losses * weights.flatten()).sum()

    def log_probs(self, hidden: Tensor) -> Tensor:
        """As `Output.log_probs`."""
        return self.full.log_probs(hidden)

    def log_probs_of(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """As `Output.log_probs_of`."""
        return self.full.log_probs_of(hidden, targets)


class AdaptiveSoftmax(nn.Module):
    """Grave et al. 2017: a softmax over the frequent tokens and the clusters of the others; in a cluster, one over its
    tokens, with a quarter of the width of the cluster before it.
    """

    def __init__(self, width: int, counts: Tensor, cutoffs: Sequence[int]) -> None:
        """counts: (V,), how often each token was seen. cutoffs: the ranks at which clusters begin, rising.

        Raises SettingError where one is not inside the vocabulary.
        """
        super().__init__()
        size = len(counts)
        if not cutoffs or cutoffs[-1] >= size:
            raise SettingError(f"cutoffs {tuple(cutoffs)} must lie inside the vocabulary of {size} tokens; lower them")
        frequency = counts.double()
        frequency[BEGIN] = torch.inf  # rank 0 is that of <s>
        order = frequency.argsort(descending=True, stable=True)
        self.register_buffer("ranks", torch.empty_like(order).scatter_(0, order, torch.arange(size)))
        self.cutoffs = [*cutoffs, size]
        self.head = nn.Linear(width, cutoffs[0] + len(cutoffs), bias=False)
        self.register_buffer("never", _never(len(self.head.weight), 0), persistent=False)
        widths = [max(1, width // 4 ** (i + 1)) for i in range(len(cutoffs))]
        self.projections = nn.ModuleList(nn.Linear(width, narrow, bias=False) for narrow in widths)
        sizes = [b - a for a, b in zip(self.cutoffs, self.cutoffs[1:], strict=False)]
        self.tails = nn.ModuleList(nn.Linear(narrow, n, bias=False) for narrow, n in zip(widths, sizes, strict=True))

    def loss(
        self, hidden: Tensor, targets: Tensor, *, label_smoothing: float = 0.0, weights: Tensor | None = None
    ) -> Tensor:
        """As `Output.loss`."""
        if label_smoothing:
            raise SettingError("labels cannot be smoothed with the output adaptive; leave one of them out")
        flat, ranks, heads = self._heads(hidden, targets)
        counts = None if weights is None else weights.flatten()
        total = cross_entropy(flat, self.head.weight, self._shift, heads, weights=counts)
        for i, inside in self._clusters(ranks):
            weight, chosen = self._tail(i), None if counts is None else counts[inside]
            ids = ranks[inside] - self.cutoffs[i]
            total = total + cross_entropy(self.projections[i](flat[inside]), weight, None, ids, weights=chosen)
        return total

    def log_probs(self, hidden: Tensor) -> Tensor:
        """As `Output.log_probs`."""
        first = self.cutoffs[0]
        head = F.linear(hidden, self.head.weight, self._shift).float().log_softmax(-1)
        parts = [head[..., :first]]
        for i, (projection, tail) in enumerate(zip(self.projections, self.tails, strict=True)):
            parts.append(tail(projection(hidden)).float().log_softmax(-1) + head[..., first + i, None])
        return torch.cat(parts, -1)[..., self._ranks]

    def log_probs_of(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """As `Output.log_probs_of`."""
        flat, ranks, heads = self._heads(hidden, targets)
        found = _picked(flat, self.head.weight, self._shift, heads)
        for i, inside in self._clusters(ranks):
            ids = ranks[inside] - self.cutoffs[i]
            found[inside] += _picked(self.projections[i](flat[inside]), self._tail(i), None, ids)
        return found.view(targets.shape)

    def _heads(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Positions in a row, the ranks of their targets, and where these are in the head."""
        ranks = self._ranks[targets.flatten()]
        cuts = torch.tensor(self.cutoffs[:-1], device=ranks.device)
        cluster = torch.bucketize(ranks, cuts, right=True)
        return hidden.flatten(0, -2), ranks, torch.where(cluster == 0, ranks, self.cutoffs[0] + cluster - 1)

    def _clusters(self, ranks: Tensor) -> list[tuple[int, Tensor]]:
        """The clusters that are met, with the positions of their tokens."""
        bounds = zip(self.cutoffs, self.cutoffs[1:], strict=False)
        positions = [((ranks >= low) & (ranks < high)).nonzero()[:, 0] for low, high in bounds]
        return [(i, inside) for i, inside in enumerate(positions) if len(inside)]

    def _tail(self, cluster: int) -> Tensor:
        return cast("Tensor", self.tails[cluster].weight)

    @property
    def _ranks(self) -> Tensor:
        assert isinstance(self.ranks, Tensor)
        return self.ranks

    @property
    def _shift(self) -> Tensor:
        assert isinstance(self.never, Tensor)
        return self.never


def _picked(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """log softmax(W h + b)[target] of each position, (R,)."""
    found = torch.empty(len(hidden), device=hidden.device)
    for block in blocks(hidden, len(weight)):
        logits = F.linear(hidden[block], weight, bias).float()
        found[block] = logits.gather(1, targets[block, None])[:, 0] - logits.logsumexp(1)
    return found


def _never(size: int, *which: int) -> Tensor:
    """Zeros, and -inf for what has no probability. Always real, so that a network can be made without its numbers."""
    never = torch.zeros(size, device="cpu")
    never[list(which)] = -torch.inf
    return never
