"""Linear and log-linear interpolation of models, and their state in a model folder.

    linear       P(w | h) = sum of weight_i(h) P_i(w | h)
    log-linear   P(w | h) = product of P_i(w | h)^weight_i / Z(h)

Linear: Jelinek and Mercer, Interpolated estimation of Markov source parameters from sparse data (1980). The weights are
constant, or depend on the class of the previous token. Log-linear: Klakow, Log-linear interpolation of language models
(1998). Z(h) sums over the whole vocabulary, so scoring a token costs as much as computing its whole distribution.

The caller saves and restores the components.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.arguments import as_tokens, check_prefixes, check_tokens
from chainrule.base.distributions import ByDistributions
from chainrule.errors import ModelFormatError, SettingError
from chainrule.mixture.adaptive import AdaptiveMixture, gate_of
from chainrule.mixture.components import (
    Components,
    RescaledUnknown,
    join,
    previous_tokens,
    split_as,
    stream_parts,
    stream_with_unknown,
)
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Float64, Int32, UInt8
    from numpy import ndarray

    from chainrule.mixture.components import MixtureState

    Sequences = Sequence[Int32[ndarray, " T"]]
    Arrays = dict[str, ndarray]
    Json = dict[str, Any]


class _Mixture(ByDistributions["MixtureState"]):
    """A mixture of language models. The state is theirs, and the last token of each row."""

    end = END

    def __init__(self, components: Components) -> None:
        self.components, self.vocabulary_size = components, components.vocabulary_size

    def start(self, prefixes: Sequences) -> MixtureState:
        """Implement `LanguageModel.start`."""
        return self.components.start(prefixes)

    def advance(self, state: MixtureState, tokens: Int32[ndarray, " B"]) -> MixtureState:
        """Implement `LanguageModel.advance`."""
        return self.components.advance(state, tokens)

    def select(self, state: MixtureState, rows: Int32[ndarray, " new_B"]) -> MixtureState:
        """Implement `LanguageModel.select`."""
        return self.components.select(state, rows)

    def join(self, states: Sequence[MixtureState]) -> MixtureState:
        """Implement `LanguageModel.join`."""
        return self.components.join(states)


class LinearMixture(_Mixture):
    """A linear mixture of language models."""

    kind = "linear"

    def __init__(
        self,
        components: Components,
        weights: Float64[ndarray, "classes models"],
        classes: UInt8[ndarray, " V"] | None = None,
    ) -> None:
        """Check the weights, and store them.

        classes: the row of `weights` that applies after each token; None if there is only one. Raises ModelFormatError
        if the arguments contradict each other.
        """
        super().__init__(components)
        self.weights, self.classes = weights, classes
        if weights.ndim != 2 or weights.shape[1] != len(components.models) or not len(weights):
            raise ModelFormatError(f"a mixture of {len(components.models)} models has weights {list(weights.shape)}")
        if not np.all(weights >= 0) or not np.allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-3):
            raise ModelFormatError("the weights of a linear mixture do not sum to 1")
        if classes is not None and (
            classes.dtype != np.uint8 or classes.shape != (self.vocabulary_size,) or classes.max() >= len(weights)
        ):
            raise ModelFormatError(
                "the token classes of the mixture do not fit its weights; its file is damaged: try chainrule verify"
            )
        with np.errstate(divide="ignore"):
            self._log_weights = np.log(weights).astype(np.float32)

    def score(self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True) -> list[ndarray]:
        """Implement `Scorer.score`."""
        scores = [model.score(sequences, prefixes=prefixes, end=end) for model in self.components.models]
        return self._interpolate(scores, sequences, prefixes, end=end)

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """Implement `Scorer.score_stream`."""
        scores = [model.score_stream(stream) for model in self.components.models]
        return self._mix(scores, np.concatenate([np.array([BEGIN], np.int32), stream[:-1]])[: len(stream)])

    def score_stream_with_unknown(
        self, stream: Int32[ndarray, " T"], on_share: Callable[[float], None] | None = None
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        """Return the log-probabilities of a stream's tokens, and of <unk> at their positions.

        on_share: called after each component with the share that is done.
        """
        previous = np.concatenate([np.array([BEGIN], np.int32), stream[:-1]])[: len(stream)]
        pairs = []
        for model in self.components.models:
            pairs.append(stream_with_unknown(model, stream))
            if on_share is not None:
                on_share(len(pairs) / len(self.components.models))
        return self._mix([scores for scores, _ in pairs], previous), self._mix([share for _, share in pairs], previous)

    def unknown_log_probs(
        self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True
    ) -> list[ndarray]:
        """Implement `LanguageModel.unknown_log_probs`."""
        shares = [model.unknown_log_probs(sequences, prefixes=prefixes, end=end) for model in self.components.models]
        return self._interpolate(shares, sequences, prefixes, end=end)

    def next_log_probs(self, state: MixtureState) -> Float32[ndarray, "B V"]:
        """Implement `LanguageModel.next_log_probs`."""
        rows = self.components.rows(state)
        weights = self.log_weights_after(state.previous)[:, :, None]  # (models, rows, 1)
        mixed = rows[0] + weights[0]
        for weight, others in zip(weights[1:], rows[1:], strict=True):
            np.logaddexp(mixed, others + weight, out=mixed)
        return mixed

    def _interpolate(
        self, scores: list[list[ndarray]], sequences: Sequences, prefixes: Sequences | None, *, end: bool
    ) -> list[ndarray]:
        """Interpolate the components' scores of every sequence."""
        previous = previous_tokens(sequences, prefixes, end=end)
        return split_as(self._mix([join(rows) for rows in scores], previous), scores[0])

    def _mix(
        self, scores: list[Float32[ndarray, " scored"]], previous: Int32[ndarray, " scored"]
    ) -> Float32[ndarray, " scored"]:
        weights = self.log_weights_after(previous)
        mixed = scores[0] + weights[0]
        for weight, others in zip(weights[1:], scores[1:], strict=True):
            mixed = np.logaddexp(mixed, others + weight)
        return mixed

    def weights_of(self, state: MixtureState) -> Float32[ndarray, "B models"]:
        """Return the weights of the models in each row."""
        return np.exp(self.log_weights_after(state.previous)).T

    def log_weights_after(self, previous: Int32[ndarray, " scored"]) -> Float32[ndarray, "models scored"]:
        """Return the logarithms of the weights after each token."""
        if self.classes is None:
            return np.repeat(self._log_weights.T, len(previous), axis=1)
        return self._log_weights[self.classes[previous]].T


