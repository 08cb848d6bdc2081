"""The objective of a seq2seq model: the tokens of a target, given its source.

A step has pairs of similar length, and all steps have about as many tokens.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from chainrule.errors import SettingError, TextError
from chainrule.features.seq2seq.network.cross_attention import WeightLists
from chainrule.features.seq2seq.network.model import SourceConditionedNetwork, batch_sources, source_length
from chainrule.features.seq2seq.network.network import Seq2SeqNetwork, build_seq2seq
from chainrule.features.seq2seq.network.vector_sources import VectorInput
from chainrule.neural.config import settings_of
from chainrule.neural.scoring import pad, round_up
from chainrule.protocol import END
from chainrule.training.defaults import Recipe, compiled_on_request, refuse_settings_of_text, with_defaults
from chainrule.training.job import StatelessObjective, TrainingJob, ValidationResult
from chainrule.training.objectives.next_token import scheduled_inputs
from chainrule.training.objectives.stream import set_rows, unigram_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Bool, Int32, Int64, Shaped
    from numpy import ndarray
    from torch import Tensor

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.features.seq2seq.network.vector_sources import PictureEncoder
    from chainrule.training.config import InitialVectors, TrainingConfig
    from chainrule.training.job import Setup

    Tokens = Int32[ndarray, " tokens"]

_VALIDATION_BATCH = 1 << 13  # tokens
_ROW_MULTIPLE = 8


class SideVectors(NamedTuple):
    """Vectors to initialise the embeddings of sources and targets with."""

    sources: InitialVectors | None = None
    targets: InitialVectors | None = None


NO_VECTORS = SideVectors()


class TokenPairs(NamedTuple):
    """Sources and their targets, as ids without markers; or sources as vectors, (S, F), or pixels, (H, W, C)."""

    sources: Sequence[Shaped[ndarray, "*shape"]]
    targets: Sequence[Tokens]

    def predicted(self) -> int:
        """Return the number of tokens in all targets, </s> included."""
        return sum(len(target) + 1 for target in self.targets)

    def chosen(self, positions: Sequence[int]) -> TokenPairs:
        """Return the pairs at some positions."""
        return TokenPairs([self.sources[i] for i in positions], [self.targets[i] for i in positions])

    def first(self, tokens: int) -> TokenPairs:
        """Return the first pairs with at most this many tokens to predict; at least one, if there are any."""
        sizes = np.cumsum([len(target) + 1 for target in self.targets])
        count = max(1, int(np.searchsorted(sizes, tokens, "right")))
        return TokenPairs(self.sources[:count], self.targets[:count])

    def sample(self, tokens: int) -> TokenPairs:
        """Return evenly spaced pairs with about this many tokens to predict, at least one; all, if they have no
        more.
        """
        whole, count = self.predicted(), len(self.targets)
        if tokens >= whole:
            return self
        chosen = np.arange(max(1, count * tokens // whole))
        return self.chosen((chosen * count // chosen.size).tolist())

    def digest(self) -> str:
        """Return a digest that identifies the tokens of these pairs; a job's origin identifies sources of other
        kinds.
        """
        digest = hashlib.sha256()
        for side in self:
            for row in side:
                if row.ndim == 1:
                    digest.update(np.append(row, END).astype(np.int32).tobytes())
        return digest.hexdigest()[:16]


class MicroBatch(NamedTuple):
    """Some pairs of a step: (B, S) for sources, or what `VectorInput` takes, and (B, T) for targets.

    The masks are True where there is a token.
    """

    sources: Tensor
    source_mask: Tensor
    inputs: Tensor
    targets: Tensor
    target_mask: Tensor


class Buckets:
    """The pairs of each step: a pure function of its index.

    Pairs are sorted by length, with ties in random order, and cut into buckets of about as many tokens; so each epoch
    has buckets of the same lengths, in another order. Lengths are rounded up, and the rows are mostly a multiple of 8,
    so that there are few shapes.
    """

    def __init__(
        self, sources: Int64[ndarray, " pairs"], targets: Int64[ndarray, " pairs"], tokens: int, least: int, seed: int
    ) -> None:
        """Sort the pairs into buckets by their lengths.

        sources, targets: the lengths of both sides, in tokens. tokens: the tokens in a bucket, of both sides, with
        padding. least: the fewest pairs in a bucket.
        """
        padded_sources, padded_targets = (
            np.array([round_up(length) for length in side.tolist()]) for side in (sources, targets)
        )
        self.lengths, self.seed = np.stack((sources, targets, padded_sources, padded_targets)), seed
        order = np.lexsort(self.lengths)
        starts, longest = [0], 0
        for position, pair in enumerate(order.tolist()):
            longest = max(longest, int(padded_sources[pair]))
            while (rows := position + 1 - starts[-1]) > least and rows * (longest + int(padded_targets[pair])) > tokens:
                fitting = rows - 1
                starts.append(
                    starts[-1] + max(least, fitting - fitting % _ROW_MULTIPLE if fitting > _ROW_MULTIPLE else fitting)
                )
                longest = int(padded_sources[order[starts[-1] : position + 1]].max())
        if len(starts) > 1 and order.size - starts[-1] < least:  # the longest pairs, beside few others
            starts[-1] = order.size - least
            if starts[-1] - starts[-2] < least:
                del starts[-1]
        self.edges = np.array([*starts, order.size])
        self.sizes = np.add.reduceat(targets[order], starts)  # tokens to predict in each bucket
        self._plans: dict[int, tuple[Int64[ndarray, " pairs"], Int64[ndarray, " buckets"]]] = {}

    def __len__(self) -> int:
        """Return the number of steps in an epoch."""
        return self.edges.size - 1

    def pairs(self, step: int) -> Int64[ndarray, " pairs"]:
        """Return the indices of a step's pairs."""
        order, buckets = self._plan(step // len(self))
        bucket = buckets[step % len(self)]
        return order[self.edges[bucket] : self.edges[bucket + 1]]

    def tokens(self, steps: int) -> int:
        """Return the tokens to predict in the first `steps` steps."""
        epochs, rest = divmod(steps, len(self))
        return int(epochs * self.sizes.sum() + (self.sizes[self._plan(epochs)[1][:rest]].sum() if rest else 0))

    def _plan(self, epoch: int) -> tuple[Int64[ndarray, " pairs"], Int64[ndarray, " buckets"]]:
        """Return an epoch's order of the pairs, and of the buckets."""
        if epoch not in self._plans:
            rng = np.random.default_rng([self.seed, epoch])
            order = rng.permutation(self.edges[-1])
            order = order[np.lexsort(self.lengths[:, order])]
            self._plans = {epoch: (order, rng.permutation(len(self)))}
        return self._plans[epoch]


def pairs_job(
    pairs: TokenPairs,
    validation: TokenPairs | None,
    sizes: tuple[int, int],
    config: Seq2SeqConfig,
    training: TrainingConfig,
    origin: dict[str, Any],
    vectors: SideVectors = NO_VECTORS,
    tuned: Callable[[], PictureEncoder] | None = None,
) -> TrainingJob[Seq2SeqNetwork]:
    """Return a job that trains a seq2seq model on pairs. Raises TextError, SettingError.

    sizes: those of the vocabularies of sources and targets. vectors: those to initialise the embeddings with; if both
    sides share one embedding, those of the targets. tuned: makes an encoder of pictures that is trained with the rest.
    """
    if not pairs.targets:
        raise TextError("there are no pairs to learn from; at least one is needed")
    training = with_pair_defaults(training)
    recipe = seq2seq_recipe(config, training)
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
        build=lambda: _build(config, sizes, vectors, tuned),
        matrices=Seq2SeqNetwork.matrices,
        objective=lambda network, setup: Seq2SeqObjective(network, setup, pairs, validation),
        step=f"about {recipe.batch} pairs",
        memory_hint="batch or width",
    )


