"""A mixture as settings and arrays, for a model folder, and back. The caller saves and restores its components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import ModelFormatError
from chainrule.mixture.components import Components
from chainrule.mixture.linear import LinearMixture
from chainrule.mixture.log_linear import LogLinearMixture
from chainrule.mixture.unseen_words import FewerUnseen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy import ndarray

    Arrays = dict[str, ndarray]
    Json = dict[str, Any]


def take_apart(model: Any, take_component: Callable[[str, Any], tuple[Json, Arrays]]) -> tuple[Json, Arrays]:
    """The arrays of component i get the prefix `i.`; the settings of all components are a list in the mixture's.

    take_component: family, model -> settings, arrays.
    """
    settings: Json = {"kind": model.kind, "weights": model.weights.tolist(), "components": []}
    arrays: Arrays = {}
    for i, (name, component) in enumerate(zip(model.components.families, model.components.models, strict=True)):
        fewer = isinstance(component, FewerUnseen)
        own, own_arrays = take_component(name, component.model if fewer else component)
        ratio = {"unseen_ratio": component.ratio} if fewer else {}
        settings["components"].append({"family": name, "settings": own, **ratio})
        arrays |= {f"{i}.{key}": array for key, array in own_arrays.items()}
    classes = getattr(model, "classes", None)
    return settings, arrays if classes is None else {**arrays, "classes": classes}


def put_together(
    settings: Json, arrays: Arrays, vocabulary_size: int, families: Mapping[str, Callable[[Json, Arrays, int], Any]]
) -> LinearMixture | LogLinearMixture:
    """The mixture of settings and arrays. families: how to restore a component, by family. Raises ModelFormatError."""
    listed, kind, weights = settings.get("components"), settings.get("kind"), settings.get("weights")
    known = isinstance(listed, list) and all(
        isinstance(entry, dict) and entry.get("family") in families and isinstance(entry.get("settings"), dict)
        for entry in listed
    )
    if not known or not listed or kind not in ("linear", "log-linear") or not isinstance(weights, list):
        raise ModelFormatError("the mixture's settings lack components, kind or weights that this version knows")
    models = []
    for i, entry in enumerate(listed):
        own = {key.removeprefix(f"{i}."): array for key, array in arrays.items() if key.startswith(f"{i}.")}
        model = families[entry["family"]](entry["settings"], own, vocabulary_size)
        models.append(FewerUnseen(model, entry["unseen_ratio"]) if "unseen_ratio" in entry else model)
    components = Components(tuple(entry["family"] for entry in listed), tuple(models))
    try:
        mixture_weights = np.array(weights, np.float64)
    except (TypeError, ValueError):
        raise ModelFormatError(f"the weights of the mixture are {weights!r}; expected numbers") from None
    if kind == "log-linear":
        return LogLinearMixture(components, mixture_weights)
    return LinearMixture(components, mixture_weights, arrays.get("classes"))
