"""The family of networks that learn as they read, and how a network becomes one."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from chainrule.base.options import config_among
from chainrule.features.context.wrapped import counts_unknown, network_in, wrapped, wrapping_family
from chainrule.models.config import DynamicOptions

if TYPE_CHECKING:
    from chainrule.features.dynamic.model import DynamicModel
    from chainrule.models.families.family import Arrays, Json
    from chainrule.models.scoring_model import ScoringModel

NAME = "dynamic"
LEARNS = "learn as they read"  # what such models do, for errors


def dynamic(model: ScoringModel, options: DynamicOptions) -> ScoringModel:
    """Return a model that learns as a network reads. Raises SettingError."""
    from chainrule.features.dynamic.model import DynamicModel

    engine = DynamicModel(model.family, network_in(model, LEARNS), options, counts_unknown(model))
    return wrapped(NAME, engine, model, {"dynamic": {"family": model.family, **asdict(engine.options)}})


def _put_together(family: str, network: Any, settings: Json, arrays: Arrays, counts_unknown: bool) -> DynamicModel:
    from chainrule.features.dynamic.model import DynamicModel

    return DynamicModel(family, network, config_among([DynamicOptions], settings.get("learns")), counts_unknown)


DYNAMIC = wrapping_family(lambda model: ({"learns": asdict(model.options)}, {}), _put_together)
