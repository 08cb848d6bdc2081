"""Positions and windows of others: rope_parameters, sliding_window and layer_types of config.json as settings of ours.

transformers 4 has rope_theta and rope_scaling, 5 has rope_parameters; where windows have angles of their own, 4 has
rope_local_base_freq, and 5 has parameters for each type of layer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from chainrule.features.open.architecture import Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.features.open.network.config import OpenSettings

    Json = dict[str, Any]

_FULL, _SLIDING = "full_attention", "sliding_attention"  # types of layers
_SCALINGS = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")
_GROWTH, _TRAINED = "llama_4_scaling_beta", "original_max_position_embeddings"
_FIELDS = ("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor", _TRAINED)


def rotary(
    *,
    share: float = 1.0,
    base: float = 10_000.0,
    local: str | None = None,
    grows: bool = False,
    usual: Json | None = None,
) -> Rule:
    """Return the rule of rotary positions.

    share: of a head that is rotated, where config.json does not say; base: likewise. local: the field that transformers
    4 has for the base of layers with windows, where these have a different base. grows: whether queries may grow with
    their positions. usual: the parameters where config.json has none.
    """

    def read(config: Json) -> Json:
        parameters, own = _parameters(config) or usual or {}, None
        if parameters.get(_GROWTH) and not grows:
            raise ValueError(f"{_GROWTH} is {parameters[_GROWTH]!r}, which is not supported here; expected none")
        nested = {kind: values for kind, values in parameters.items() if isinstance(values, dict)}
        if nested:
            if local is None or nested.keys() > {_FULL, _SLIDING} or _FULL not in nested:
                raise ValueError(f"parameters for {', '.join(nested)} are not supported here")
            parameters, own = nested[_FULL], nested.get(_SLIDING, {})
        settings = _read_scaling(config, parameters, share=share, base=base)
        if grows:
            trained = parameters.get(_TRAINED) or config.get("max_position_embeddings")
            settings |= {"query_growth": float(parameters.get(_GROWTH) or 0), "rotary_trained_context": trained}
        if local is not None:
            own = {} if own is None else own
            if own.get("rope_type", "default") != "default":
                raise ValueError(f"{own['rope_type']!r} in layers with windows is not supported; expected default")
            theta = own.get("rope_theta", config.get(local))
            given = config.get("rope_theta", base) if local == "rope_theta" else 10_000.0
            settings["window_rotary_base"] = float(given if theta is None else theta)
        return settings

    def write(config: OpenSettings) -> Json:
        written = _write_scaling(config, is_partial=share != 1 or config.rotary_width is not None)
        if grows:
            growth = {_GROWTH: config.query_growth, _TRAINED: config.rotary_trained_context}
            written["rope_parameters"] = {**written["rope_parameters"], **growth}
        if local is None:
            return written
        window = config.rotary_base if config.window_rotary_base is None else config.window_rotary_base
        both = {_FULL: written["rope_parameters"], _SLIDING: {"rope_type": "default", "rope_theta": window}}
        return {**written, local: window, "rope_parameters": both}

    return Rule((*_FIELDS, *([] if local in (None, *_FIELDS) else [local])), read, write)


def _parameters(config: Json) -> Json:
    """Return rope_scaling and rope_parameters together. Raises ValueError where they contradict each other."""
    scaling, parameters = config.get("rope_scaling"), config.get("rope_parameters")
    if scaling and parameters:
        for name in scaling.keys() & parameters.keys():
            if scaling[name] != parameters[name]:
                raise ValueError(f"{name} is {scaling[name]!r} in one and {parameters[name]!r} in the other")
    return {**(scaling or {}), **(parameters or {})}


def _read_scaling(config: Json, given: Json, *, share: float, base: float) -> Json:
    theta, new_theta = config.get("rope_theta"), given.get("rope_theta")
    if None not in (theta, new_theta) and theta != new_theta:
        raise ValueError(f"rope_theta is {theta!r}, and {new_theta!r} in rope_parameters")
    base = next((value for value in (new_theta, theta) if value is not None), base)
    settings: Json = {"positions": "rotary", "rotary_base": float(base)}
    shares = [some for some in (given.get("partial_rotary_factor"), config.get("partial_rotary_factor")) if some]
    if len(set(shares)) > 1:
        raise ValueError(f"partial_rotary_factor is {shares[0]!r} in one and {shares[1]!r} in the other")
    share = shares[0] if shares else share
    if share != 1:
        settings["rotary_width"] = int(_head_width(config) * share)
    kind = given.get("rope_type", given.get("type", "default"))
    kind = "longrope" if kind == "su" else kind
    if kind not in _SCALINGS:
        raise ValueError(f"rotary scaling {kind!r} is not supported; known are {', '.join(_SCALINGS)}")
    if kind in ("default", "dynamic"):  # dynamic changes nothing up to max_position_embeddings, the context here
        return settings
    if kind in ("linear", "llama3"):
        settings |= {"rotary_scaling": kind, "rotary_factor": float(given["factor"])}
    if kind == "linear":
        return settings
    longest: Any = config.get("max_position_embeddings")
    stated = [source.get(_TRAINED) for source in (config, given)]
    trained: Any = next((value for value in stated if value), longest)
    settings["rotary_trained_context"] = trained
    if kind == "llama3":
        return settings | {
            "rotary_low_factor": float(given["low_freq_factor"]),
            "rotary_high_factor": float(given["high_freq_factor"]),
        }
    factor = given.get("factor")
    factor = float(longest / trained if factor is None else factor)
    settings |= {"rotary_scaling": kind, "rotary_factor": factor}
    amplitude = given.get("attention_factor")
    if kind == "longrope":
        if amplitude is None:
            amplitude = math.sqrt(1 + math.log(factor) / math.log(trained)) if factor > 1 else 1.0
        return settings | {
            "rotary_divisors": tuple(map(float, given["short_factor"])),
            "rotary_long_divisors": tuple(map(float, given["long_factor"])),
            "rotary_amplitude": float(amplitude),
        }
    if not isinstance(whole := given.get("truncate", True), bool):
        raise ValueError(f"truncate of yarn is {whole!r}; expected true or false")
    if amplitude is None:
        scale, other = given.get("mscale"), given.get("mscale_all_dim")
        amplitude = _yarn_amplitude(factor)
        if scale and other:
            amplitude = _yarn_amplitude(factor, scale) / _yarn_amplitude(factor, other)
    return settings | {
        "rotary_low_factor": float(given.get("beta_slow") or 1),
        "rotary_high_factor": float(given.get("beta_fast") or 32),
        "rotary_whole_pairs": whole,
        "rotary_amplitude": float(amplitude),
    }


def _yarn_amplitude(factor: float, scale: float = 1.0) -> float:
    """Return the amplitude of YaRN (Peng et al. 2023, equation 22)."""
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1


def _head_width(config: Json) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def _write_scaling(config: OpenSettings, *, is_partial: bool) -> Json:
    """Return both spellings: given only the new one, transformers 4 would silently take a theta of 10,000."""
    theta: Json = {"rope_theta": config.rotary_base}
    if is_partial:
        theta["partial_rotary_factor"] = config.rotated_width / config.width_of_heads
    kind, trained = config.rotary_scaling, {_TRAINED: config.rotary_trained_context}
    if kind == "none":
        return {**theta, "rope_scaling": None, "rope_parameters": {"rope_type": "default", **theta}}
    scaling: Json = {"rope_type": kind, "factor": config.rotary_factor}
    if kind == "llama3":
        scaling |= {"low_freq_factor": config.rotary_low_factor, "high_freq_factor": config.rotary_high_factor}
    if kind == "yarn":
        scaling |= {"beta_slow": config.rotary_low_factor, "beta_fast": config.rotary_high_factor}
        scaling |= {} if config.rotary_whole_pairs else {"truncate": False}
    if kind == "longrope":
        scaling |= {
            "short_factor": list(config.rotary_divisors),
            "long_factor": list(config.rotary_long_divisors),
        }
    if kind in ("yarn", "longrope"):
        scaling["attention_factor"] = config.rotary_amplitude
    scaling |= trained if kind != "linear" else {}
    top = trained if kind == "longrope" else {}
    return {**theta, **top, "rope_scaling": scaling, "rope_parameters": {**scaling, **theta}}


ROPE = rotary()


def _read_window(config: Json) -> Json:
    window, context = config.get("sliding_window"), config.get("max_position_embeddings")
    return {"window": None if window is None or (context is not None and window >= context) else window}


# A window that is as long as the context is none.
SLIDING_WINDOW = Rule(("sliding_window",), _read_window, lambda config: {"sliding_window": config.window})


def layer_types(
    has_window: Callable[[Json, int], bool], *fields: str, rotates_windows_only: bool = False, keeps: bool = False
) -> Rule:
    """Return the rule of models in which some layers have a window, by layer_types.

    has_window: whether a layer has one, where config.json has no layer_types. fields: which that function reads.
    rotates_windows_only: whether the other layers have no positions. keeps: whether a window counts even where it is as
    long as the context, since its layers differ in other ways.
    """

    def read(config: Json) -> Json:
        layers, window, types = config["num_hidden_layers"], config.get("sliding_window"), config.get("layer_types")
        if types is None:
            types = [_SLIDING if has_window(config, layer) else _FULL for layer in range(layers)]
        if not isinstance(types, list) or len(types) != layers or not {_FULL, _SLIDING} >= set(types):
            raise ValueError(f"they name {len(types)} layers, or other types than {_FULL} and {_SLIDING}")
        full = tuple(layer for layer, kind in enumerate(types) if kind == _FULL)
        if window is None and len(full) < layers and keeps:
            raise ValueError(f"there are layers of {_SLIDING}, but no sliding_window")
        context = config.get("max_position_embeddings") or 1 << 20
        settings: Json = {"unrotated_layers": full if rotates_windows_only and window is not None else ()}
        if window is None or len(full) == layers or (window >= context and not keeps):
            return settings | {"window": None}
        return settings | {"window": min(window, context), "full_layers": full}

    def write(config: OpenSettings) -> Json:
        types = [_SLIDING if config.has_window(layer) else _FULL for layer in range(config.layers)]
        if rotates_windows_only and config.unrotated_layers and config.window is None:
            return {"sliding_window": config.context, "layer_types": types}
        return {"sliding_window": config.window, "layer_types": types}

    return Rule(("sliding_window", "layer_types", *fields), read, write)


def every(field: str, default: int) -> Callable[[Json, int], bool]:
    """Return whether a layer has a window, where one layer in n has none. field: the one that gives n."""
    return lambda config, layer: bool((layer + 1) % (config.get(field) or default))
