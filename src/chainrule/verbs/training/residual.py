"""The known distribution that `train` may be given: a language model, whose residual a network learns.

An n-gram model is given by its order, or by its settings: it is estimated from the training text itself, in folds, so
that no model has seen what it predicts while the network learns; the model of the whole text is the one that is kept.
A model of any family that is given has not seen the training text, or is refused.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.arguments import check_type
from chainrule.base.memory import Owned
from chainrule.base.progress import silent
from chainrule.errors import SettingError
from chainrule.mixture.components import Components, RescaledUnknown
from chainrule.mixture.config import MixtureConfig
from chainrule.mixture.interpolation import LogLinearMixture
from chainrule.mixture.residual import FOLDS, DocumentRows, KnownRows, fold_bounds, with_end, without_fold
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.opening import load
from chainrule.models.files.tokenizers import difference_of
from chainrule.models.language_models import CausalModel
from chainrule.models.run import digests_read
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.models.stream_scorer import StreamScorer
from chainrule.protocol import BEGIN, END
from chainrule.training.job import KnownDistribution

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.models.model import Model
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


def open_known(residual_of: int | NGramConfig | str | os.PathLike[str], setting: str = "residual_of") -> Known:
    """The order or the settings of an n-gram model to estimate, or a model that is given by its path.

    setting: the name of the option that has it. Raises SettingError, ModelFormatError.
    """
    if isinstance(residual_of, str) and residual_of.isdecimal():
        residual_of = int(residual_of)
    if isinstance(residual_of, int):
        return Known(str(residual_of), config=NGramConfig(order=residual_of))
    if not isinstance(residual_of, str | os.PathLike):
        check_type(setting, residual_of, NGramConfig)
        return Known(str(residual_of), config=residual_of)
    model = load(residual_of)
    if not isinstance(model, CausalModel) or not model.is_distribution:
        raise SettingError(
            f"{residual_of}: is a model of family {model.family!r}; {setting} takes a model that continues texts and "
            "whose probabilities sum to one, or the order of an n-gram model"
        )
    return Known(os.fspath(residual_of), model=model.merge())


def check_known(known: Known, tokenizer: Tokenizer, data: Mapping[str, str]) -> None:
    """Raises SettingError if a model has another tokenizer, or has seen the text. data: the digests of its files."""
    if known.model is None:
        return
    if difference := difference_of(known.model.tokenizer, tokenizer):
        raise SettingError(f"{known.name} and the network cannot be joined: {difference}")
    seen = digests_read(known.model.record)
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
        if not digests_read(known.model.record):
            says = "as far as you know: its record does not name the texts that it was trained on"
        model = known.model.language_model
        learned, held = _rows(model, stream), _rows(model, validation)
        held_out = _seems_seen(known.name, model, stream, validation)
        held_out = held_out or f"{known.name} has not seen the training text, {says}"
        held_out += "" if isinstance(model, StreamScorer) else "; it reads each document from its beginning"
        return KnownDistribution(learned, held, held_out), model
    assert known.config is not None
    bounds, models = models_of_folds(stream, vocabulary_size, known.config, progress)
    model = _estimate(with_end(stream), vocabulary_size, known.config)
    rows = KnownRows(stream, models, model.order - 1, bounds)
    held_out = f"each of {FOLDS} folds of the training text is predicted by an n-gram model of the others"
    return KnownDistribution(rows, KnownRows(validation, [model], model.order - 1), held_out), model


def models_of_folds(
    stream: Stream, vocabulary_size: int, config: NGramConfig, progress: Progress
) -> tuple[Int64[ndarray, " bounds"], list[Any]]:
    """Return where the folds of a text begin and end, and an n-gram model of the others for each."""
    bounds, models = fold_bounds(stream), []
    for fold in range(FOLDS):
        progress("estimating folds", fold, FOLDS + 1)
        models.append(_estimate(without_fold(stream, bounds, fold), vocabulary_size, config))
    progress("estimating folds", FOLDS, FOLDS + 1)
    return bounds, models


def _rows(model: LanguageModel[Any], stream: Stream) -> KnownRows | DocumentRows:
    """The distributions of a model at any position of a text. Raises SettingError."""
    return (
        KnownRows(stream, [model], model.order - 1) if isinstance(model, StreamScorer) else DocumentRows(stream, model)
    )


_SAMPLE, _FEWEST = 20_000, 1_000  # tokens that say whether a text was seen; with fewer, nothing is said
_MOST = 1 << 25  # probabilities of these that are looked at
_BELOW_OTHERS, _FAR_BELOW_OTHERS = 0.95, 0.9  # of the nats a token of the validation text: there, of a model that has
# all n-grams, and of any model
_BELOW, _DEVIATIONS = 0.975, 5  # of the nats that a model expects; how many standard deviations those are fewer
_ALL = 0.999  # of the n-grams of a text that was seen


def _seems_seen(name: str, model: LanguageModel[Any], stream: Stream, validation: Stream) -> str | None:
    """A warning if a model predicts the training text better than it can predict a text that it has not seen, whatever
    its files are called. None if it does not.

    What an n-gram model has not seen surprises it as much as its own distributions say, their entropy, or more; what it
    has seen surprises it less, since it keeps probability for what is new. This needs no other text, and a text of
    another domain, or one that is easily predicted, is not taken for one that was seen. The n-gram models of a mixture
    are judged one by one. Networks are as sure of what they have learned as they may be, and mixtures as their weights
    make them: they are judged by the validation text, if they have not seen that.
    Raises SettingError if an n-gram model is surprised less, or less than by the validation text, and has all n-grams.
    """
    learned, held = _sample(stream), _sample(validation)
    if learned.size < _FEWEST:
        return None
    measured = ""
    for part in ngrams_in(model):
        which = "it" if part is model else f"its {part.order}-gram model"
        nats, expected, is_less = _surprise(part, learned)
        compared = f"{nats:.2f} nats a token where its own distributions let one expect {expected:.2f}"
        ours, others = _nats(part, learned), _nats(part, held)
        is_seen = is_less
        if not is_less and ours < _BELOW_OTHERS * others:
            is_seen, compared = True, f"{ours:.2f} nats a token and the validation text {others:.2f}"
        if is_seen and part.order > 1 and (known := _share_of_known(part, learned)) >= _ALL:
            raise SettingError(
                f"{name}: has seen the training text, though in another file: {which} has {known:.1%} of its "
                f"{part.order}-grams, and gives it {compared}; give its order, as in residual_of={part.order}, to "
                "estimate it in folds, or a model of another text"
            )
        measured = f"{which} gives it {compared}" if is_less else measured
    ours, others = _nats(model, learned), _nats(model, held)
    if not measured and ours < _FAR_BELOW_OTHERS * others:
        measured = f"it gives it {ours:.2f} nats a token and the validation text {others:.2f}"
    if not measured:
        return None
    return (
        f"{name} seems to have seen the training text, or some of it: {measured}. A network learns little from what is "
        "predicted too well; give a model of another text, or the order of an n-gram model"
    )


def _nats(model: LanguageModel[Any], sample: Stream) -> float:
    """The mean of a sample's tokens; 0 if there are too few."""
    return -float(model.score_stream(sample).mean()) if sample.size >= _FEWEST else 0.0


