"""Trains a network further, on other text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from chainrule.api.conditional.pair_model import FAMILY
from chainrule.api.models.load_model import load
from chainrule.api.training.train import train
from chainrule.base.options import config_from_json
from chainrule.errors import SettingError
from chainrule.families.table import FAMILIES
from chainrule.neural.config import NETWORKS, TWO_SIDED
from chainrule.storage.config_json import read_config
from chainrule.storage.hugging_face import is_hugging_face

if TYPE_CHECKING:
    import os

    from chainrule.api.models.model import Model
    from chainrule.api.progress_line import ProgressOption
    from chainrule.api.run_options import RunOptions
    from chainrule.neural.config import NetworkConfig
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.vocabulary import Markers
    from chainrule.training.config import TrainingConfig, TrainingRun


def adapt(
    model: str | os.PathLike[str],
    source: Source | Paths,
    *,
    markers: Markers = "error",
    training: TrainingConfig | None = None,
    validation: Source | Paths | None = None,
    run: TrainingRun | None = None,
    progress: ProgressOption = None,
    **options: Unpack[RunOptions],
) -> Model:
    """Trains a network further, on other text; returns a new model with the same settings and tokenizer.

    model: the folder of a network of any family. Words that its tokenizer does not know stay unknown. The other
    arguments are those of `train`. Raises SettingError if the model is not a network, and what `train` raises.

    good:  chainrule.adapt("lm/", "law.txt", training=chainrule.TrainingConfig(minutes=2)).save("law/")
    """
    network_config_of(Path(model))
    return train(
        source,
        markers=markers,
        training=training,
        validation=validation,
        start=model,
        run=run,
        progress=progress,
        **options,
    )


def network_config_of(folder: Path) -> NetworkConfig:
    """The settings of the network in a folder. Raises SettingError if it holds no network; ModelFormatError."""
    if is_hugging_face(folder):
        model = load(folder)
        _check_trainable(folder, model.family)
        own: NetworkConfig = model.engine.network.config
        return own
    entry = read_config(folder)
    if entry.family == FAMILY:
        raise SettingError(
            f"{folder}: a model of pairs cannot be trained further on plain text; expected a model of single texts"
        )
    _check_trainable(folder, entry.family)
    config: NetworkConfig = config_from_json(FAMILIES[entry.family].config, entry.settings.get("network"))
    return config


def _check_trainable(folder: Path, family: str) -> None:
    """Raises SettingError."""
    if family not in (*NETWORKS, *TWO_SIDED):
        raise SettingError(
            f"{folder}: a model of family {family!r} cannot be trained further; expected a network that predicts tokens"
        )
