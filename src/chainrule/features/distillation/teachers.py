"""The models that a network learns from besides the text: what they are, and what they say of each token of the text.

An n-gram model predicts the text that it was estimated from too well. So it is estimated again in folds, each of which
is predicted by a model of the others; also where it is a part of a mixture.
"""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from chainrule.base.distributions import state_after
from chainrule.base.options import config_among
from chainrule.base.scratch import check_disk_room
from chainrule.base.threads import map_in_order
from chainrule.errors import SettingError, prefix_errors
from chainrule.features.distillation.loss import taught_into_gradient
from chainrule.kinds import CAUSAL_NETWORK, kinds
from chainrule.mixture.components import Components, RescaledUnknown, reads_streams, stream_parts
from chainrule.mixture.interpolation import LinearMixture
from chainrule.mixture.residual import DocumentRows
from chainrule.models.families.table import family_of
from chainrule.models.files.tokenizers import difference_of
from chainrule.models.run import digests_read, ids_file
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.models.stream_scorer import StreamScorer
from chainrule.protocol import BEGIN
from chainrule.storage.sources import local_path
from chainrule.training.config import TrainingConfig
from chainrule.verbs.training.residual import Known, models_of_folds, ngrams_in, open_known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.base.progress import Progress
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.verbs.training.options import TeacherOptions, TrainOptions

    Stream = Int32[ndarray, " T"]

R = TypeVar("R")

_BLOCK = 1 << 22  # probabilities at once
_PIECE = 512  # tokens of a document that a model reads one after the other, where it can read no stream


class Teachers:
    """The models that are given as `teacher`."""

    def __init__(self, options: TrainOptions, config: Any) -> None:
        """Open the models. config: of the network. Raises SettingError, ModelFormatError."""
        self.options = options
        _check(config, options)
        given = options.teacher
        names = [given] if isinstance(given, int | str | os.PathLike) else list(given or ())
        self.known = [open_known(name, "teacher") for name in names]

    @property
    def folder(self) -> str | None:
        """The first model's folder, whose tokenizer the network has by default."""
        folders = (known.name for known in self.known if known.model is not None)
        return next((name for name in folders if local_path(name).is_dir()), None)

    def read(
        self, tokenizer: Tokenizer, source: Source, stream: Stream, folder: Path | None, progress: Progress
    ) -> tuple[Taught, dict[str, Any]]:
        """Return what the models say of each token of a text, and their part of the record of the network.

        folder: where a file without a name may hold it. Raises SettingError, ModelFormatError, OutputError.
        """
        for known in self.known:
            if known.model is not None and (difference := difference_of(known.model.tokenizer, tokenizer)):
                raise SettingError(f"{known.name} cannot teach this network: {difference}")
        size, digests = tokenizer.vocabulary_size, set(source.record["data"].values())
        folds = [_in_folds(known, digests, stream, size, progress) for known in self.known]
        taught = Taught(self.options, stream, size, folder)
        _fill(taught, stream, folds, size, progress)
        digests_of_models = digests_read(*(known.model.record for known in self.known if known.model is not None))
        record = {**self.options.teacher_record, **({"data_of_models": digests_of_models} if digests_of_models else {})}
        return taught, record


def _check(config: Any, options: TrainOptions) -> None:
    """Raise SettingError where a network cannot learn from a teacher."""
    family, training = family_of(config), options.training or TrainingConfig()
    if kinds()[family].model != CAUSAL_NETWORK:
        raise SettingError(
            f"teacher is for networks that continue texts, not for a model of family {family}; leave it out"
        )
    if config.output != "full":
        raise SettingError(f"teacher needs logits of all tokens, but output is {config.output}; set it to full")
    if options.residual_of is not None:
        raise SettingError("residual_of and teacher are both given; leave one of them out")
    if training.label_smoothing:
        raise SettingError("label_smoothing and teacher are both given; leave one of them out")
    if training.forcing != "teacher":
        raise SettingError(f"forcing is {training.forcing}, which does not work with teacher; choose teacher")


class Taught:
    """The likeliest tokens of the teacher at each position of a text, and their probabilities.

    It is the teacher of `StreamOptions`. Both are in files without names, which are mapped.
    """

    def __init__(self, options: TeacherOptions, stream: Stream, vocabulary_size: int, folder: Path | None) -> None:
        """Make room. Raises OutputError."""
        self.options = options
        shape = len(stream), min(options.teacher_tokens, vocabulary_size - 1)
        kinds_of_numbers = (np.uint16 if vocabulary_size <= 1 << 16 else np.int32), np.float16
        need = sum(np.dtype(kind).itemsize for kind in kinds_of_numbers) * shape[0] * shape[1]
        check_disk_room(need, f"the teacher's {shape[1]} likeliest tokens at {shape[0]:,} positions")
        arrays = []
        for kind in kinds_of_numbers:
            with ids_file(folder) as file:
                arrays.append(np.memmap(file, kind, "w+", shape=shape))
        self.tokens, self.probs = arrays

    def __call__(
        self, positions: Int64[ndarray, " R"], logits: Float32[Tensor, "R V"], targets: Int64[Tensor, " R"]
    ) -> Float32[Tensor, ""]:
        """Return the sum of the losses at some positions; overwrite the logits with its gradient."""
        tokens, probs = (
            torch.from_numpy(array[positions].astype(kind)).to(logits.device)
            for array, kind in ((self.tokens, np.int64), (self.probs, np.float32))
        )
        weight, temperature = self.options.teacher_weight, self.options.teacher_temperature
        return taught_into_gradient(logits, targets, tokens, probs, weight, temperature)