def _build(
    config: Seq2SeqConfig, sizes: tuple[int, int], vectors: SideVectors, tuned: Callable[[], PictureEncoder] | None
) -> Seq2SeqNetwork:
    """Build the network, with initial vectors and an encoder to tune, if there are any. Raises SettingError."""
    network = _with_vectors(build_seq2seq(config, *sizes), vectors)
    if tuned is not None:
        assert isinstance(network.source_embedding, VectorInput)
        network.source_embedding.attach(tuned(), is_tuned=True)
    return network


def _with_vectors(network: Seq2SeqNetwork, vectors: SideVectors) -> Seq2SeqNetwork:
    """Initialise the embeddings with vectors, and return the network. Raises SettingError."""
    if isinstance(network.source_embedding, VectorInput):
        if vectors.targets is not None:
            set_rows(network.embedding.weight, vectors.targets, "width", scale=network.embedding.scale)
        return network
    is_shared = network.source_embedding.weight is network.embedding.weight
    if is_shared and len({initial.name for initial in vectors if initial is not None}) > 1:
        raise SettingError(
            "sources and targets share their vectors, so both cannot be initialised: leave source_vectors out, "
            "or set shared='target'"
        )
    for embedding, initial in zip((network.source_embedding, network.embedding), vectors, strict=True):
        if initial is not None:
            set_rows(embedding.weight, initial, "width", scale=embedding.scale)
    return network