_LONG = 256  # tokens of a stream that is worth reading many positions at a time
BATCH_PROBS = 1 << 22  # probabilities of each component that a batch of sequences may have


class LogLinearMixture(_Mixture):
    """A log-linear mixture of language models."""

    kind = "log-linear"

    def __init__(self, components: Components, weights: Float64[ndarray, " models"]) -> None:
        """Check the weights, and store them. Raises ModelFormatError if the weights do not fit the components."""
        super().__init__(components)
        self.weights = weights
        if weights.shape != (len(components.models),) or not np.all(weights >= 0) or not 0 < weights.sum() < np.inf:
            raise ModelFormatError(f"a log-linear mixture of {len(components.models)} models has weights {weights}")

    def score(self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True) -> list[ndarray]:
        """Implement `Scorer.score`."""
        return self._score_by_steps(sequences, prefixes, end=end, token=None)

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """Implement `Scorer.score_stream`."""
        return self._score_along(stream, [None])[0]

    def score_stream_with_unknown(
        self, stream: Int32[ndarray, " T"], on_share: Callable[[float], None] | None = None
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        """Return the log-probabilities of a stream's tokens, and of <unk> at their positions.

        on_share: called with the share that is done.
        """
        scores, shares = self._score_along(stream, [None, UNKNOWN], on_share)
        return scores, shares

    def unknown_log_probs(
        self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True
    ) -> list[ndarray]:
        """Implement `LanguageModel.unknown_log_probs`."""
        return self._score_by_steps(sequences, prefixes, end=end, token=UNKNOWN)

    def next_log_probs(self, state: MixtureState) -> Float32[ndarray, "B V"]:
        """Implement `LanguageModel.next_log_probs`.

        Raises SettingError if no token has a probability in all components.
        """
        return self._product(self.components.rows(state))

    def _product(self, rows: Sequence[Float32[ndarray, "B V"]]) -> Float32[ndarray, "B V"]:
        pairs = [(row, weight) for row, weight in zip(rows, self.weights.tolist(), strict=True) if weight > 0]
        product = pairs[0][0] * np.float32(pairs[0][1])
        for row, weight in pairs[1:]:
            product += row * np.float32(weight)
        best = product.max(axis=1, keepdims=True, initial=-np.inf)
        if np.any(best == -np.inf):
            raise SettingError(
                "after some context, every token has probability zero in some model of the mixture; mix them linearly"
            )
        product -= best
        product -= np.log(np.exp(product).sum(axis=1, keepdims=True, dtype=np.float64)).astype(np.float32)
        return product

    def weights_of(self, state: MixtureState) -> Float64[ndarray, "B models"]:
        """Return the weights of the models, which are the same in each row."""
        return np.repeat(self.weights[None], len(state.previous), axis=0)

    def _score_along(
        self, stream: Int32[ndarray, " T"], asked: Sequence[int | None], on_share: Callable[[float], None] | None = None
    ) -> list[Float32[ndarray, " T"]]:
        """Return, for each that is asked, the log-probabilities of a stream's tokens (None), or of one token at all
        positions.

        Many positions at a time where the stream is long and all components can; each treats </s> in its own way.
        """
        parts = None
        if len(stream) >= _LONG:
            parts = stream_parts(self.components.models, stream, max(1, BATCH_PROBS // self.vocabulary_size))
        if parts is None:
            return [self._score_by_steps([stream], None, end=False, token=token)[0] for token in asked]
        check_tokens(stream, self.vocabulary_size)
        scores, begin = [np.empty(len(stream), np.float32) for _ in asked], 0
        for rows in parts:
            product, span = self._product(rows), slice(begin, begin + len(rows[0]))
            for token, own in zip(asked, scores, strict=True):
                own[span] = product[np.arange(len(product)), stream[span] if token is None else token]
            begin = span.stop
            if on_share is not None:
                on_share(begin / len(stream))
        return scores

    def _score_by_steps(
        self, sequences: Sequences, prefixes: Sequences | None, *, end: bool, token: int | None
    ) -> list[ndarray]:
        """Return the log-probability of each token, or of the given one at every position, by advancing step by
        step.
        """
        check_prefixes(len(sequences), prefixes)
        sequences = [as_tokens(sequence) for sequence in sequences]
        for sequence in sequences:
            check_tokens(sequence, self.vocabulary_size)
        log_probs_of = [np.empty(len(sequence) + end, np.float32) for sequence in sequences]
        batch = max(1, BATCH_PROBS // self.vocabulary_size)
        for texts, step, next_tokens, state in self.components.steps(sequences, prefixes, batch):
            wanted = np.flatnonzero([log_probs_of[text].size > step for text in texts]).astype(np.int32)
            if not wanted.size:
                continue
            chosen = next_tokens[wanted] if token is None else np.full(wanted.size, token)
            own = state if wanted.size == texts.size else self.select(state, wanted)
            log_probs = self.next_log_probs(own)[np.arange(wanted.size), chosen]
            for text, log_prob in zip(texts[wanted].tolist(), log_probs, strict=True):
                log_probs_of[text][step] = log_prob
        return log_probs_of


def to_state(model: Any, take_component: Callable[[str, Any], tuple[Json, Arrays]]) -> tuple[Json, Arrays]:
    """Return the settings and arrays: the arrays of component i get the prefix `i.`; the settings of all components are
    a list in the mixture's.

    take_component: family, model -> settings, arrays.
    """
    settings: Json = {"kind": model.kind, "weights": model.weights.tolist(), "components": []}
    arrays: Arrays = {}
    for i, (name, component) in enumerate(zip(model.components.families, model.components.models, strict=True)):
        fewer = isinstance(component, RescaledUnknown)
        own, own_arrays = take_component(name, component.model if fewer else component)
        ratio = {"unseen_ratio": component.ratio} if fewer else {}
        settings["components"].append({"family": name, "settings": own, **ratio})
        arrays |= {f"{i}.{key}": array for key, array in own_arrays.items()}
    if isinstance(model, AdaptiveMixture):
        arrays |= {"gate": model.gate.linear}
        arrays |= {"gate.inner": model.gate.inner, "gate.outer": model.gate.outer} if len(model.gate.outer) else {}
    elif getattr(model, "classes", None) is not None:
        arrays["classes"] = model.classes
    return settings, arrays


def from_state(
    settings: Json, arrays: Arrays, vocabulary_size: int, restore: Callable[[str, Json, Arrays, int], Any]
) -> LinearMixture | LogLinearMixture | AdaptiveMixture:
    """Return the mixture of settings and arrays. restore: makes a component of a family. Raises ModelFormatError."""
    listed, kind, weights = settings.get("components"), settings.get("kind"), settings.get("weights")
    known = isinstance(listed, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("family"), str) and isinstance(entry.get("settings"), dict)
        for entry in listed
    )
    if not known or not listed or kind not in ("linear", "log-linear") or not isinstance(weights, list):
        raise ModelFormatError("the mixture's settings lack components, kind or weights that this version knows")
    models = []
    for i, entry in enumerate(listed):
        own = {key.removeprefix(f"{i}."): array for key, array in arrays.items() if key.startswith(f"{i}.")}
        model = restore(entry["family"], entry["settings"], own, vocabulary_size)
        models.append(RescaledUnknown(model, entry["unseen_ratio"]) if "unseen_ratio" in entry else model)
    components = Components(tuple(entry["family"] for entry in listed), tuple(models))
    try:
        mixture_weights = np.array(weights, np.float64)
    except (TypeError, ValueError):
        raise ModelFormatError(f"the weights of the mixture are {weights!r}; expected numbers") from None
    if kind == "log-linear":
        return LogLinearMixture(components, mixture_weights)
    if "gate" in arrays:
        return AdaptiveMixture(components, gate_of(arrays), mixture_weights)
    return LinearMixture(components, mixture_weights, arrays.get("classes"))
