"""The family of networks that learn as they read, and how a network becomes one."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from chainrule.base.options import config_among
from chainrule.errors import ModelFormatError, SettingError
from chainrule.kinds import kinds
from chainrule.models.config import DynamicOptions
from chainrule.models.families.family import Family
from chainrule.models.families.table import FAMILIES

if TYPE_CHECKING:
    from chainrule.evaluation.likelihood import StreamScoring
    from chainrule.features.dynamic.model import DynamicModel
    from chainrule.models.families.family import Arrays, Json
    from chainrule.models.scoring_model import ScoringModel

NAME = "dynamic"


def dynamic(model: ScoringModel, options: DynamicOptions) -> ScoringModel:
    """Return a model that learns as a network reads. Raises SettingError."""
    from chainrule.features.dynamic.model import DynamicModel
    from chainrule.neural.language_model import NeuralModel

    if not isinstance(model.engine, NeuralModel):
        what = "it learns already" if model.family == NAME else f"this is a model of family {model.family!r}"
        raise SettingError(f"only networks that continue texts learn as they read, and {what}; leave dynamic out")
    engine = DynamicModel(model.family, model.merge().engine, options)
    record = {**model.record, "family": NAME, "dynamic": {"family": model.family, **asdict(options)}}
    made: ScoringModel = kinds()[NAME].model.get()(NAME, engine, model.tokenizer, record, model.speller)
    return made


def _take_apart(model: DynamicModel) -> tuple[Json, Arrays]:
    settings, arrays = FAMILIES[model.family].to_state(model.model)
    return {"learns": asdict(model.options), "network_family": model.family, "settings": settings}, arrays


def _put_together(settings: Json, arrays: Arrays, vocabulary_size: int) -> DynamicModel:
    from chainrule.features.dynamic.model import DynamicModel

    name, own = settings.get("network_family"), settings.get("settings")
    family = FAMILIES.get(name) if isinstance(name, str) else None
    if family is None or not family.trains_in_steps or family.job != "continue" or not isinstance(own, dict):
        raise ModelFormatError(f"the model has a network of family {name!r}, which is none that continues texts")
    options = config_among([DynamicOptions], settings.get("learns"))
    return DynamicModel(str(name), family.from_state(own, arrays, vocabulary_size), options)


def _stream_scoring(model: DynamicModel) -> StreamScoring:
    from chainrule.evaluation.likelihood import StreamScoring

    return StreamScoring(model.score_stream_with_unknown, model.stream_signature)


def _context(model: Any) -> int | None:
    return FAMILIES[model.family].context(model.model)


DYNAMIC = Family(
    token_bytes=0, to_state=_take_apart, from_state=_put_together, stream_scoring=_stream_scoring, context=_context
)