def ngrams_in(model: Any) -> Iterator[Any]:
    """A model, if it is a `StreamScorer`; of a mixture, those in it."""
    own = model.model if isinstance(model, RescaledUnknown) else model
    if isinstance(own, StreamScorer):
        yield own
    for part in own.components.models if hasattr(own, "components") else ():
        yield from ngrams_in(part)


def _surprise(model: LanguageModel[Any], sample: Stream) -> tuple[float, float, bool]:
    """The nats a token that a model gives a text, those that it expects there, and whether the former are too few."""
    rows, size = _rows(model, sample), min(sample.size, _MOST // model.vocabulary_size)
    nats = expected = variance = 0.0
    block = max(1, (1 << 20) // model.vocabulary_size)
    for begin in range(0, size, block):
        positions = np.arange(begin, min(begin + block, size))
        log_probs = rows(positions).astype(np.float64)
        nats -= float(log_probs[np.arange(positions.size), sample[positions]].sum())
        probs = np.exp(log_probs)
        probs[:, BEGIN] = 0  # whose log-probability is 0 there
        entropies = -(probs * log_probs).sum(axis=1)
        expected += float(entropies.sum())
        variance += float((probs * log_probs * log_probs).sum() - (entropies * entropies).sum())
    is_less = nats < _BELOW * expected and expected - nats > _DEVIATIONS * math.sqrt(variance)
    return nats / size, expected / size, is_less


def _share_of_known(model: StreamScorer, stream: Stream) -> float:
    """The share of the n-grams of a text, within its documents, that a model has."""
    lengths = model.score_stream_with_lengths(stream)[1]
    begins = np.concatenate([[0], np.flatnonzero(stream[:-1] == END) + 1])
    depths = np.arange(stream.size) - np.repeat(begins, np.diff([*begins, stream.size]))
    inside = lengths[depths >= model.order - 1] == model.order
    return float(inside.mean()) if inside.size >= _FEWEST else 0.0


def _sample(stream: Stream) -> Stream:
    """Some documents from all over a text; of a long document, its beginning."""
    stream = np.asarray(stream)
    ends = np.append(np.flatnonzero(stream == END) + 1, stream.size)
    begins = np.concatenate([[0], ends[:-1]])
    parts = [stream[begin : min(end, begin + _SAMPLE)] for begin, end in zip(begins, ends, strict=True)]
    every = max(1, -(-sum(map(len, parts)) // _SAMPLE))
    return np.concatenate([np.empty(0, np.int32), *parts[::every]]).astype(np.int32)[:_SAMPLE]


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
