"""Takes language models of trees apart for a model folder, and puts them together again, as `saving` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.base.options import config_from_json
from chainrule.errors import ModelFormatError
from chainrule.neural.config.network import settings_of
from chainrule.neural.config.tree import TreeConfig
from chainrule.neural.saving import arrays_of, check_layers, filled_network
from chainrule.neural.tree_model import TreeModel
from chainrule.neural.tree_network import TreeNetwork

if TYPE_CHECKING:
    from numpy import ndarray

    Json = dict[str, Any]
    Arrays = dict[str, ndarray]


def take_apart(model: TreeModel) -> tuple[Json, Arrays]:
    """The settings of the network, and its weights by name."""
    return {"network": settings_of(model.network.config)}, arrays_of(model.network)


def put_together(settings: Json, arrays: Arrays, vocabulary_size: int) -> TreeModel:
    """A model from what `take_apart` returned; it uses the arrays without a copy. Raises ModelFormatError."""
    if settings.keys() != {"network"}:
        raise ModelFormatError(
            f"the fields of the settings are {', '.join(sorted(settings)) or 'missing'}; expected network"
        )
    config: TreeConfig = config_from_json(TreeConfig, settings["network"])
    check_layers(config.layers, arrays)
    return TreeModel(filled_network(lambda: TreeNetwork(config, vocabulary_size), arrays))