@dataclass(frozen=True)
class _Folds:
    """A teacher: the model of each fold of the text, and where the folds begin and end."""

    name: str
    models: list[Any]
    bounds: list[int]

    def model_at(self, position: int) -> tuple[Any, int]:
        """Return the model of the fold with a position, and where the fold ends."""
        fold = int(np.searchsorted(self.bounds, position, side="right")) - 1
        return self.models[fold], self.bounds[fold + 1]


def _in_folds(known: Known, digests: set[str], stream: Stream, size: int, progress: Progress) -> _Folds:
    """Return a teacher; its n-gram models are estimated in folds where they have seen the text.

    digests: of the text's files.
    """
    if known.model is None:
        assert known.config is not None
        bounds, models = models_of_folds(stream, size, known.config, progress)
        return _Folds(known.name, models, bounds.tolist())
    engine, record = known.model.language_model, known.model.record
    if not digests & set(digests_read(record)) or not (orders := {ngram.order for ngram in ngrams_in(engine)}):
        return _Folds(known.name, [engine], [0, len(stream)])
    configs = {order: NGramConfig(order=order) for order in orders}
    if isinstance(engine, StreamScorer) and record.get("settings"):
        configs[engine.order] = config_among([NGramConfig], record["settings"])
    fresh = {}
    for order, config in configs.items():
        bounds, fresh[order] = models_of_folds(stream, size, config, progress)
    models = [
        _with_ngrams(engine, {order: own[fold] for order, own in fresh.items()}) for fold in range(len(bounds) - 1)
    ]
    return _Folds(known.name, models, bounds.tolist())


def _with_ngrams(model: Any, others: dict[int, Any]) -> Any:
    """Return a model with other n-gram models, by their orders."""
    if isinstance(model, RescaledUnknown):
        return RescaledUnknown(_with_ngrams(model.model, others), model.ratio)
    if isinstance(model, StreamScorer):
        return others[model.order]
    if not hasattr(model, "components"):
        return model
    changed, parts = copy.copy(model), model.components
    changed.components = Components(parts.families, tuple(_with_ngrams(part, others) for part in parts.models))
    return changed


def _fill(taught: Taught, stream: Stream, teachers: list[_Folds], size: int, progress: Progress) -> None:
    """Store what teachers say, in the mean, of all positions of a text. size: that of the vocabulary."""
    begin, block = 0, max(1, _BLOCK // size)
    while begin < len(stream):
        models, ends = zip(*(teacher.model_at(begin) for teacher in teachers), strict=True)
        spans = [slice(first, min(first + block, *ends)) for first in range(begin, min(ends), block)]
        for span, (tokens, probs) in zip(spans, _likeliest(taught, teachers, models, stream, spans), strict=True):
            taught.tokens[span], taught.probs[span] = tokens, probs
            progress("reading with the teacher", span.stop, len(stream))
        begin = min(ends)


def _likeliest(
    taught: Taught, teachers: list[_Folds], models: Sequence[Any], stream: Stream, spans: list[slice]
) -> Iterator[tuple[Any, Any]]:
    """Yield the likeliest tokens and their probabilities at some positions after others."""
    temperature, k = taught.options.teacher_temperature, taught.tokens.shape[1]
    if len(models) == 1 and temperature == 1 and isinstance(models[0], StreamScorer):
        for log_probs, tokens in _named(teachers[0].name, map_in_order(partial(_top, models[0], stream, k), spans)):
            yield tokens, np.exp(log_probs)
        return
    parts = [
        _named(teacher.name, _probs(model, stream, spans)) for teacher, model in zip(teachers, models, strict=True)
    ]
    for rows in zip(*parts, strict=True):
        mean = torch.from_numpy(sum(rows[1:], rows[0]) / len(rows))
        if temperature != 1:
            mean = (mean.log_() / temperature).softmax(1)
        values, indices = mean.topk(k, 1, sorted=False)
        yield indices.numpy(), values.numpy()


def _named(name: str, rows: Iterator[R]) -> Iterator[R]:
    """Yield the same; errors begin with a model's name."""
    with prefix_errors(name):
        yield from rows


def _top(model: Any, stream: Stream, k: int, span: slice) -> tuple[ndarray, ndarray]:
    top: tuple[ndarray, ndarray] = model.top(_ngram_state(model, stream, span), k)
    return top


def _ngram_probs(model: Any, stream: Stream, span: slice) -> Float32[ndarray, "R V"]:
    return np.exp(model.next_log_probs(_ngram_state(model, stream, span)))


def _ngram_state(model: Any, stream: Stream, span: slice) -> Any:
    return state_after(model, stream, np.arange(span.start, span.stop), model.order - 1)


def _probs(model: Any, stream: Stream, spans: list[slice]) -> Iterator[Float32[ndarray, "R V"]]:
    """Yield the distributions at some positions after others. Raises ModelFormatError."""
    if isinstance(model, StreamScorer):
        yield from map_in_order(partial(_ngram_probs, model, stream), spans)
    elif isinstance(model, LinearMixture):
        parts = [_probs(part, stream, spans) for part in model.components.models]
        for span, *rows in zip(spans, *parts, strict=True):
            previous = stream[np.arange(span.start, span.stop) - 1]  # of the first token, the last one, which is </s>
            weights = np.exp(model.log_weights_after(previous))[:, :, None]  # (models, R, 1)
            yield sum((row * weight for row, weight in zip(rows[1:], weights[1:], strict=True)), rows[0] * weights[0])
    elif reads_streams(model):
        part, size = stream[spans[0].start : spans[-1].stop], spans[0].stop - spans[0].start
        for [rows] in stream_parts([model], part, size) or ():
            yield np.exp(rows)
    else:
        read = DocumentRows(stream, model, _PIECE)
        for span in spans:
            rows = np.exp(read(np.arange(span.start, span.stop)))
            rows[:, BEGIN] = 0
            yield rows
