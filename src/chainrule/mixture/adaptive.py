"""A linear mixture whose weights depend on the context: what each model knows of it, and who was right before.

    P(w | h) = sum of weight_i(h) P_i(w | h),    weight(h) = softmax of features(h) times gate

The features of a context are known before its token: a 1; for each model, two decaying means of its log-probabilities
of the document's last tokens, less those of the other models; for each model that is a `Witness`, the length of the
longest context that it has seen, how often it was seen, and how many different tokens followed it. So each row sums to
one, in scoring and in stepping alike. The gate is learned on a held-out text (`tuning.gate_weights`); with only its
first row, weights are constant.

Weights by what was seen of a context are those of Jelinek and Mercer (1980), here with a gate as in mixtures of experts
(Jacobs et al. 1991).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.arguments import as_tokens, check_prefixes, check_rows, check_tokens, in_one_stream
from chainrule.base.distributions import ByDistributions
from chainrule.errors import ModelFormatError
from chainrule.mixture.components import RescaledUnknown, Witness, join, stream_with_unknown
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Float64, Int32
    from numpy import ndarray

    from chainrule.mixture.components import Components

    Sequences = Sequence[Int32[ndarray, " T"]]

_MEMORY = 2  # decaying means of a model


@dataclass
class AdaptiveState:
    """parts: the state of each component. memory: their decaying means. rows: their distributions, once computed."""

    parts: tuple[Any, ...]
    memory: Float64[ndarray, "B K 2"]
    rows: list[Float32[ndarray, "B V"]] | None = None


class AdaptiveMixture(ByDistributions[AdaptiveState]):
    """A linear mixture of language models, with weights by context."""

    kind, end = "linear", END

    def __init__(
        self,
        components: Components,
        gate: Float64[ndarray, "F K"],
        weights: Float64[ndarray, "1 K"],
        gain: float = 0.0,
    ) -> None:
        """weights: the mean weights on the text that the gate was learned on. gain: what it gained on a tenth of that
        text, which it did not learn from, over constant weights, in nats a token.

        Raises ModelFormatError.
        """
        self.components, self.vocabulary_size = components, components.vocabulary_size
        self.witnesses = [i for i, model in enumerate(components.models) if witness(model) is not None]
        self.gate, self.weights, self.gain = gate, weights, gain
        expected = (feature_count(len(components.models), len(self.witnesses)), len(components.models))
        if gate.shape != expected or gate.dtype != np.float64 or not np.isfinite(gate).all():
            raise ModelFormatError(
                f"the gate of the mixture has shape {list(gate.shape)}; expected finite numbers, {list(expected)}. Its "
                "file is damaged: try chainrule verify"
            )

    def score(self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True) -> list[ndarray]:
        """As `Scorer.score`."""
        return self._score(sequences, prefixes, end=end, unknown=False)

    def unknown_log_probs(
        self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True
    ) -> list[ndarray]:
        """As `LanguageModel.unknown_log_probs`."""
        return self._score(sequences, prefixes, end=end, unknown=True)

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """As `Scorer.score_stream`."""
        return self._mix(np.stack([model.score_stream(stream) for model in self.components.models]), None, stream)[0]

    def score_stream_with_unknown(
        self, stream: Int32[ndarray, " T"], on_share: Callable[[float], None] | None = None
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        """The log-probabilities of a stream's tokens, and of <unk> at their positions.

        on_share: called after each component with the share that is done.
        """
        pairs = []
        for model in self.components.models:
            pairs.append(stream_with_unknown(model, stream))
            if on_share is not None:
                on_share(len(pairs) / len(self.components.models))
        scores, shares = (np.stack(each) for each in zip(*pairs, strict=True))
        return self._mix(scores, shares, stream)

    def start(self, prefixes: Sequences) -> AdaptiveState:
        """As `LanguageModel.start`."""
        from chainrule.mixture.adaptive_kernels import features_of_stream

        parts = tuple(model.start(prefixes) for model in self.components.models)
        memory = np.zeros((len(prefixes), len(parts), _MEMORY))
        heads, tails = _split_documents(prefixes, self.vocabulary_size)
        by_model = [model.score(tails, prefixes=heads, end=False) for model in self.components.models]
        for row, tail in enumerate(tails):
            scores = np.stack([scored[row] for scored in by_model])
            features = np.empty((tail.size, len(self.gate)))
            features_of_stream(scores, tail, np.zeros((0, tail.size, 3), np.float32), memory[row], features)
        return AdaptiveState(parts, memory)

    def next_log_probs(self, state: AdaptiveState) -> Float32[ndarray, "B V"]:
        """As `LanguageModel.next_log_probs`."""
        models = self.components.models
        state.rows = state.rows or [model.next_log_probs(part) for model, part in zip(models, state.parts, strict=True)]
        weights = self._log_weights(state)[:, :, None]  # (B, K, 1)
        mixed = state.rows[0] + weights[:, 0]
        for k, others in enumerate(state.rows[1:], 1):
            np.logaddexp(mixed, others + weights[:, k], out=mixed)
        return mixed

    def weights_of(self, state: AdaptiveState) -> Float32[ndarray, "B K"]:
        """The weights of the models in each row."""
        return np.exp(self._log_weights(state))

    def _log_weights(self, state: AdaptiveState) -> Float32[ndarray, "B K"]:
        from chainrule.mixture.adaptive_kernels import log_weights_of_rows

        log_weights = np.empty(state.memory.shape[:2])
        seen = [witness(self.components.models[i]).evidence(state.parts[i]) for i in self.witnesses]  # type: ignore[union-attr]
        evidence = np.stack(seen) if seen else np.zeros((0, len(state.memory), 3), np.float32)
        log_weights_of_rows(state.memory, evidence, self.gate, log_weights)
        return log_weights.astype(np.float32)

    def advance(self, state: AdaptiveState, tokens: Int32[ndarray, " B"]) -> AdaptiveState:
        """As `LanguageModel.advance`."""
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
        """As `LanguageModel.select`."""
        parts = tuple(model.select(part, rows) for model, part in zip(self.components.models, state.parts, strict=True))
        kept = None if state.rows is None else [own[rows] for own in state.rows]
        return AdaptiveState(parts, state.memory[rows], kept)

    def join(self, states: Sequence[AdaptiveState]) -> AdaptiveState:
        """As `LanguageModel.join`."""
        by_model = zip(*(state.parts for state in states), strict=True)
        parts = tuple(model.join(own) for model, own in zip(self.components.models, by_model, strict=True))
        return AdaptiveState(parts, np.concatenate([state.memory for state in states]))

    def _score(self, sequences: Sequences, prefixes: Sequences | None, *, end: bool, unknown: bool) -> list[ndarray]:
        """The mixed log-probabilities of the tokens, or of <unk> at their positions."""
        check_prefixes(len(sequences), prefixes)
        before = [np.empty(0, np.int32)] * len(sequences) if prefixes is None else prefixes
        heads, tails = _split_documents(before, self.vocabulary_size)
        texts = [np.concatenate([tail, as_tokens(sequence)]) for tail, sequence in zip(tails, sequences, strict=True)]
        given = None if prefixes is None else heads
        models = self.components.models
        stream, spans = in_one_stream(texts, None, end=True)
        scores = np.stack([join(model.score(texts, prefixes=given)) for model in models])
        others = None
        if unknown:
            others = np.stack([join(model.unknown_log_probs(texts, prefixes=given)) for model in models])
        mixed = self._mix(scores, others, stream)[1 if unknown else 0]
        cut = None if end else -1
        return [mixed[span][tail.size : cut] for span, tail in zip(spans, tails, strict=True)]

    def _mix(
        self,
        scores: Float32[ndarray, "K T"],
        others: Float32[ndarray, "K T"] | None,
        stream: Int32[ndarray, " T"],
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        from chainrule.mixture.adaptive_kernels import mix_stream

        stream = np.ascontiguousarray(as_tokens(stream).astype(np.int32))
        mixed = np.empty(stream.size, np.float32)
        others = np.empty((len(scores), 0), np.float32) if others is None else others
        mixed_others = np.empty(others.shape[1], np.float32)
        evidence = stream_evidence(self.components, stream)
        mix_stream(scores, others, stream, evidence, self.gate, mixed, mixed_others)
        return mixed, mixed_others


def features_for_tuning(
    components: Components, scores: Float32[ndarray, "K T"], stream: Int32[ndarray, " T"]
) -> Float64[ndarray, "T F"]:
    """The features at each position of a stream, which the gate is learned from. scores: of the components."""
    from chainrule.mixture.adaptive_kernels import features_of_stream

    evidence = stream_evidence(components, stream)
    features = np.empty((stream.size, feature_count(len(scores), len(evidence))))
    features_of_stream(scores, stream, evidence, np.zeros((len(scores), _MEMORY)), features)
    return features


def feature_count(models: int, witnesses: int) -> int:
    """How many features a context has."""
    from chainrule.mixture.adaptive_kernels import OF_WITNESS

    return 1 + _MEMORY * models + OF_WITNESS * witnesses


def stream_evidence(components: Components, stream: Int32[ndarray, " T"]) -> Float32[ndarray, "W T 3"]:
    """What each witness among the models has seen of the context at each position of a stream."""
    seen = [own.stream_evidence(stream) for own in map(witness, components.models) if own is not None]
    return np.stack(seen) if seen else np.zeros((0, len(stream), 3), np.float32)


def witness(model: Any) -> Witness | None:
    """The model as a witness; None if it is none. The states of a rescaled model are those of the model."""
    own = model.model if isinstance(model, RescaledUnknown) else model
    return own if isinstance(own, Witness) else None


def _split_documents(
    prefixes: Sequences, vocabulary_size: int
) -> tuple[list[Int32[ndarray, " T"]], list[Int32[ndarray, " T"]]]:
    """Each prefix up to the last </s> in it, and the part after that, which is of the document that goes on.

    Raises SettingError where an id is outside the vocabulary.
    """
    for prefix in prefixes:
        check_tokens(as_tokens(prefix), vocabulary_size)
    tokens = [as_tokens(prefix).astype(np.int32) for prefix in prefixes]
    ends = [int(np.flatnonzero(own == END)[-1]) + 1 if np.any(own == END) else 0 for own in tokens]
    return [own[:end] for own, end in zip(tokens, ends, strict=True)], [
        own[end:] for own, end in zip(tokens, ends, strict=True)
    ]
