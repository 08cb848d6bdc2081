"""From hidden states to tokens: softmax over the vocabulary or in clusters, and sampled losses.

<s> never has a probability.
Legend: *shape positions of any shape, R positions, D width, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.layers.basic import pause, softly_capped, weighted_sum
from chainrule.neural.layers.cross_entropy import EVEN, blocks, cross_entropy
from chainrule.neural.layers.matrix_products import log_softmax, log_softmax_at, product, product_log_softmax_at
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float, Float32, Int64

    from chainrule.neural.layers.cross_entropy import IntoGradient, KnownLogProbs


class Output(Protocol):
    """The last layer of a network; an nn.Module."""

    def loss(
        self,
        hidden: Float[Tensor, "*shape D"],
        targets: Int64[Tensor, "*shape"],
        *,
        label_smoothing: float = 0.0,
        weights: Float[Tensor, "*shape"] | None = None,
    ) -> Float32[Tensor, ""]:
        """Return the training loss, summed over all positions; for a softmax, -log P(target) in nats.

        weights: (R,), of the positions; None if all are 1. Raises SettingError if this output cannot smooth labels.
        """

    def log_probs(self, hidden: Float[Tensor, "*shape D"]) -> Float32[Tensor, "*shape V"]:
        """Return the log-probabilities of the whole vocabulary, (*shape, V), whatever the training loss is."""

    def log_probs_of(
        self, hidden: Float[Tensor, "*shape D"], targets: Int64[Tensor, "*shape *tokens"]
    ) -> Float32[Tensor, "*shape *tokens"]:
        """Return the log-probabilities of one token at each position, or of several (a last dimension)."""


class NoOutput(nn.Module):
    """The output of a network that predicts nothing, but gives vectors."""

    def loss(self, *arguments: Any, **keywords: Any) -> NoReturn:
        """Raise SettingError, as all methods of `Output` do."""
        raise SettingError("this network has no output layer, so it predicts no tokens; it gives vectors")

    log_probs = log_probs_of = loss


class FullSoftmax(nn.Module):
    """softmax(U h + b) over the whole vocabulary; logits may be scaled, and softly kept within a cap."""

    never: Tensor  # (V,)

    def __init__(
        self,
        weight: nn.Parameter,
        *,
        bias: bool,
        ends: Sequence[int] = (),
        banned: Sequence[int] = (),
        transform: nn.Module | None = None,
        scale: float = 1.0,
        cap: float | None = None,
    ) -> None:
        """Store the weights of the output. weight: (V, D), the output's own or the embedding's. ends: tokens whose
        probability is added to that of </s>. banned: tokens without a probability, besides <s>. transform: applied to
        hidden states before the product. scale: the factor of logits. cap: logits l become cap tanh(l / cap). Raises
        SettingError if the vocabulary has no such tokens.
        """
        super().__init__()
        for token in (*ends, *banned):
            if token >= len(weight):
                raise SettingError(f"ends and banned name token {token}, but the vocabulary has {len(weight):,}")
        self.weight, self.ends, self.transform, self.scale, self.cap = weight, list(ends), transform, scale, cap
        self.bias = nn.Parameter(torch.zeros(len(weight))) if bias else None
        self.register_buffer("never", _never(len(weight), BEGIN, *banned), persistent=False)

    def loss(
        self,
        hidden: Float[Tensor, "*shape D"],
        targets: Int64[Tensor, "*shape"],
        *,
        label_smoothing: float = 0.0,
        weights: Float[Tensor, "*shape"] | None = None,
        known: KnownLogProbs | None = None,
        taught: IntoGradient | None = None,
    ) -> Float32[Tensor, ""]:
        """Implement `Output.loss`. known, taught: as for `cross_entropy`, at the flat positions."""
        flat, ids = self._transformed(hidden).flatten(0, -2), targets.flatten()
        counts = None if weights is None else weights.flatten()
        shift = self.shift
        if self.ends:  # further training uses a single token that ends texts
            shift = shift.index_fill(0, torch.tensor(self.ends, device=shift.device), -torch.inf)
        own = (flat, self.weight, shift, ids)
        return cross_entropy(*own, smoothing=label_smoothing, weights=counts, cap=self.cap, known=known, taught=taught)

    def log_probs(self, hidden: Float[Tensor, "*shape D"]) -> Float32[Tensor, "*shape V"]:
        """Implement `Output.log_probs`."""
        return log_softmax(self.logits(hidden))

    def log_probs_of(
        self, hidden: Float[Tensor, "*shape D"], targets: Int64[Tensor, "*shape *tokens"]
    ) -> Float32[Tensor, "*shape *tokens"]:
        """Implement `Output.log_probs_of`."""
        flat, count = hidden.flatten(0, -2), targets.shape[hidden.dim() - 1 :].numel()
        ids = targets.reshape(len(flat), count)
        is_plain = self.cap is None and not self.ends and self.transform is None
        found = product_log_softmax_at(self._transformed(flat), self.weight, self.shift, ids) if is_plain else None
        return (_log_probs_at(self.logits, len(self.never), flat, ids) if found is None else found).view(targets.shape)

    def logits(self, hidden: Float[Tensor, "*shape D"], *, banned: bool = False) -> Float32[Tensor, "*shape V"]:
        """Return all logits; -inf of tokens without a probability, unless `banned` lets them have theirs."""
        logits = product(self._transformed(hidden), self.weight, self.bias if banned else self.shift).float()
        if self.cap is not None:
            logits = softly_capped(logits, self.cap)
        if self.ends:
            logits[..., END] = logits[..., [END, *self.ends]].logsumexp(-1)
            logits[..., self.ends] = -torch.inf
        return logits

    def _transformed(self, hidden: Tensor) -> Tensor:
        hidden = hidden if self.transform is None else cast("Tensor", self.transform(hidden))
        return hidden if self.scale == 1 else hidden * self.scale

    @property
    def shift(self) -> Float[Tensor, " V"]:
        """The bias, with -inf for <s>."""
        return self.never if self.bias is None else self.never + self.bias


class SampledSoftmax(nn.Module):
    """A full softmax that is trained against a few tokens sampled for each batch, and evaluated with the full sum.

    sampled: a softmax over the target and the distinct sampled tokens, each logit minus the log of the probability of
    being sampled; the target is removed from the samples (Jean et al. 2015). nce: a binary decision
    between each token and noise, with the softmax's denominator taken to be 1 (Gutmann and Hyvärinen 2010, Mnih and
    Teh 2012).
    """

    noise: Tensor  # (V,)

    def __init__(
        self,
        full: FullSoftmax,
        kind: Literal["sampled", "nce"],
        samples: int,
        counts: Float[Tensor, " V"],
        power: float,
    ) -> None:
        """Prepare the noise distribution. counts: how often each token occurs in the training text; 1 is added. power:
        the exponent of the counts in the noise distribution.
        """
        super().__init__()
        self.full, self.kind, self.samples = full, kind, samples
        noise = (counts.double() + 1) ** power
        noise[BEGIN] = 0
        self.register_buffer("noise", (noise / noise.sum()).float())

    def loss(
        self,
        hidden: Float[Tensor, "*shape D"],
        targets: Int64[Tensor, "*shape"],
        *,
        label_smoothing: float = 0.0,
        weights: Float[Tensor, "*shape"] | None = None,
    ) -> Float32[Tensor, ""]:
        """Implement `Output.loss`; outside of training, the loss of the full softmax."""
        if not self.training:
            return self.full.loss(hidden, targets, label_smoothing=label_smoothing, weights=weights)
        if label_smoothing:
            raise SettingError(
                f"label_smoothing does not work with the output {self.kind}; leave it out, or set output to full"
            )
        flat, ids, weight = hidden.flatten(0, -2), targets.flatten(), self.full.weight
        counts = torch.ones_like(ids) if weights is None else weights.flatten()
        drawn = torch.multinomial(self.noise, self.samples, replacement=True)
        if self.kind == "nce":
            shift = self.full.shift - (self.noise * self.samples).log()
            target = (flat * F.embedding(ids, weight)).sum(1).float() + shift[ids]  # (R,)
            logits = F.linear(flat, F.embedding(drawn, weight)).float() + shift[drawn]  # (R, samples)
            return weighted_sum(F.softplus(-target) + F.softplus(logits).sum(1), counts)
        chance = -torch.expm1(self.samples * torch.log1p(-self.noise))
        shift = (self.full.shift - chance.log()).index_fill(0, torch.tensor(BEGIN, device=chance.device), -torch.inf)
        places = torch.full_like(shift, -1, dtype=torch.int64)  # among those drawn
        drawn = drawn.bincount(minlength=len(weight)).nonzero()[:, 0]
        places[drawn] = torch.arange(len(drawn), device=places.device)
        is_drawn = places[ids] >= 0
        own, others = is_drawn.nonzero()[:, 0], (~is_drawn).nonzero()[:, 0]
        of_others = _even(counts[others])  # what fills up has weight 0, and <s> no probability
        drawn, others = _even(drawn, BEGIN), _even(others)
        rows = F.embedding(torch.cat((drawn, ids[others])), weight)  # at once: each call has a whole gradient
        noise, wanted = rows[: len(drawn)], rows[len(drawn) :]
        total = cross_entropy(flat[own], noise, shift[drawn], places[ids[own]], weights=counts[own])
        target = (flat[others] * wanted).sum(1).float() + shift[ids[others]]
        logits = F.linear(flat[others], noise).float() + shift[drawn]
        return total + weighted_sum(torch.cat((target[:, None], logits), 1).logsumexp(1) - target, of_others)

    def log_probs(self, hidden: Float[Tensor, "*shape D"]) -> Float32[Tensor, "*shape V"]:
        """Implement `Output.log_probs`."""
        return self.full.log_probs(hidden)

    def log_probs_of(
        self, hidden: Float[Tensor, "*shape D"], targets: Int64[Tensor, "*shape *tokens"]
    ) -> Float32[Tensor, "*shape *tokens"]:
        """Implement `Output.log_probs_of`."""
        return self.full.log_probs_of(hidden, targets)


def _even(numbers: Tensor, value: int = 0) -> Tensor:
    """Return numbers, filled up: oneDNN prepares a product for each new number of rows, and keeps it."""
    return F.pad(numbers, (0, -len(numbers) % EVEN), value=value)


class AdaptiveSoftmax(nn.Module):
    """Grave et al. 2017: a softmax over frequent tokens and clusters of rarer ones, then one within the cluster.

    Each cluster has a quarter of the width of the one before it.
    """

    ranks: Tensor  # (V,)
    never: Tensor  # of the head

    def __init__(self, width: int, counts: Float[Tensor, " V"], cutoffs: Sequence[int]) -> None:
        """Build the head and the clusters. counts: of each token in the training text. cutoffs: the ranks at which
        clusters begin, rising.

        Raises SettingError if a cutoff is outside the vocabulary.
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
        self,
        hidden: Float[Tensor, "*shape D"],
        targets: Int64[Tensor, "*shape"],
        *,
        label_smoothing: float = 0.0,
        weights: Float[Tensor, "*shape"] | None = None,
    ) -> Float32[Tensor, ""]:
        """Implement `Output.loss`."""
        if label_smoothing:
            raise SettingError(
                "label_smoothing does not work with an adaptive output; leave it out, or set output to full"
            )
        flat, ranks, heads = self._heads(hidden, targets)
        counts = None if weights is None else weights.flatten()
        total = cross_entropy(flat, self.head.weight, self.never, heads, weights=counts)
        for i, inside in self._clusters(ranks):
            weight, chosen = self._tail(i), None if counts is None else counts[inside]
            ids = ranks[inside] - self.cutoffs[i]
            total = total + cross_entropy(self.projections[i](flat[inside]), weight, None, ids, weights=chosen)
        return total

    def log_probs(self, hidden: Float[Tensor, "*shape D"]) -> Float32[Tensor, "*shape V"]:
        """Implement `Output.log_probs`."""
        first = self.cutoffs[0]
        head = log_softmax(F.linear(hidden, self.head.weight, self.never).float())
        parts = [head[..., :first]]
        for i, (projection, tail) in enumerate(zip(self.projections, self.tails, strict=True)):
            parts.append(log_softmax(tail(projection(hidden)).float()) + head[..., first + i, None])
        return torch.cat(parts, -1)[..., self.ranks]

    def log_probs_of(
        self, hidden: Float[Tensor, "*shape D"], targets: Int64[Tensor, "*shape *tokens"]
    ) -> Float32[Tensor, "*shape *tokens"]:
        """Implement `Output.log_probs_of`."""
        flat, ranks, heads = self._heads(hidden, targets)
        shape = len(flat), targets.shape[hidden.dim() - 1 :].numel()
        log_probs = _target_log_probs(flat, self.head.weight, self.never, heads.view(shape))
        for column, own in enumerate(ranks.view(shape).unbind(1)):
            for i, inside in self._clusters(own):
                narrow, ids = self.projections[i](flat[inside]), own[inside, None] - self.cutoffs[i]
                log_probs[inside, column] += _target_log_probs(narrow, self._tail(i), None, ids)[:, 0]
        return log_probs.view(targets.shape)

    def _heads(
        self, hidden: Float[Tensor, "*shape D"], targets: Int64[Tensor, "*shape *tokens"]
    ) -> tuple[Float[Tensor, "R D"], Int64[Tensor, " targets"], Int64[Tensor, " targets"]]:
        """Return the flat hidden states, the ranks of the targets, and their classes in the head."""
        ranks = self.ranks[targets.flatten()]
        cuts = torch.tensor(self.cutoffs[:-1], device=ranks.device)
        cluster = torch.bucketize(ranks, cuts, right=True)
        return hidden.flatten(0, -2), ranks, torch.where(cluster == 0, ranks, self.cutoffs[0] + cluster - 1)

    def _clusters(self, ranks: Int64[Tensor, " R"]) -> list[tuple[int, Int64[Tensor, " tokens"]]]:
        """Return the clusters that occur, each with the positions of its tokens."""
        bounds = zip(self.cutoffs, self.cutoffs[1:], strict=False)
        positions = [((ranks >= low) & (ranks < high)).nonzero()[:, 0] for low, high in bounds]
        return [(i, inside) for i, inside in enumerate(positions) if len(inside)]

    def _tail(self, cluster: int) -> Tensor:
        return cast("Tensor", self.tails[cluster].weight)


def _target_log_probs(
    hidden: Float[Tensor, "R D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int64[Tensor, "R tokens"],
) -> Float32[Tensor, "R tokens"]:
    """Return log softmax(W h + b) of some tokens at each position."""
    found = product_log_softmax_at(hidden, weight, bias, targets)
    return _log_probs_at(lambda x: F.linear(x, weight, bias), len(weight), hidden, targets) if found is None else found


def _log_probs_at(
    logits: Callable[[Tensor], Tensor], size: int, hidden: Float[Tensor, "R D"], targets: Int64[Tensor, "R tokens"]
) -> Float32[Tensor, "R tokens"]:
    """Return the log-softmax of the logits at some tokens, some positions at a time. size: that of the vocabulary."""
    log_probs = [torch.empty(0, targets.shape[1], device=hidden.device)]
    for block in blocks(hidden, size):
        log_probs.append(log_softmax_at(logits(hidden[block]).float(), targets[block]))
        pause()
    return torch.cat(log_probs)


def _never(size: int, *which: int) -> Tensor:
    """Return zeros, but -inf for tokens without probability. Never on meta, the device where loading builds."""
    never = torch.zeros(size, device="cpu")
    never[list(which)] = -torch.inf
    return never
