"""The family of networks that look for similar states, and how a network becomes one."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.base.options import config_among, takes
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.context.wrapped import counts_unknown, network_in, wrapped, wrapping_family
from chainrule.features.neighbours.options import NeighbourOptions, NeighbourSettings
from chainrule.models.any_model import check_kind
from chainrule.models.language_models import CausalModel
from chainrule.models.progress_line import showing
from chainrule.protocol import UNKNOWN
from chainrule.text.corpus.corpus import source_of
from chainrule.text.tokenization.tokenizer import encode_stream
from chainrule.verbs.mix import heldout_stream

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.neighbours.model import NeighbourModel
    from chainrule.features.neighbours.states import Datastore
    from chainrule.models.families.family import Arrays, Json
    from chainrule.models.model import Model
    from chainrule.neural.language_model import NeuralModel

NAME = "neighbours"
LOOKS = "look for neighbours"  # what such models do, for errors
_NEAREST = 1024  # by default


@takes(NeighbourOptions)
def with_neighbours(model: Model, options: NeighbourOptions) -> CausalModel:
    """Return a model that mixes a network with what came after similar states of it: at the last tokens that are read,
    a neural cache (Grave et al. 2017), or in another text, kNN-LM (Khandelwal et al. 2020).

    The network does not change. Theta, temperature and weights that are not set are tuned on `heldout`. Raises
    SettingError if the model is no network that continues texts; TextError, EstimationError.

    good:  chainrule.with_neighbours(network, neural_cache=2000, heldout="valid.txt").save("cached/")
    good:  chainrule.with_neighbours(network, neighbours="train.txt", heldout="valid.txt").save("knn/")
    """
    from chainrule.features.neighbours.model import NeighbourModel
    from chainrule.features.neighbours.tuning import tuned

    causal = check_kind(model, CausalModel)
    network = network_in(causal, LOOKS)
    settings = NeighbourSettings(**{own.name: getattr(options, own.name) for own in fields(NeighbourSettings)})
    needed = ["neural_cache_theta", "neural_cache_weight"] * (options.neural_cache is not None)
    needed += ["neighbours_temperature", "neighbours_weight"] * (options.neighbours is not None)
    missing = [name for name in needed if getattr(settings, name) is None]
    if missing and options.heldout is None:
        raise SettingError(f"{' and '.join(missing)} have to be set, or tuned on a text; give one with heldout=...")
    record: dict[str, Any] = {}
    with showing(options.progress) as progress:
        store, text = None, None
        if options.neighbours is not None:
            text = source_of(options.neighbours, causal.document)
            stream = encode_stream(causal.tokenizer, text, progress)
            store = _store_of(network, stream, options.neighbours_count, progress)
            settings = replace(settings, neighbours_count=options.neighbours_count or min(_NEAREST, len(store)))
            record["text"] = {**text.record, "tokens": len(store)}
        counts = counts_unknown(causal)
        engine = NeighbourModel(causal.family, network, settings, store, counts_unknown=counts)
        if missing:
            heldout = source_of(options.heldout, causal.document)  # type: ignore[arg-type]  # there is one
            stream = heldout_stream(heldout, causal.tokenizer, progress)
            if text is not None and not set(text.record["data"].values()).isdisjoint(heldout.record["data"].values()):
                raise SettingError(
                    f"{', '.join(heldout.sources)} is also the text of the neighbours, where each token would find "
                    "itself; tune on another one"
                )
            unknown = int(np.count_nonzero(stream == UNKNOWN))
            record["tuned_on"] = {**heldout.record, "tokens": len(stream), "unknown_tokens": unknown}
            best = tuned(engine, stream, progress)
            engine = NeighbourModel(causal.family, network, best, store, counts_unknown=counts)
    return cast("CausalModel", wrapped(NAME, engine, causal, _record(engine, causal.family, record)))


def _record(engine: NeighbourModel, family: str, made_of: Json) -> Json:
    """Return what the record of a model adds to that of its network. made_of: its texts."""
    own = engine.settings
    shown = [{"name": "network", "family": family}]
    weights = [engine.weights[0]]
    if own.neural_cache is not None:
        shown.append({"name": "cache", "family": f"theta {own.neural_cache_theta:.3g}"})
        weights.append(engine.weights[1])
    if engine.store is not None:
        shown.append({"name": "neighbours", "family": f"temperature {own.neighbours_temperature:.3g}"})
        weights.append(engine.weights[2])
    return {"neighbours": {"family": family, **asdict(own)}, **made_of, "models": shown, "weights": [weights]}


def _store_of(model: NeuralModel, stream: Int32[ndarray, " T"], count: int | None, progress: Progress) -> Datastore:
    """Return the states of a network before each token of a stream. Raises SettingError if there are too few."""
    from chainrule.features.neighbours.model import states_along
    from chainrule.features.neighbours.states import Datastore

    if not len(stream):
        raise SettingError("the text of the neighbours is empty; give one with text in it")
    if count is not None and count > len(stream):
        raise SettingError(
            f"neighbours_count is {count:,}, and the text has only {len(stream):,} tokens; set at most that"
        )
    keys = np.empty((len(stream), model.network.encoder.width), np.float16)
    done = 0
    for part in states_along(model, [stream]):
        progress("reading the text of the neighbours", done, len(stream))
        states = part.float().cpu().numpy()
        if keys.dtype == np.float16 and not (np.abs(states) <= np.finfo(np.float16).max).all():
            keys = keys.astype(np.float32)
        keys[done : done + len(part)] = states
        done += len(part)
    return Datastore(keys, stream.astype(np.int32))


def _take_apart(model: NeighbourModel) -> tuple[Json, Arrays]:
    arrays = {} if model.store is None else {"around.keys": model.store.keys, "around.tokens": model.store.tokens}
    return {"looks": asdict(model.settings)}, arrays


def _put_together(family: str, network: Any, settings: Json, arrays: Arrays, counts_unknown: bool) -> NeighbourModel:
    from chainrule.features.neighbours.model import NeighbourModel
    from chainrule.features.neighbours.states import Datastore

    own = config_among([NeighbourSettings], settings.get("looks"))
    has_store = own.neighbours_count is not None
    needed = [own.neural_cache_theta, own.neural_cache_weight] * (own.neural_cache is not None)
    needed += [own.neighbours_temperature, own.neighbours_weight] * has_store
    if None in needed or has_store != (arrays.keys() == {"around.keys", "around.tokens"}):
        raise ModelFormatError(
            "the settings of the neighbours lack a number, or the file the states; it is damaged: try chainrule verify"
        )
    store = Datastore(arrays["around.keys"], arrays["around.tokens"]) if has_store else None
    return NeighbourModel(family, network, own, store, counts_unknown=counts_unknown)


NEIGHBOURS = wrapping_family(_take_apart, _put_together)
