"""The families of engines around a network: they change what it predicts, by learning or by similar states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import ModelFormatError, SettingError
from chainrule.kinds import kind_named, kinds
from chainrule.models.families.family import Family
from chainrule.models.families.table import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chainrule.evaluation.likelihood import StreamScoring
    from chainrule.features.context.around import AroundNetwork
    from chainrule.models.families.family import Arrays, Json
    from chainrule.models.model import Model
    from chainrule.models.scoring_model import ScoringModel
    from chainrule.neural.language_model import NeuralModel


def network_in(model: ScoringModel, does: str) -> NeuralModel:
    """Return the network of a model, with its adapter merged. Raises SettingError if it is none that continues texts.

    does: what such models do, for the error.
    """
    from chainrule.neural.language_model import NeuralModel

    if not isinstance(model.engine, NeuralModel):
        raise SettingError(f"only networks that continue texts {does}, and this is {_what(model)}")
    network: NeuralModel = model.merge().engine
    return network


def networks_among(models: Sequence[Model], names: Sequence[str], does: str) -> list[bool]:
    """Return which of some models are networks that continue texts. Raises SettingError if none is.

    does: as in `network_in`.
    """
    from chainrule.models.language_models import CausalNetwork

    found = [isinstance(model, CausalNetwork) for model in models]
    if not any(found):
        listed = ", and ".join(f"{name} is {_what(model)}" for name, model in zip(names, models, strict=True))
        raise SettingError(f"only networks that continue texts {does}: {listed}")
    return found


def _what(model: Model) -> str:
    """Return what a model is that is no network, and what to do."""
    if "residual_of" in model.record:
        return "a network on a residual, which stays as it was trained; mix it with another network that does"
    kind = kind_named(model.family)
    title = f"a model of family {model.family!r}" if kind is None else kind.title
    advice = {
        "mixture": "; change the networks before you mix them",
        "dynamic": "; take the network alone",
        "neighbours": "; take the network alone",
    }
    return title + advice.get(model.family, "")


def counts_unknown(model: ScoringModel) -> bool:
    """Return whether <unk> in a text is evidence that it comes again.

    It is where <unk> stands for all unknown words at once. Where it stands for one of many unseen types, each <unk> of
    a text is another type.
    """
    return model.speller.unseen_types <= 1


def wrapped(name: str, engine: AroundNetwork[Any], model: ScoringModel, record: Mapping[str, Any]) -> ScoringModel:
    """Return an engine around the network of a model as a model of the family `name`. record: what that adds."""
    alone = {"models": [{"name": "network", "family": model.family}], "weights": [[1.0]]}
    full = {**model.record, "family": name, **alone, **record}
    made: ScoringModel = kinds()[name].model.get()(name, engine, model.tokenizer, full, model.speller)
    return made


def wrapping_family(
    to_state: Callable[[Any], tuple[Json, Arrays]], from_state: Callable[[str, Any, Json, Arrays, bool], Any]
) -> Family:
    """Return a family of networks with something around them.

    to_state: gives the settings and arrays of what is around a network. from_state: puts these around the network of a
    family again; last, it gets `counts_unknown`.
    """

    def take_apart(engine: AroundNetwork[Any]) -> tuple[Json, Arrays]:
        network, arrays = FAMILIES[engine.family].to_state(engine.model)
        own, own_arrays = to_state(engine)
        kept = {"network_family": engine.family, "counts_unknown": engine.counts_unknown, "settings": network}
        return {**own, **kept}, {**arrays, **own_arrays}

    def put_together(settings: Json, arrays: Arrays, vocabulary_size: int) -> Any:
        name, network = settings.get("network_family"), settings.get("settings")
        family = FAMILIES.get(name) if isinstance(name, str) else None
        if family is None or not family.trains_in_steps or family.job != "continue" or not isinstance(network, dict):
            raise ModelFormatError(f"the model has a network of family {name!r}, which is none that continues texts")
        around = {key: array for key, array in arrays.items() if key.startswith("around.")}
        inner = {key: array for key, array in arrays.items() if key not in around}
        counts = settings.get("counts_unknown") is not False
        return from_state(str(name), family.from_state(network, inner, vocabulary_size), settings, around, counts)

    def stream_scoring(engine: AroundNetwork[Any]) -> StreamScoring:
        from chainrule.evaluation.likelihood import StreamScoring

        return StreamScoring(engine.score_stream_with_unknown, engine.stream_signature)

    return Family(
        token_bytes=0,
        to_state=take_apart,
        from_state=put_together,
        stream_scoring=stream_scoring,
        context=lambda engine: FAMILIES[engine.family].context(engine.model),
    )
