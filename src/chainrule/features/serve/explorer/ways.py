"""The way through a model for one prediction, and what the layers of a network would predict along a text.

way     of a Transformer: what each layer adds, and its share of a logit; of a recurrent network: its gates; of an
        n-gram model: its chain of back-offs; then the probabilities, the cuts, and the token that is drawn
lens    the logit lens: what each layer would predict after each token of a text
"""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.decoding.config import Limits, SamplingConfig
from chainrule.errors import SettingError
from chainrule.features.serve.explorer.records import LONGEST, backoff_chain, next_words
from chainrule.models.any_model import check_kind
from chainrule.models.attending import names_of_read
from chainrule.models.language_models import CausalModel, CausalNetwork

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.models.model import Model
    from chainrule.neural.inspection import LayerGates
    from chainrule.neural.language_model import NeuralModel

    Json = dict[str, Any]
    Tokens = Int32[ndarray, " tokens"]

_TOP = 10  # tokens whose logits and probabilities are shown
_TOKENS, _UNITS = 32, 48  # of a recurrent network: the last tokens, and the units of a layer that vary most
_MOST_TOKENS = 256  # of a text under the logit lens
_GUESSES = 3


def way(model: Model, text: str, sampling: SamplingConfig | None = None, seed: int = 1) -> Json:
    """Return the way of a text through a model, up to the token that is drawn.

    The record of `next_words`, with `way`, its kind and steps; `logits` of the tokens, null where there are none; and
    `picked`, the token that `generate` with this seed begins with, and what it appends. Of parts of a Transformer,
    shares are those of the logits of the tokens, null where there are none; `rest` is what is left of the logits.
    Raises SettingError, also for models that have no such way; MarkerError.
    """
    own = check_kind(model, CausalModel)
    read = text[-LONGEST:]
    if not own.is_distribution:
        own.language_model.start([])  # raises SettingError
    steps = _steps(own, own.tokenizer.encode_texts([read]).ids[:-1])
    record = next_words(own, text, _TOP, sampling)
    ids = np.array([own.tokenizer.vocabulary.id_of(token["token"]) for token in record["tokens"]], np.int32)
    [drawn] = own.sample(read, 1, sampling or SamplingConfig(), Limits(max_tokens=1), seed=seed, progress=False)
    picked = drawn.tokens[0] if drawn.tokens else "</s>"
    [shown] = own.tokenizer.read_tokens([picked.encode()])
    through: Json = steps(ids) if steps else {"kind": "ngram"}
    logits = _logits(own, own.tokenizer.encode_texts([read]).ids[:-1], ids)
    if logits is not None and all(part["shares"] is not None for part in through.get("parts", [{"shares": None}])):
        sums = np.sum([part["shares"] for part in through["parts"]], axis=0)
        through["rest"] = (np.array(logits) - sums).tolist()  # the final norm's shifts, and the output's bias
    return {
        **record,
        "kind": "way",
        "way": through,
        "logits": logits,
        "picked": {"token": picked, "shown": shown, "added": drawn.continuation if drawn.tokens else None},
        "seed": seed,
    }


def _steps(model: CausalModel, ids: Tokens) -> Any:
    """Return a function from the likeliest tokens to the steps before them; None of an n-gram model, whose chain says
    all.

    Raises SettingError.
    """
    if isinstance(model, CausalNetwork):
        from chainrule.neural.encoders.recurrent import Recurrent
        from chainrule.neural.encoders.transformer import Transformer
        from chainrule.neural.language_model import NeuralModel

        engine = model.engine
        if isinstance(engine, NeuralModel) and isinstance(engine.network.encoder, Transformer):
            return lambda best: _transformer(model, engine, ids, best)
        if isinstance(engine, NeuralModel) and isinstance(engine.network.encoder, Recurrent):
            return lambda best: _recurrent(model, ids)
    elif backoff_chain(model, model.language_model.start([ids]), ids, ids[:0]):
        return None
    raise SettingError(
        f"the way through a model of family {model.family!r} is not shown; expected a Transformer, a recurrent network "
        "such as an LSTM, or an n-gram model"
    )


