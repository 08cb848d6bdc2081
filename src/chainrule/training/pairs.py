"""The objective of a conditional model: the tokens of a target, given its source.

Pairs of about the same length make a step, and each step has about as many tokens.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from chainrule.errors import SettingError, TextError
from chainrule.neural.conditional import ConditionalNetwork, build_conditional
from chainrule.neural.conditional_model import Bound
from chainrule.neural.config import settings_of
from chainrule.neural.scoring_batches import padded, rounded_up
from chainrule.protocol import END
from chainrule.training.defaults import conditional_recipe, conditional_settled
from chainrule.training.initial_vectors import set_rows
from chainrule.training.job import TrainingJob
from chainrule.training.objective import Validated
from chainrule.training.scheduled_sampling import own_guesses, own_guesses_at_once
from chainrule.training.validation import unigram_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.config.conditional import ConditionalConfig
    from chainrule.training.config import TrainingConfig
    from chainrule.training.job import Setup
    from chainrule.training.options import InitialVectors

    Tokens = Int32[ndarray, " tokens"]

_VALIDATED_AT_ONCE = 1 << 13  # tokens
_ROWS = 8


class SideVectors(NamedTuple):
    """Vectors that those of tokens begin as, of sources and of targets."""

    sources: InitialVectors | None = None
    targets: InitialVectors | None = None


NO_VECTORS = SideVectors()


class TokenPairs(NamedTuple):
    """sources, targets: ids without markers, as many."""

    sources: Sequence[Tokens]
    targets: Sequence[Tokens]

    def predicted(self) -> int:
        """Tokens of all targets, </s> counted."""
        return sum(len(target) + 1 for target in self.targets)

    def first(self, tokens: int) -> TokenPairs:
        """As many of the first pairs as have no more tokens to predict; one at least, where there are any."""
        sizes = np.cumsum([len(target) + 1 for target in self.targets])
        number = max(1, int(np.searchsorted(sizes, tokens, "right")))
        return TokenPairs(self.sources[:number], self.targets[:number])

    def sample(self, tokens: int) -> TokenPairs:
        """Pairs with about so many tokens to predict, evenly spaced, one at least; all where these are no more."""
        whole, number = self.predicted(), len(self.targets)
        if tokens >= whole:
            return self
        chosen = np.arange(max(1, number * tokens // whole))
        places = (chosen * number // chosen.size).tolist()
        return TokenPairs([self.sources[i] for i in places], [self.targets[i] for i in places])

    def digest(self) -> str:
        """What tells these pairs from others."""
        digest = hashlib.sha256()
        for side in self:
            for row in side:
                digest.update(np.append(row, END).astype(np.int32).tobytes())
        return digest.hexdigest()[:16]


class Part(NamedTuple):
    """Some pairs of a step: all (B, S) or (B, T), and True in `seen` and `wanted` where there is a token."""

    sources: Tensor
    seen: Tensor
    inputs: Tensor
    targets: Tensor
    wanted: Tensor


class Buckets:
    """Which pairs make which step: a pure function of its number.

    Pairs are sorted by length, those of the same lengths by chance, and cut into buckets of about as many tokens; so
    each epoch has buckets of the same lengths, in another order. Lengths are rounded up, and rows mostly a multiple of
    8, so that there are few shapes.
    """

    def __init__(
        self, sources: Int64[ndarray, " pairs"], targets: Int64[ndarray, " pairs"], tokens: int, least: int, seed: int
    ) -> None:
        """sources, targets: lengths. tokens: of both sides, filled up, in a bucket. least: pairs in one."""
        read, written = (np.array([rounded_up(length) for length in side.tolist()]) for side in (sources, targets))
        self.lengths, self.seed = np.stack((sources, targets, read, written)), seed
        order = np.lexsort(self.lengths)
        starts, longest = [0], 0
        for place, pair in enumerate(order.tolist()):
            longest = max(longest, int(read[pair]))
            rows = place + 1 - starts[-1]
            if rows > least and rows * (longest + int(written[pair])) > tokens:
                fitting = rows - 1
                starts.append(starts[-1] + max(least, fitting - fitting % _ROWS if fitting > _ROWS else fitting))
                longest = int(read[order[starts[-1] : place + 1]].max())
        if len(starts) > 1 and order.size - starts[-1] < least:
            del starts[-1]
        self.edges = np.array([*starts, order.size])
        self.sizes = np.add.reduceat(targets[order], starts)  # tokens predicted in each bucket
        self._plans: dict[int, tuple[Int64[ndarray, " pairs"], Int64[ndarray, " buckets"]]] = {}

    def __len__(self) -> int:
        """Steps of an epoch."""
        return self.edges.size - 1

    def pairs(self, step: int) -> Int64[ndarray, " pairs"]:
        """Those of a step."""
        order, buckets = self._plan(step // len(self))
        bucket = buckets[step % len(self)]
        return order[self.edges[bucket] : self.edges[bucket + 1]]

    def tokens(self, steps: int) -> int:
        """Predicted in the first so many steps."""
        epochs, rest = divmod(steps, len(self))
        return int(epochs * self.sizes.sum() + (self.sizes[self._plan(epochs)[1][:rest]].sum() if rest else 0))

    def _plan(self, epoch: int) -> tuple[Int64[ndarray, " pairs"], Int64[ndarray, " buckets"]]:
        """The order of the pairs, and of the buckets."""
        if epoch not in self._plans:
            chance = np.random.default_rng([self.seed, epoch])
            order = chance.permutation(self.edges[-1])
            order = order[np.lexsort(self.lengths[:, order])]
            self._plans = {epoch: (order, chance.permutation(len(self)))}
        return self._plans[epoch]


def pairs_job(
    pairs: TokenPairs,
    validation: TokenPairs | None,
    sizes: tuple[int, int],
    config: ConditionalConfig,
    training: TrainingConfig,
    origin: dict[str, Any],
    vectors: SideVectors = NO_VECTORS,
) -> TrainingJob[ConditionalNetwork]:
    """A conditional model that is to be trained on pairs.

    sizes: of the vocabularies of sources and targets. vectors: what those of tokens begin as, side by side; where both
    sides share theirs, those of targets come last. Raises TextError, SettingError.
    """
    if not pairs.targets:
        raise TextError("there are no pairs to learn from; at least one is needed")
    training = conditional_settled(training)
    recipe = conditional_recipe(config, training)
    if training.label_smoothing and config.attention == "hard":
        raise SettingError("label_smoothing does not work with hard attention; leave one of them out")
    return TrainingJob(
        training=training,
        recipe=recipe,
        network=settings_of(config),
        text={
            **origin,
            "tokens": pairs.predicted(),
            "ids": pairs.digest(),
            "validation_tokens": None if validation is None else validation.predicted(),
            "validation": None if validation is None else validation.digest(),
            "vocabulary": list(sizes),
        },
        build=lambda: _with_vectors(build_conditional(config, *sizes), vectors),
        matrices=ConditionalNetwork.matrices,
        objective=lambda network, setup: GivenSource(network, setup, pairs, validation),
        step=f"about {recipe.batch} pairs",
        smaller="batch or width",
    )


def _with_vectors(network: ConditionalNetwork, vectors: SideVectors) -> ConditionalNetwork:
    for embedding, initial in zip((network.source_embedding, network.embedding), vectors, strict=True):
        if initial is not None:
            set_rows(embedding.weight, initial, "width")
    return network


class GivenSource:
    """An Objective: -log P(token of the target | those before it, the source).

    A step holds as many tokens as `batch` pairs of middling length.
    """

    def __init__(
        self, network: ConditionalNetwork, setup: Setup, pairs: TokenPairs, validation: TokenPairs | None
    ) -> None:
        self.network, self.setup, self.learnt, self.validation = network, setup, pairs, validation
        sources, targets = (np.array([len(row) + 1 for row in side], np.int64) for side in pairs)
        self.shares = setup.processes.number * setup.training.accumulate
        if len(targets) < self.shares:
            raise SettingError(f"{len(targets)} pairs cannot be shared among {self.shares} parts of a step")
        middling = float(sources.mean() + targets.mean())
        self.buckets = Buckets(sources, targets, int(setup.recipe.batch * middling), self.shares, setup.training.seed)
        self.epoch = pairs.predicted()
        hidden = sum(weight.numel() for weight in network.matrices())
        self.flops_per_token = 6.0 * (hidden + network.output.weight.numel())
        self.row_tokens = self.epoch / len(pairs.targets)
        self.validation_tokens = 0 if validation is None else validation.predicted()

    def tokens(self, steps: int) -> int:
        return self.buckets.tokens(steps)

    def parts(self, step: int) -> list[Part]:
        chosen, rank, number = self.buckets.pairs(step), self.setup.processes.rank, self.setup.training.accumulate
        return [self._part(self.learnt, chosen[rank * number + part :: self.shares]) for part in range(number)]

    def weight(self, step: int) -> float:
        return self.tokens(step + 1) - self.tokens(step)

    def loss(self, number: int, part: Part, forward: Callable[..., Any], done: float) -> Tensor:
        training, inputs = self.setup.training, part.inputs
        if training.forcing != "teacher":
            inputs = self._own_guesses(part, 1.0 if training.forcing == "student" else done)
        hidden = forward(part.sources, part.seen, inputs)
        return self.network.output.loss(
            hidden[part.wanted], part.targets[part.wanted], label_smoothing=training.label_smoothing
        )

    @torch.no_grad()
    def _own_guesses(self, part: Part, share: float) -> Tensor:
        """What is read in place of the target. Recurrent decoders step; others guess all places after the target
        (Mihaylova and Martins 2019).
        """
        if self.network.config.is_recurrent(self.network.config.decoder):
            bound = Bound(self.network, self.network.read(part.sources, part.seen))
            state = bound.start(len(part.inputs))
            return own_guesses(
                lambda tokens, state: bound(bound.embed(tokens), state), bound.output, part.inputs, state, share
            )
        hidden = self.network(part.sources, part.seen, part.inputs)
        return own_guesses_at_once(self.network.output.log_probs(hidden), part.inputs, share)

    def carried(self) -> list[Tensor]:
        return []

    def carry(self, tensors: list[Tensor]) -> None:
        pass

    @torch.no_grad()
    def validated(self, tokens: int) -> Validated:
        assert self.validation is not None
        pairs = self.validation.sample(tokens)
        sources, targets = (np.array([len(row) + 1 for row in side], np.int64) for side in pairs)
        buckets, total = Buckets(sources, targets, _VALIDATED_AT_ONCE, 1, 0), torch.zeros(1, dtype=torch.float64)
        for step in range(self.setup.processes.rank, len(buckets), self.setup.processes.number):
            part = self._part(pairs, buckets.pairs(step))
            with self.setup.machine.precision():
                hidden = self.network(part.sources, part.seen, part.inputs)
                total += self.network.output.loss(hidden[part.wanted], part.targets[part.wanted]).double().cpu()
        self.setup.processes.add([total])
        predicted = int(targets.sum())
        return Validated(float(total) / predicted, predicted, {"pairs": len(self.validation.targets)})

    def unigram_loss(self) -> float:
        assert self.validation is not None
        learnt, held = (
            np.concatenate([np.append(row, END) for row in pairs.targets]) for pairs in (self.learnt, self.validation)
        )
        return unigram_loss(np.bincount(learnt, minlength=self.network.vocabulary_size), held)

    def _part(self, pairs: TokenPairs, chosen: Int64[ndarray, " pairs"]) -> Part:
        sources = [np.append(pairs.sources[i], END) for i in chosen.tolist()]
        targets = [np.append(pairs.targets[i], END) for i in chosen.tolist()]
        inputs = [np.append([END], target[:-1]) for target in targets]
        read, written = _length(sources, self.network.config.max_source), _length(targets)
        return Part(
            *(
                torch.from_numpy(each).to(self.setup.machine.device, non_blocking=True)
                for each in (
                    padded(sources, END, length=read),
                    _filled(sources, read),
                    padded(inputs, END, length=written),
                    padded(targets, END, length=written),
                    _filled(targets, written),
                )
            )
        )


def _length(rows: Sequence[Tokens], most: int | None = None) -> int:
    """What rows are filled up to: no more than `most`, unless they are longer."""
    longest = max(map(len, rows))
    return rounded_up(longest) if most is None else max(longest, min(rounded_up(longest), most))


def _filled(rows: Sequence[Tokens], length: int) -> ndarray:
    """True where a row has a token, in the array that `padded` makes of them."""
    return np.arange(length) < np.array([len(row) for row in rows])[:, None]
