"""A linear mixture whose weights depend on the context: what each model knows of it, and who was right before.

    P(w | h) = sum of weight_i(h) P_i(w | h),    weight(h) = softmax of f(h) G + tanh(f(h) A) B

The features f of a context are known before its token: a 1; for each model, two decaying means of its log-probabilities
of the document's last tokens, less those of the other models; for each model that is a `Witness`, the length of the
longest context that it has seen, how often it was seen, and how many different tokens followed it. A gate may also see
the distributions themselves: of each model the largest log-probability, the entropy, and the divergence from the mean
of all models. So each row sums to one, in scoring and in stepping alike. The gate is learned on a held-out text
(`tuning.learn_gate`); with only its first row, weights are constant.

Weights by what was seen of a context are those of Jelinek and Mercer (1980), here with a gate as in mixtures of experts
(Jacobs et al. 1991).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.arguments import as_tokens, check_prefixes, check_rows, check_tokens, in_one_stream
from chainrule.base.distributions import ByDistributions
from chainrule.errors import ModelFormatError
from chainrule.mixture.cache import NGramCache, WatchedCache
from chainrule.mixture.components import (
    RescaledUnknown,
    Witness,
    join,
    reads_streams,
    stream_parts,
    stream_with_unknown,
    text_parts,
)
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from jaxtyping import Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.mixture.components import Components
    from chainrule.mixture.config import GateKind
    from chainrule.protocol import LanguageModel

    Sequences = Sequence[Int32[ndarray, " T"]]

_MEMORY = 2  # decaying means of a model
SMALL_VOCABULARY = 1024  # tokens
_BLOCK = 1 << 20  # probabilities of each model that are in memory at a time


@dataclass
class AdaptiveState:
    """The state of an adaptive mixture.

    parts: the state of each component. memory: their decaying means. rows: their distributions, once computed.
    """

    parts: tuple[Any, ...]
    memory: Float64[ndarray, "B K 2"]
    rows: list[Float32[ndarray, "B V"]] | None = None


class Gate(NamedTuple):
    """What gives the weights: G, and A and B of its hidden units, which there may be none of. All are float64.

    linear: G. inner: A. outer: B.
    """

    linear: Float64[ndarray, "F K"]
    inner: Float64[ndarray, "F H"]
    outer: Float64[ndarray, "H K"]


def linear_gate(linear: Float64[ndarray, "F K"]) -> Gate:
    """Return a gate without hidden units."""
    return Gate(linear, np.empty((len(linear), 0)), np.empty((0, linear.shape[1])))


def gate_of(arrays: Mapping[str, ndarray]) -> Gate:
    """Return the gate of a saved mixture. Raises ModelFormatError."""
    linear = arrays["gate"]
    hidden = [arrays[name] for name in ("gate.inner", "gate.outer") if name in arrays]
    if linear.ndim != 2 or len(hidden) == 1 or any(array.ndim != 2 for array in hidden):
        raise ModelFormatError(
            "the gate of the mixture is no matrix, or lacks one; its file is damaged: try chainrule verify"
        )
    return Gate(linear, *hidden) if hidden else linear_gate(linear)


class AdaptiveMixture(ByDistributions[AdaptiveState]):
    """A linear mixture of language models, with weights by context."""

    kind, end = "linear", END

    def __init__(
        self,
        components: Components,
        gate: Gate,
        weights: Float64[ndarray, "1 K"],
        gain: float = 0.0,
    ) -> None:
        """Check the gate, and store it.

        gate: one with features for distributions sees them. weights: the mean weights on the text that the gate was
        learned on. gain: what it gained on a tenth of that text, which it did not learn from, over constant weights, in
        nats a token. Raises ModelFormatError.
        """
        self.components, self.vocabulary_size = components, components.vocabulary_size
        self.witnesses = _witnesses(components)
        self.gate, self.weights, self.gain = gate, weights, gain
        count, (features, hidden) = len(components.models), (len(gate.linear), len(gate.outer))
        known = [feature_count(count, len(self.witnesses), sees_rows=sees) for sees in (False, True)]
        self.sees_rows = features == known[1]
        shapes = [array.shape for array in gate]
        if (
            features not in known
            or shapes != [(features, count), (features, hidden), (hidden, count)]
            or not all(array.dtype == np.float64 and np.isfinite(array).all() for array in gate)
        ):
            raise ModelFormatError(
                f"the gate of the mixture has shapes {[list(shape) for shape in shapes]}; expected finite numbers, "
                f"{known[0]} or {known[1]} features of {count} models. Its file is damaged: try chainrule verify"
            )

    @property
    def sees(self) -> GateKind:
        """What the gate sees."""
        return "distributions" if self.sees_rows else "evidence"

    def score(self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True) -> list[ndarray]:
        """Implement `Scorer.score`."""
        return self._score(sequences, prefixes, end=end, unknown=False)

    def unknown_log_probs(
        self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True
    ) -> list[ndarray]:
        """Implement `LanguageModel.unknown_log_probs`."""
        return self._score(sequences, prefixes, end=end, unknown=True)

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """Implement `Scorer.score_stream`."""
        if self.sees_rows:
            return self.score_stream_with_unknown(stream)[0]
        scores, _, evidence = self._scores(stream, lambda model: (model.score_stream(stream), None))
        return self._mix(scores, None, stream, evidence)[0]

    def score_stream_with_unknown(
        self, stream: Int32[ndarray, " T"], on_share: Callable[[float], None] | None = None
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        """Return the log-probabilities of a stream's tokens, and of <unk> at their positions.

        on_share: called with the share that is done.
        """
        if self.sees_rows:
            size = max(1, _BLOCK // self.vocabulary_size)
            read = self._read([stream], None, lambda models: stream_parts(models, stream, size), on_share)
            return self._mix(*read)
        scores, shares, evidence = self._scores(stream, lambda model: stream_with_unknown(model, stream), on_share)
        return self._mix(scores, shares, stream, evidence)

    def start(self, prefixes: Sequences) -> AdaptiveState:
        """Implement `LanguageModel.start`."""
        from chainrule.mixture.adaptive_kernels import features_of_stream

        parts = tuple(model.start(prefixes) for model in self.components.models)
        memory = np.zeros((len(prefixes), len(parts), _MEMORY))
        heads, tails = _split_documents(prefixes, self.vocabulary_size)
        by_model = [model.score(tails, prefixes=heads, end=False) for model in self.components.models]
        for row, tail in enumerate(tails):
            scores = np.stack([scored[row] for scored in by_model])
            features = np.empty((tail.size, feature_count(len(parts), 0)))
            nothing = np.zeros((0, tail.size, 3), np.float32), np.zeros((tail.size, 0))
            features_of_stream(scores, tail, *nothing, memory[row], features)
        return AdaptiveState(parts, memory)

    def next_log_probs(self, state: AdaptiveState) -> Float32[ndarray, "B V"]:
        """Implement `LanguageModel.next_log_probs`."""
        rows = self._rows(state)
        weights = self._log_weights(state)[:, :, None]  # (B, K, 1)
        mixed = rows[0] + weights[:, 0]
        for k, others in enumerate(rows[1:], 1):
            np.logaddexp(mixed, others + weights[:, k], out=mixed)
        return mixed

    def weights_of(self, state: AdaptiveState) -> Float32[ndarray, "B K"]:
        """Return the weights of the models in each row."""
        return np.exp(self._log_weights(state))

    def _rows(self, state: AdaptiveState) -> list[Float32[ndarray, "B V"]]:
        """Return the distributions of the components, which the state keeps."""
        models = self.components.models
        state.rows = state.rows or [model.next_log_probs(part) for model, part in zip(models, state.parts, strict=True)]
        return state.rows

    def _log_weights(self, state: AdaptiveState) -> Float32[ndarray, "B K"]:
        from chainrule.mixture.adaptive_kernels import log_weights_of_rows

        log_weights = np.empty(state.memory.shape[:2])
        seen = [witness(self.components.models[i]).evidence(state.parts[i]) for i in self.witnesses]  # type: ignore[union-attr]
        evidence = np.stack(seen) if seen else np.zeros((0, len(state.memory), 3), np.float32)
        shapes = _described(self._rows(state)) if self.sees_rows else np.empty((len(state.memory), 0))
        log_weights_of_rows(state.memory, evidence, shapes, *self.gate, log_weights)
        return log_weights.astype(np.float32)

    def advance(self, state: AdaptiveState, tokens: Int32[ndarray, " B"]) -> AdaptiveState:
        """Implement `LanguageModel.advance`."""
        from chainrule.mixture.adaptive_kernels import remember_rows

        check_rows(tokens, len(state.memory))
        tokens, models, each = as_tokens(tokens), self.components.models, np.arange(len(state.memory))
        check_tokens(tokens, self.vocabulary_size)
        scores = (
            [model.log_probs_of(part, each, tokens) for model, part in zip(models, state.parts, strict=True)]
            if state.rows is None
            else [rows[each, tokens] for rows in state.rows]
        )
        parts = tuple(model.advance(part, tokens) for model, part in zip(models, state.parts, strict=True))
        memory = state.memory.copy()
        remember_rows(memory, np.stack(scores), tokens)
        return AdaptiveState(parts, memory)

    def select(self, state: AdaptiveState, rows: Int32[ndarray, " new_B"]) -> AdaptiveState:
        """Implement `LanguageModel.select`."""
        parts = tuple(model.select(part, rows) for model, part in zip(self.components.models, state.parts, strict=True))
        kept = None if state.rows is None else [own[rows] for own in state.rows]
        return AdaptiveState(parts, state.memory[rows], kept)

    def join(self, states: Sequence[AdaptiveState]) -> AdaptiveState:
        """Implement `LanguageModel.join`."""
        by_model = zip(*(state.parts for state in states), strict=True)
        parts = tuple(model.join(own) for model, own in zip(self.components.models, by_model, strict=True))
        return AdaptiveState(parts, np.concatenate([state.memory for state in states]))

    def _score(self, sequences: Sequences, prefixes: Sequences | None, *, end: bool, unknown: bool) -> list[ndarray]:
        """Return the mixed log-probabilities of the tokens, or of <unk> at their positions."""
        check_prefixes(len(sequences), prefixes)
        before = [np.empty(0, np.int32)] * len(sequences) if prefixes is None else prefixes
        heads, tails = _split_documents(before, self.vocabulary_size)
        texts = [np.concatenate([tail, as_tokens(sequence)]) for tail, sequence in zip(tails, sequences, strict=True)]
        given = None if prefixes is None else heads
        stream, spans = in_one_stream(texts, None, end=True)
        if self.sees_rows:
            check_tokens(stream, self.vocabulary_size)
            size = max(1, _BLOCK // self.vocabulary_size)
            is_alone = not any(map(len, heads)) and not any(np.any(text == END) for text in texts)
            read = self._read(texts, heads, (lambda models: text_parts(models, texts, size)) if is_alone else None)
            mixed = self._mix(*read)[1 if unknown else 0]
        else:
            scored = self._scores(
                stream,
                lambda model: (
                    join(model.score(texts, prefixes=given)),
                    join(model.unknown_log_probs(texts, prefixes=given)) if unknown else None,
                ),
            )
            scores, others, evidence = scored
            mixed = self._mix(scores, others if unknown else None, stream, evidence)[1 if unknown else 0]
        cut = None if end else -1
        return [mixed[span][tail.size : cut] for span, tail in zip(spans, tails, strict=True)]

    def _read(
        self,
        texts: Sequences,
        heads: Sequences | None,
        parts_of: Callable[[Sequence[Any]], Iterator[tuple[Float32[ndarray, "part V"], ...]] | None] | None,
        on_share: Callable[[float], None] | None = None,
    ) -> tuple[
        Float32[ndarray, "K T"],
        Float32[ndarray, "K T"],
        Int32[ndarray, " T"],
        Float32[ndarray, "W T 3"],
        Float64[ndarray, "T S"],
    ]:
        """Return, for `_mix`, the components' log-probabilities, those of <unk>, the texts, the evidence, and what
        describes distributions.

        heads: what comes before each text; None: texts are one stream, without </s> after it. parts_of: gives the
        distributions of models at all positions; None, or where it gives None: they are computed step by step.
        """
        stream = as_tokens(texts[0]) if heads is None else in_one_stream(texts, None, end=True)[0]
        models = [WatchedCache(model) if isinstance(model, NGramCache) else model for model in self.components.models]
        parts = None if parts_of is None else parts_of(models)
        scores, others = np.empty((2, len(models), len(stream)), np.float32)
        shapes = np.empty((len(stream), shape_count(len(models))))
        done = 0
        check_tokens(stream, self.vocabulary_size)
        if parts is not None:
            for rows in parts:
                places = np.arange(done, min(done + len(rows[0]), len(stream)))
                _take(rows, stream, places, scores, others, shapes)
                done = places[-1] + 1
                if on_share is not None:
                    on_share(done / len(stream))
            seen = [model.seen() if isinstance(model, WatchedCache) else None for model in models]
            return scores, others, stream, stream_evidence(self.components, stream, seen), shapes
        begins = np.cumsum([0, *(len(text) + 1 for text in texts)])
        batch = max(1, _BLOCK // self.vocabulary_size)
        for which, step, _, state in self.components.steps(texts, heads, batch):
            places = begins[which] + step
            if heads is None and step == len(stream):
                break
            _take(self.components.rows(state), stream, places, scores, others, shapes)
            done += len(places)
            if on_share is not None:
                on_share(done / len(stream))
        return scores, others, stream, stream_evidence(self.components, stream), shapes

    def _scores(
        self,
        stream: Int32[ndarray, " T"],
        score: Callable[[LanguageModel[Any]], tuple[Float32[ndarray, " T"], Float32[ndarray, " T"] | None]],
        on_share: Callable[[float], None] | None = None,
    ) -> tuple[Float32[ndarray, "K T"], Float32[ndarray, "K T"], Float32[ndarray, "W T 3"]]:
        """Return, for `_mix`, the components' log-probabilities, those of <unk>, and the evidence.

        score: gives the first two of a model, or the first alone. A cache, which takes long, is read once for all.
        """
        scores, others, seen = [], [], []
        for k, model in enumerate(self.components.models, 1):
            own, other, evidence = (
                model.score_stream_with_evidence(stream) if isinstance(model, NGramCache) else (*score(model), None)
            )
            scores.append(own)
            others.append(own if other is None else other)
            seen.append(evidence)
            if on_share is not None:
                on_share(k / len(self.components.models))
        return np.stack(scores), np.stack(others), stream_evidence(self.components, stream, seen)

    def _mix(
        self,
        scores: Float32[ndarray, "K T"],
        others: Float32[ndarray, "K T"] | None,
        stream: Int32[ndarray, " T"],
        evidence: Float32[ndarray, "W T 3"],
        shapes: Float64[ndarray, "T S"] | None = None,
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        from chainrule.mixture.adaptive_kernels import mix_stream

        stream = np.ascontiguousarray(as_tokens(stream).astype(np.int32))
        mixed = np.empty(stream.size, np.float32)
        others = np.empty((len(scores), 0), np.float32) if others is None else others
        mixed_others = np.empty(others.shape[1], np.float32)
        shapes = np.empty((stream.size, 0)) if shapes is None else shapes
        mix_stream(scores, others, stream, evidence, shapes, *self.gate, mixed, mixed_others)
        return mixed, mixed_others


def _take(
    rows: Sequence[Float32[ndarray, "R V"]],
    stream: Int32[ndarray, " T"],
    places: Int64[ndarray, " R"],
    scores: Float32[ndarray, "K T"],
    others: Float32[ndarray, "K T"],
    shapes: Float64[ndarray, "T S"],
) -> None:
    """Write what is needed of the distributions at some places. rows: may be more, of places after the stream."""
    rows = [row[: len(places)] for row in rows]
    for own, other, row in zip(scores, others, rows, strict=True):
        own[places], other[places] = row[np.arange(len(places)), stream[places]], row[:, UNKNOWN]
    shapes[places] = _described(rows)


def _described(rows: Sequence[Float32[ndarray, "R V"]]) -> Float64[ndarray, "R S"]:
    from chainrule.mixture.adaptive_kernels import describe_rows

    shapes = np.empty((len(rows[0]), shape_count(len(rows))))
    describe_rows(np.stack(rows), shapes)
    return shapes


def features_for_tuning(
    components: Components,
    scores: Float32[ndarray, "K T"],
    stream: Int32[ndarray, " T"],
    shapes: Float64[ndarray, "T S"] | None = None,
) -> Float64[ndarray, "T F"]:
    """Return the features at each position of a stream, which the gate is learned from.

    scores: of the components. shapes: as `shapes_for_tuning` gives them, for a gate that sees distributions.
    """
    from chainrule.mixture.adaptive_kernels import features_of_stream

    evidence = stream_evidence(components, stream)
    features = np.empty((stream.size, feature_count(len(scores), len(evidence), sees_rows=shapes is not None)))
    shapes = np.empty((stream.size, 0)) if shapes is None else shapes
    features_of_stream(scores, stream, evidence, shapes, np.zeros((len(scores), _MEMORY)), features)
    return features


def can_see_rows(components: Components) -> bool:
    """Return whether all models give their distributions along a stream, and these are small: reading those of 10,000
    words takes far longer than what they tell is worth.
    """
    return components.vocabulary_size <= SMALL_VOCABULARY and all(map(reads_streams, components.models))


def shapes_for_tuning(components: Components, stream: Int32[ndarray, " T"]) -> Float64[ndarray, "T S"]:
    """Return what describes the distributions at each position of a stream."""
    count = len(components.models)
    gate = linear_gate(np.zeros((feature_count(count, len(_witnesses(components)), sees_rows=True), count)))
    size = max(1, _BLOCK // components.vocabulary_size)
    mixture = AdaptiveMixture(components, gate, np.full((1, count), 1 / count))
    return mixture._read([stream], None, lambda models: stream_parts(models, stream, size))[4]


def feature_count(models: int, witnesses: int, *, sees_rows: bool = False) -> int:
    """Return how many features a context has."""
    from chainrule.mixture.adaptive_kernels import OF_WITNESS

    return 1 + _MEMORY * models + OF_WITNESS * witnesses + (shape_count(models) if sees_rows else 0)


def shape_count(models: int) -> int:
    """Return how many numbers describe the distributions at a position."""
    from chainrule.mixture.adaptive_kernels import OF_ROW

    return OF_ROW * models


def _witnesses(components: Components) -> list[int]:
    return [i for i, model in enumerate(components.models) if witness(model) is not None]


def stream_evidence(
    components: Components, stream: Int32[ndarray, " T"], known: Sequence[Float32[ndarray, "T 3"] | None] = ()
) -> Float32[ndarray, "W T 3"]:
    """Return what each witness among the models has seen of the context at each position of a stream.

    known: that of each model, if it was computed before.
    """
    pairs = zip(map(witness, components.models), known or [None] * len(components.models), strict=True)
    seen = [own.stream_evidence(stream) if given is None else given for own, given in pairs if own is not None]
    return np.stack(seen) if seen else np.zeros((0, len(stream), 3), np.float32)


def witness(model: Any) -> Witness | None:
    """Return the model as a witness; None if it is none. The states of a rescaled model are those of the model."""
    own = model.model if isinstance(model, RescaledUnknown) else model
    return own if isinstance(own, Witness) else None


def _split_documents(
    prefixes: Sequences, vocabulary_size: int
) -> tuple[list[Int32[ndarray, " T"]], list[Int32[ndarray, " T"]]]:
    """Return each prefix up to the last </s> in it, and the part after that, which is of the document that goes on.

    Raises SettingError where an id is outside the vocabulary.
    """
    for prefix in prefixes:
        check_tokens(as_tokens(prefix), vocabulary_size)
    tokens = [as_tokens(prefix).astype(np.int32) for prefix in prefixes]
    ends = [int(np.flatnonzero(own == END)[-1]) + 1 if np.any(own == END) else 0 for own in tokens]
    return [own[:end] for own, end in zip(tokens, ends, strict=True)], [
        own[end:] for own, end in zip(tokens, ends, strict=True)
    ]