def _transformer(model: CausalModel, engine: NeuralModel, ids: Tokens, best: Tokens) -> Json:
    """Return what each part of a Transformer adds at the last token, and its shares of the logits of the likeliest
    tokens.
    """
    from chainrule.features.serve.explorer.residual_stream import added_by_part, attention_of_last

    window = engine.last_window(ids)
    parts = [
        {
            "part": one.part,
            "layer": one.layer,
            "vector": _floats(one.vector),
            "width": len(one.vector),
            "norm": float(np.linalg.norm(one.vector)),
            "after": one.after,
            "shares": None if one.shares is None else one.shares[best].astype(np.float64).tolist(),
        }
        for one in added_by_part(engine, ids)
    ]
    heads = attention_of_last(engine, ids)
    config = engine.network.config
    return {
        "kind": "transformer",
        "read": _names(model, ids, window),
        "tokens_before": len(ids) + 1 - len(window),
        "parts": parts,
        "attention": [{"heads": len(rows), "weights": _floats(rows)} for rows in heads],
        "positions": getattr(config, "positions", "none"),
        "layers": engine.network.encoder.layers,  # type: ignore[attr-defined]  # a Transformer
    }


def _recurrent(model: CausalModel, ids: Tokens) -> Json:
    """Return the gates and the state of each layer, by unit, along the last tokens."""
    from chainrule.neural.inspection import gates_of_text

    read, layers = gates_of_text(model.engine, ids)
    return {
        "kind": "recurrent",
        "read": names_of_read(model.tokenizer, model.record, read)[-_TOKENS:],
        "tokens_before": max(0, len(read) - _TOKENS),
        "layers": [_gates(layer) for layer in layers],
    }


def _gates(layer: LayerGates) -> Json:
    hidden = layer.values["h"]
    units = np.argsort(-np.ptp(hidden, axis=0), kind="stable")[:_UNITS]
    values = {name: _floats(value[-_TOKENS:, units]) for name, value in layer.values.items()}
    return {"name": layer.name, "width": hidden.shape[1], "units": units.tolist(), "values": values}


def _logits(model: CausalModel, ids: Tokens, best: Tokens) -> list[float] | None:
    if not isinstance(model, CausalNetwork):
        return None
    from chainrule.features.serve.explorer.residual_stream import logits_after

    logits = logits_after(model.engine, ids)
    return None if logits is None else logits[best].astype(np.float64).tolist()


def lens(model: Model, text: str) -> Json:
    """Return what each layer of a network would predict after each token of a text: the logit lens.

    guesses: by token that is read, the likeliest tokens with their probabilities. of_next: the probability of the token
    that follows, null after the last. Raises SettingError, MarkerError.
    """
    own = check_kind(model, CausalModel)
    if not isinstance(own, CausalNetwork):
        raise SettingError("this model has no layers that could predict; expected a network that continues texts")
    from chainrule.features.serve.explorer.residual_stream import layered_network, lens_of_text
    from chainrule.neural.network import check_length

    ids = own.tokenizer.encode_texts([text]).ids[:-1]
    check_length(layered_network(own.engine), len(ids), _MOST_TOKENS)
    read, layers = lens_of_text(own.engine, ids, _GUESSES)
    shown = {token: own.tokenizer.shown([token])[0] for layer in layers for token in np.unique(layer.tokens).tolist()}
    return {
        "kind": "lens",
        "read": names_of_read(own.tokenizer, own.record, read),
        "layers": [
            {
                "layer": layer.layer,
                "guesses": [
                    [{"shown": shown[token], "prob": math.exp(log_prob)} for token, log_prob in zip(*pair, strict=True)]
                    for pair in zip(layer.tokens.tolist(), layer.log_probs.tolist(), strict=True)
                ],
                "of_next": [*np.exp(layer.of_next.astype(np.float64)).tolist(), None],
            }
            for layer in layers
        ],
    }


def _names(model: CausalModel, ids: Tokens, window: Tokens) -> list[str]:
    """Return the tokens in the window of a network, as they are shown; the first of all that it reads is its
    beginning.
    """
    return (
        names_of_read(model.tokenizer, model.record, window)
        if len(window) > len(ids)
        else model.tokenizer.shown(window.tolist())
    )


def _floats(array: Float32[ndarray, "*shape"]) -> str:
    """Return float32 numbers, little-endian, in base64."""
    return base64.b64encode(np.ascontiguousarray(np.nan_to_num(array), "<f4").tobytes()).decode()
