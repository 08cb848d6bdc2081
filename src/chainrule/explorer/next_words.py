"""The next token after a text: probabilities, what settings cut, and where each probability comes from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.api.models.language_models import CausalModel, CausalNetwork, MaskedModel
from chainrule.api.models.model import Model, as_kind
from chainrule.base.distributions import top_of
from chainrule.decoding.config import SamplingConfig
from chainrule.decoding.limits import GrowingText
from chainrule.decoding.next_token import History, Rules, normalised, warped_candidates
from chainrule.errors import SettingError
from chainrule.explorer.backoff_chains import backoff_chain, shown_tokens
from chainrule.explorer.given import LONGEST
from chainrule.mixture.interpolation import LinearMixture, LogLinearMixture
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.text.tokenization.tokenizer import Tokenizer

    Json = dict[str, Any]
    Tokens = Int32[ndarray, " tokens"]

_GUESSES = 5  # tokens named of each layer


def next_words(model: Model, text: str, top: int = 20, sampling: SamplingConfig | None = None) -> Json:
    """The likeliest next tokens after a text, or those that fill its gaps, for a model that sees both sides.

    Of each token: its probability, as `CausalModel.next` gives it; `drawn`, the probability after the settings, 0 where
    they cut it; and `added`, the text that it appends, null for a token that is never generated. Log-probabilities are
    in nats. Of a text longer than `LONGEST`, the end is read. Raises SettingError, MarkerError.
    """
    if top < 1:
        raise SettingError(f"top is {top}; expected 1 or more")
    read = text[-LONGEST:]
    left_out = {"left_out": len(text) - len(read)}
    if model.sees_both_sides:
        gaps = as_kind(model, MaskedModel).fill(read, top)
        named = [[{"token": token, "prob": prob} for token, prob in gap] for gap in gaps]
        return {"kind": "gaps", "gaps": named, **left_out}
    return _continuations(as_kind(model, CausalModel), read, top, sampling or SamplingConfig()) | left_out


def completions(model: Model, text: str, top: int = 20) -> Json:
    """The likeliest whole words, as `CausalModel.complete` gives them. Raises as `next_words`."""
    read = text[-LONGEST:]
    words = [
        {"text": word.text, "added": word.added, "log_prob": word.log_prob, "prob": math.exp(word.log_prob)}
        for word in as_kind(model, CausalModel).complete(read, top)
    ]
    return {"kind": "words", "words": words, "left_out": len(text) - len(read)}


def _continuations(model: CausalModel, text: str, top: int, sampling: SamplingConfig) -> Json:
    engine, tokenizer = model.language_model, model.tokenizer
    ids = tokenizer.encode_texts([text]).ids[:-1]
    state = engine.start([ids])
    log_probs = engine.next_log_probs(state)[0].astype(np.float64)
    best_log_probs, best = (column[0] for column in engine.top(state, top))
    best = best[np.isfinite(best_log_probs)]
    warped = warped_candidates(engine, state, Rules(banned=(UNKNOWN,), config=sampling), [History(ids.tolist())])
    drawn = np.zeros(engine.vocabulary_size)
    drawn[warped.tokens[0]] = np.exp(normalised(warped.weights)[0])
    probs = np.exp(log_probs)
    is_possible = probs > 0
    may_come = is_possible & (np.arange(probs.size) != UNKNOWN)
    added = _texts_added(tokenizer, ids, best, text)
    columns = zip(best.tolist(), tokenizer.shown(best.tolist()), added, strict=True)
    return {
        "kind": "next",
        "context": shown_tokens(tokenizer, ids[-8:]),
        "possible": int(np.count_nonzero(may_come)),
        "is_distribution": model.is_distribution,
        "entropy": float(-(probs[is_possible] * log_probs[is_possible]).sum()),
        "kept": int(np.count_nonzero(drawn)),
        "cut_prob": float(probs[may_come & (drawn == 0)].sum()),
        "tokens": [
            {
                "token": tokenizer.vocabulary.token(token),
                "shown": shown,
                "added": own,
                "prob": math.exp(log_probs[token]),
                "log_prob": float(log_probs[token]),
                "drawn": float(drawn[token]),
            }
            for token, shown, own in columns
        ],
        **backoff_chain(model, state, ids, best),
        **_components(model, state, best),
        **_layers(model, ids, best),
    }


def _texts_added(tokenizer: Tokenizer, ids: Tokens, best: Tokens, text: str) -> list[str | None]:
    """What each token appends to the text as it was typed."""
    vocabulary = tokenizer.vocabulary
    before = [vocabulary.token_bytes(int(token)) for token in ids[-1:]]
    # White space at the end of the text that the tokenizer drops is the one that it puts before the next word.
    is_spaced = text[-1:].isspace() and not tokenizer.decode(ids.tolist())[-1:].isspace()
    added: list[str | None] = []
    for token in best.tolist():
        if token in (UNKNOWN, BEGIN, END):
            added.append(None)
            continue
        growing = GrowingText(tokenizer.restore, before)
        own = growing.add(vocabulary.token_bytes(token)) + growing.rest()
        added.append(own.lstrip() if is_spaced else own)
    return added


def _components(model: CausalModel, state: Any, best: Tokens) -> Json:
    """For a mixture: the name and the weight of each component, and the probabilities that it gives."""
    engine = model.language_model
    if not isinstance(engine, LinearMixture | LogLinearMixture):
        return {}
    if isinstance(engine, LinearMixture):
        weights = np.exp(engine.log_weights_after(state.previous)[:, 0])
    else:
        weights = engine.weights
    rows = engine.components.rows(state)
    named = [one["name"] for one in model.record.get("models", [])]
    names = named if len(named) == len(rows) else engine.components.families
    return {
        "mixture": engine.kind,
        "components": [
            {"name": name, "weight": weight, "probs": np.exp(row[0, best].astype(np.float64)).tolist()}
            for name, weight, row in zip(names, weights.tolist(), rows, strict=True)
        ],
    }


def _layers(model: CausalModel, ids: Tokens, best: Tokens) -> Json:
    """For a network of several layers: what each would predict, and the probability that it gives the best tokens."""
    if not isinstance(model, CausalNetwork):
        return {}
    from chainrule.neural.language_model import NeuralModel

    if not isinstance(model.engine, NeuralModel):
        return {}
    layers = model.engine.layer_log_probs(ids)
    if len(layers) < 2:
        return {}
    return {"layers": [_layer(model.tokenizer, layer, log_probs, best) for layer, log_probs in layers.items()]}


def _layer(tokenizer: Tokenizer, layer: int, log_probs: Float32[ndarray, " V"], best: Tokens) -> Json:
    [own_log_probs], [own] = top_of(log_probs[None], _GUESSES)
    shown = tokenizer.shown(own.tolist())
    return {
        "layer": layer,
        "guesses": [
            {"shown": token, "prob": math.exp(log_prob)}
            for token, log_prob in zip(shown, own_log_probs.tolist(), strict=True)
        ],
        "probs": np.exp(log_probs[best].astype(np.float64)).tolist(),
    }
