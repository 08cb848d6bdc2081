"""The known distribution that `train` may be given: a language model, whose residual a network learns.

An n-gram model is given by its order, or by its settings: it is estimated from the training text itself, in folds, so
that no model has seen what it predicts while the network learns; the model of the whole text is the one that is kept.
A model of any family that is given has not seen the training text, or is refused.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.api.models.language_models import CausalModel
from chainrule.api.models.load_model import load
from chainrule.api.tokenizers import difference_of
from chainrule.base.arguments import check_type
from chainrule.base.memory import Owned
from chainrule.base.progress import silent
from chainrule.errors import SettingError
from chainrule.families.table import FAMILIES
from chainrule.mixture.components import Components
from chainrule.mixture.config import MixtureConfig
from chainrule.mixture.interpolation import LogLinearMixture
from chainrule.mixture.residual import FOLDS, DocumentRows, KnownRows, fold_bounds, with_end, without_fold
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.models.stream_scorer import StreamScorer
from chainrule.training.job import KnownDistribution

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.api.models.model import Model
    from chainrule.base.progress import Progress
    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Stream = Int32[ndarray, " tokens"]


@dataclass(frozen=True)
class Known:
    """What a network learns the residual of: a model, or the settings of an n-gram model to estimate from the text.

    name: as it is given, in records.
    """

    name: str
    config: NGramConfig | None = None
    model: Model | None = None

    @property
    def model_name(self) -> str:
        """The name of the known model in the mixture."""
        return self.name if self.config is None else f"{self.config.order}-gram"

    @property
    def family(self) -> str:
        """The family of the known model."""
        return "ngram" if self.model is None else self.model.family


def open_known(residual_of: int | NGramConfig | str | os.PathLike[str]) -> Known:
    """The order or the settings of an n-gram model to estimate, or a model that is given by its path.

    Raises SettingError, ModelFormatError.
    """
    if isinstance(residual_of, str) and residual_of.isdecimal():
        residual_of = int(residual_of)
    if isinstance(residual_of, int):
        return Known(str(residual_of), config=NGramConfig(order=residual_of))
    if not isinstance(residual_of, str | os.PathLike):
        check_type("residual_of", residual_of, NGramConfig)
        return Known(str(residual_of), config=residual_of)
    model = load(residual_of)
    if not isinstance(model, CausalModel) or not model.is_distribution:
        raise SettingError(
            f"{residual_of}: is a model of family {model.family!r}; residual_of takes a model that continues texts and "
            "whose probabilities sum to one, or the order of an n-gram model"
        )
    return Known(os.fspath(residual_of), model=model)


def check_known(known: Known, tokenizer: Tokenizer, data: Mapping[str, str]) -> None:
    """Raises SettingError if a model has another tokenizer, or has seen the text. data: the digests of its files."""
    if known.model is None:
        return
    if difference := difference_of(known.model.tokenizer, tokenizer):
        raise SettingError(f"{known.name} and the network cannot be joined: {difference}")
    record = known.model.record
    seen = {*record.get("data", {}).values(), *record.get("tuned_on", {}).get("data", {}).values()}
    for name, digest in data.items():
        if digest in seen:
            instead = (
                f"its order, as in residual_of={known.model.engine.order}, to estimate it in folds"
                if isinstance(known.model.engine, StreamScorer)
                else "the order of an n-gram model, as in residual_of=6, to estimate one in folds"
            )
            raise SettingError(
                f"{known.name}: was estimated from {name}, the training text, which it predicts too well to be learned "
                f"from; give {instead}, or a model of another text"
            )


def known_distribution(
    known: Known, stream: Stream, validation: Stream, vocabulary_size: int, progress: Progress
) -> tuple[KnownDistribution, LanguageModel[Any]]:
    """The distributions in training and validation; and the model that is kept. Raises SettingError."""
    if known.model is not None:
        says = "as far as its record says"
        if "data" not in known.model.record:
            says = "as far as you know: its record does not name the texts that its models were trained on"
        held_out = f"{known.name} has not seen the training text, {says}"
        model = known.model.language_model
        if not isinstance(model, StreamScorer):
            held_out += "; it reads each document from its beginning"
            return KnownDistribution(DocumentRows(stream, model), DocumentRows(validation, model), held_out), model
        rows = KnownRows(stream, [model], model.order - 1)
    else:
        assert known.config is not None
        bounds, models = fold_bounds(stream), []
        for fold in range(FOLDS):
            progress("estimating folds", fold, FOLDS + 1)
            models.append(_estimate(without_fold(stream, bounds, fold), vocabulary_size, known.config))
        progress("estimating folds", FOLDS, FOLDS + 1)
        model = _estimate(with_end(stream), vocabulary_size, known.config)
        rows = KnownRows(stream, models, model.order - 1, bounds)
        held_out = f"each of {FOLDS} folds of the training text is predicted by an n-gram model of the others"
    return KnownDistribution(rows, KnownRows(validation, [model], model.order - 1), held_out), model


def _estimate(stream: Stream, vocabulary_size: int, config: NGramConfig) -> Any:
    """An n-gram model of a text, which may be a part of a document."""
    model, _ = FAMILIES["ngram"].train(Owned(stream), vocabulary_size, config, silent)
    return model


def join_known(
    families: tuple[str, str], network: Any, known: Any, weight: float
) -> tuple[LogLinearMixture, MixtureConfig]:
    """A network and its known distribution as one model, and its settings.

    families: of both. weight: of the known distribution.
    """
    config = MixtureConfig(kind="log-linear", weights=(1.0, weight))
    return LogLinearMixture(Components(families, (network, known)), np.array(config.weights)), config