class Seq2SeqObjective(StatelessObjective):
    """An Objective: -log P(token of the target | those before it, the source).

    A step holds as many tokens as `batch` pairs of mean length.
    """

    def __init__(self, network: Seq2SeqNetwork, setup: Setup, pairs: TokenPairs, validation: TokenPairs | None) -> None:
        self.network, self.setup, self.pairs, self.validation = network, setup, pairs, validation
        sources, targets = self._lengths(pairs)
        self.shares = setup.processes.number * setup.training.accumulate
        if len(targets) < self.shares:
            raise SettingError(f"{len(targets)} pairs cannot be divided into {self.shares} parts of a step; give more")
        mean_length = float(sources.mean() + targets.mean())
        self.buckets = Buckets(
            sources, targets, int(setup.recipe.batch * mean_length), self.shares, setup.training.seed
        )
        self.epoch = pairs.predicted()
        hidden = sum(weight.numel() for weight in network.matrices())
        self.flops_per_token = 6.0 * (hidden + network.output.weight.numel())
        self.row_tokens = self.epoch / len(pairs.targets)
        self.validation_tokens = 0 if validation is None else validation.predicted()

    def tokens(self, steps: int) -> int:
        return self.buckets.tokens(steps)

    def parts(self, step: int) -> list[MicroBatch]:
        chosen, rank, parts = self.buckets.pairs(step), self.setup.processes.rank, self.setup.training.accumulate
        return [self._part(self.pairs, chosen[rank * parts + part :: self.shares]) for part in range(parts)]

    def weight(self, step: int) -> float:
        return self.tokens(step + 1) - self.tokens(step)

    def loss(self, number: int, part: MicroBatch, forward: Callable[..., Any], done: float) -> Tensor:
        training, inputs = self.setup.training, part.inputs
        if training.forcing != "teacher":
            inputs = self._own_guesses(part, 1.0 if training.forcing == "student" else done)
        config = self.network.config
        weights = WeightLists([], None) if config.doubly_stochastic or config.entropy else None
        hidden = forward(part.sources, part.source_mask, inputs, weights)
        nats = self.network.output.loss(
            hidden[part.target_mask], part.targets[part.target_mask], label_smoothing=training.label_smoothing
        )
        return nats if weights is None else nats + attention_penalty(weights.source, part, config)

    def _lengths(self, pairs: TokenPairs) -> tuple[Int64[ndarray, " pairs"], Int64[ndarray, " pairs"]]:
        """Return the lengths of sources and of targets, both with </s>."""
        config = self.network.config
        return (
            np.array([source_length(source, config) for source in pairs.sources], np.int64),
            np.array([len(target) + 1 for target in pairs.targets], np.int64),
        )

    @torch.no_grad()
    def _own_guesses(self, part: MicroBatch, share: float) -> Tensor:
        """Return the inputs with guesses in place of some tokens.

        Recurrent decoders guess step by step, others everywhere at once (Mihaylova and Martins 2019).
        """
        if self.network.config.is_recurrent(self.network.config.decoder):
            bound = SourceConditionedNetwork(self.network, self.network.read(part.sources, part.source_mask))
            state = bound.start(len(part.inputs))
            return scheduled_inputs(
                lambda tokens, state: bound(bound.embed(tokens), state), bound.output, part.inputs, state, share
            )
        hidden = self.network(part.sources, part.source_mask, part.inputs)
        return _scheduled_inputs_at_once(self.network.output.log_probs(hidden), part.inputs, share)

    @torch.no_grad()
    def validate(self, tokens: int) -> ValidationResult:
        assert self.validation is not None
        pairs = self.validation.sample(tokens)
        sources, targets = self._lengths(pairs)
        buckets, total = Buckets(sources, targets, _VALIDATION_BATCH, 1, 0), torch.zeros(1, dtype=torch.float64)
        for step in range(self.setup.processes.rank, len(buckets), self.setup.processes.number):
            part = self._part(pairs, buckets.pairs(step))
            with self.setup.machine.precision():
                hidden = self.network(part.sources, part.source_mask, part.inputs)
                total += (
                    self.network.output.loss(hidden[part.target_mask], part.targets[part.target_mask]).double().cpu()
                )
        self.setup.processes.add([total])
        predicted = int(targets.sum())
        return ValidationResult(float(total) / predicted, predicted, {"pairs": len(self.validation.targets)})

    def unigram_loss(self) -> float:
        assert self.validation is not None
        training, validation = (
            np.concatenate([np.append(row, END) for row in pairs.targets]) for pairs in (self.pairs, self.validation)
        )
        return unigram_loss(np.bincount(training, minlength=self.network.vocabulary_size), validation)

    def _part(self, pairs: TokenPairs, chosen: Int64[ndarray, " pairs"]) -> MicroBatch:
        config, sources = self.network.config, [pairs.sources[i] for i in chosen.tolist()]
        targets = [np.append(pairs.targets[i], END) for i in chosen.tolist()]
        inputs = [np.append([END], target[:-1]) for target in targets]
        longest = _padded_length([source_length(source, config) for source in sources], config.max_source)
        target_length = _padded_length([len(target) for target in targets])
        return MicroBatch(
            *(
                torch.from_numpy(array).to(self.setup.machine.device, non_blocking=True)
                for array in (
                    *batch_sources(sources, config, length=longest),
                    pad(inputs, END, length=target_length),
                    pad(targets, END, length=target_length),
                    _token_mask(targets, target_length),
                )
            )
        )


