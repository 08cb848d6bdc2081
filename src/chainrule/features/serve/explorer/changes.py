"""What changes when heads or layers of a Transformer are switched off, or a text has another word: side by side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from chainrule.base.distributions import top_of
from chainrule.errors import SettingError
from chainrule.models.any_model import check_kind
from chainrule.models.language_models import CausalModel, CausalNetwork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.features.inspect.intervention import Removal, Unit
    from chainrule.models.model import Model

    Json = dict[str, Any]
    Tokens = Int32[ndarray, " tokens"]

Replacement = Literal["zero", "mean", "patch"]
_TOP = 10
_MOST_TOKENS = 512


def changes(model: Model, text: str, instead: str = "", off: Sequence[str] = (), by: Replacement = "zero") -> Json:
    """Return a text unchanged, and as it is changed: the surprisal of its tokens, and the likeliest tokens after it.

    instead: another text, in which a word is another, say; by default the same. off: parts of a Transformer whose
    outputs are replaced, such as 2.3, layer 2, head 3; 2.attention; 2.feed-forward; or 2, the whole layer. by: zero;
    mean, over the tokens up to there; or patch: `off` gets its outputs for the other text, which then is read only for
    them. units: what can be switched off, by layer; empty for other models. Log-probabilities are in nats; the
    surprisal of <unk> is that of the token. Raises SettingError, with the name of a part that is not there;
    MarkerError.
    """
    own = check_kind(model, CausalModel)
    units = _units(own)
    chosen = [_unit(name, units) for name in dict.fromkeys(off)]
    tokens, others = (encoded(own, one, reads_at_once=bool(chosen)) for one in (text, instead or text))
    replaced: Removal | Tokens = by if by != "patch" else others
    read = others
    if by == "patch":
        if not chosen or instead in ("", text):
            raise SettingError("patch replaces outputs by those for another text: choose a head or layer, and a text")
        if len(others) != len(tokens):
            raise SettingError(
                f"the text has {len(tokens):,} tokens and the other one {len(others):,}: outputs are replaced token by "
                "token, so give one with as many"
            )
        read = tokens
    return {
        "kind": "changes",
        "units": [[_name(unit) for unit in layer] for layer in units],
        "before": _read(own, tokens, [], "zero"),
        "after": _read(own, read, chosen, replaced),
        "off": [_name(unit) for unit in chosen],
    }


def encoded(model: CausalModel, text: str, *, reads_at_once: bool) -> Tokens:
    """Return the tokens of a text. reads_at_once: whether a network has to read them in one piece.

    Raises SettingError where there are too many; MarkerError.
    """
    ids: Tokens = model.tokenizer.encode_texts([text]).ids[:-1]
    if reads_at_once and isinstance(model, CausalNetwork):
        from chainrule.neural.network import check_length

        check_length(model.engine.network, len(ids), _MOST_TOKENS)
    if len(ids) > _MOST_TOKENS:
        raise SettingError(f"the text has {len(ids):,} tokens; changes are shown of up to {_MOST_TOKENS}: shorten it")
    return ids


def _units(model: CausalModel) -> list[list[Unit]]:
    """Return the parts of each layer; none of models without any."""
    if not isinstance(model, CausalNetwork):
        return []
    from chainrule.features.inspect.intervention import has_units, units_of

    return units_of(model.engine) if has_units(model.engine) else []


def _name(unit: Unit) -> str:
    if unit.part == "layer":
        return str(unit.layer + 1)
    return f"{unit.layer + 1}.{unit.part + 1 if isinstance(unit.part, int) else unit.part}"


def _unit(name: str, units: list[list[Unit]]) -> Unit:
    """Return the part of the network with this name. Raises SettingError."""
    by_name = {_name(unit): unit for layer in units for unit in layer}
    if name in by_name:
        return by_name[name]
    if not units:
        raise SettingError("this model has no heads to switch off; expected a Transformer that continues texts")
    heads = sum(isinstance(unit.part, int) for unit in units[0])
    raise SettingError(
        f"there is no part {name} of the network; expected layer 1 to {len(units)}, alone or with a point and a head, "
        f"1 to {heads}, {', '.join(str(unit.part) for unit in units[0] if unit.part in ('attention', 'feed-forward'))}"
    )


def _read(model: CausalModel, tokens: Tokens, off: list[Unit], by: Removal | Tokens) -> Json:
    """Return the surprisal of each token, and the likeliest after the last."""
    log_probs, after = _scored(model, tokens, off, by)
    [best_log_probs], [best] = top_of(after[None], _TOP)
    is_possible = np.isfinite(after)
    shown = model.tokenizer.shown(best.tolist())
    return {
        "tokens": [
            {"shown": own, "log_prob": log_prob if math.isfinite(log_prob) else None}
            for own, log_prob in zip(model.tokenizer.shown(tokens.tolist()), log_probs.tolist(), strict=True)
        ],
        "next": [
            {"shown": own, "prob": math.exp(log_prob), "log_prob": log_prob}
            for own, log_prob in zip(shown, best_log_probs.tolist(), strict=True)
            if math.isfinite(log_prob)
        ],
        "entropy": float(-(np.exp(after[is_possible], dtype=np.float64) * after[is_possible]).sum()),
    }


def _scored(
    model: CausalModel, tokens: Tokens, off: list[Unit], by: Removal | Tokens
) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " V"]]:
    if off:
        from chainrule.features.inspect.intervention import read_without

        rows = read_without(model.engine, tokens, off, by)
        return rows[np.arange(len(tokens)), tokens], rows[-1]
    engine = model.language_model
    [log_probs] = engine.score([tokens], end=False)
    return log_probs, engine.next_log_probs(engine.start([tokens]))[0]