def attention_penalty(recorded: list[Tensor], part: MicroBatch, config: Seq2SeqConfig) -> Tensor:
    """Return what Xu et al. 2015 add to the loss of recurrent decoders, summed over the pairs of a part.

    recorded: the weights of all steps, (B, 1, T, S), perhaps cut along time. doubly_stochastic: the squares of what a
    position lacks to a sum of 1 over time (equation 14). entropy: minus the entropy of each step (section 4.1).
    """
    weights = torch.cat(recorded, 2)[:, 0] * part.target_mask[:, :, None]  # (B, T, S)
    penalty = config.doubly_stochastic * ((1 - weights.sum(1)).square() * part.source_mask).sum()
    if config.entropy:
        penalty = penalty + config.entropy * torch.special.xlogy(weights, weights).sum()
    return penalty


def _padded_length(lengths: Sequence[int], most: int | None = None) -> int:
    """Return the length to pad rows to: at most `most`, unless a row is longer."""
    longest = max(lengths)
    return round_up(longest) if most is None else max(longest, min(round_up(longest), most))


def _token_mask(rows: Sequence[Tokens], length: int) -> Bool[ndarray, "B {length}"]:
    """Return True where a padded row has a token."""
    return np.arange(length) < np.array([len(row) for row in rows])[:, None]


def with_pair_defaults(training: TrainingConfig) -> TrainingConfig:
    """Return the settings of `with_defaults`, for a seq2seq model: it is compiled only on request, since every length
    of pairs would be compiled anew.

    Raises SettingError.
    """
    refuse_settings_of_text(training)
    return compiled_on_request(with_defaults(training))


def seq2seq_recipe(config: Seq2SeqConfig, training: TrainingConfig) -> Recipe:
    """Return the recipe of `recipe_for`, for a seq2seq model. training: the settings, with defaults filled in."""
    is_recurrent = config.is_recurrent(config.decoder)
    if training.optimiser == "muon":
        rate, warm_up = (1e-2 if is_recurrent else 6e-3), 50
    elif training.optimiser == "adamw":
        rate, warm_up = (3e-3 if is_recurrent else 1e-3), 100
    else:
        rate, warm_up = 0.1, 100
    return Recipe.of(training, 128, rate, warm_up)


@torch.no_grad()
def _scheduled_inputs_at_once(log_probs: Tensor, inputs: Tensor, share: float) -> Tensor:
    """Return the inputs of `scheduled_inputs`, for networks that read all positions at once: a guess depends on the
    text before it, not on other guesses (Mihaylova and Martins 2019).

    log_probs: (B, T, V), after each input.
    """
    guesses = torch.multinomial(log_probs[:, :-1].flatten(0, 1).float().exp(), 1).view(inputs[:, 1:].shape)
    is_guessed = torch.rand(guesses.shape, device=inputs.device) < share
    return torch.cat((inputs[:, :1], torch.where(is_guessed, guesses, inputs[:, 1:])), 1)
