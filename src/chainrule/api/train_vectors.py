"""From a text to word vectors: words by falling frequency, training in steps, and the record of how they came about."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.api.progress_line import ProgressLine, ProgressOption, callback, shows_progress
from chainrule.api.together import Together
from chainrule.api.tokenizers import tokenized
from chainrule.api.training_record import circumstances
from chainrule.api.validation_text import ids_file
from chainrule.api.vectors_checkpoint import VectorsCheckpoint, open_checkpoint, save_checkpoint
from chainrule.api.word_vectors import FAMILY, WordVectors
from chainrule.base.memory import check_fits
from chainrule.errors import SettingError
from chainrule.protocol import END, UNKNOWN
from chainrule.text.corpus import source_of
from chainrule.text.prepare_tokenizer import keep_tokens
from chainrule.text.splitters import splitter_named
from chainrule.text.tokenizer import Tokenizer
from chainrule.text.tokenizer_config import LEARNT, TokenizerConfig, as_config
from chainrule.text.vocabulary import Vocabulary
from chainrule.text.vocabulary_kernels import FIRST_ORDINARY
from chainrule.training.interruptions import interruptions
from chainrule.training.run_folder import remove_checkpoints
from chainrule.vectors.config import VectorsConfig
from chainrule.vectors.subwords import means_of, units_of
from chainrule.vectors.training import VectorsTraining, ngrams_of, training_on_cooccurrences, training_on_text
from chainrule.vectors.training_text import TrainingText

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.text.corpus import Paths, Source
    from chainrule.text.vocabulary import Markers
    from chainrule.vectors.cooccurrences import Cooccurrences
    from chainrule.vectors.training import VectorsReport

WORDS = TokenizerConfig(kind="word", min_count=5)  # word2vec.c's least count
_KEPT_EVERY = 120.0  # seconds between checkpoints


@shows_progress
def train_vectors(
    source: Source | Paths | Together,
    config: VectorsConfig | None = None,
    *,
    tokenizer: TokenizerConfig | str = WORDS,
    markers: Markers = "error",
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    on_report: Callable[[VectorsReport], None] | None = None,
    progress: ProgressOption = None,
) -> WordVectors:
    """Trains word vectors on a text, a line a document; or GloVe's on co-occurrences that were counted before.

    tokenizer: as `train` has it; with nothing said, words that stand there five times or more. folder: where
    checkpoints go; resume: go on from the one in it. on_report: is given a VectorsReport after each step.
    Raises TextError, SettingError, OutputError, ModelFormatError; EstimationError where the learning rate is too high;
    KeyboardInterrupt, with what to do to go on.

    good:  chainrule.train_vectors("corpus.txt").save("words/")
    good:  chainrule.train_vectors("corpus.txt", chainrule.VectorsConfig(method="cbow", subwords="3-6"))
    """
    on_progress = callback(progress)
    config, tokenizer = config or VectorsConfig(), as_config(tokenizer)
    place = None if folder is None else Path(folder)
    began = time.perf_counter()
    with ids_file(place) as file:
        if isinstance(source, Together):
            material = _counted(source, config, tokenizer)
        else:
            material = _read(source_of(source), tokenizer, markers, on_progress, file)
        config = config.resolved()
        run = {"settings": asdict(config), "text": material.digest}
        checkpoint = open_checkpoint(place, run) if resume and place is not None else None
        check_fits(2 * 4 * material.counts.size * (config.dimensions + 16), "training these vectors")
        start = checkpoint or (None, None)
        if isinstance(material.text, TrainingText):
            training = training_on_text(material.text, config, on_progress, *start)
        else:
            training = training_on_cooccurrences(material.text, config, *start)
        _run(training, place, run, on_report or _reporter(on_progress))
    record = {
        **circumstances(FAMILY, config),
        "seconds": time.perf_counter() - began,
        **material.record,
        "losses": training.state.epoch_losses,
        "training_seconds": training.seconds,
        "words_per_second": training.report().words_per_second if training.seconds else 0.0,
    }
    arrays, settings = _result(training, material)
    return WordVectors(material.tokenizer, arrays, settings, record, ngrams_of(config))


def remove_finished(folder: Path) -> None:
    """The checkpoints of a training whose vectors are saved."""
    remove_checkpoints(folder)


def read_words(
    source: Source, tokenizer: TokenizerConfig, markers: Markers, progress: Progress, file: Any = None
) -> tuple[Tokenizer, Int32[ndarray, " tokens"]]:
    """A text as ids of words, the most frequent first. Raises TextError, SettingError."""
    if os.fspath(tokenizer.kind) in LEARNT:
        raise SettingError(
            f"{tokenizer.kind} cuts words into pieces; word vectors are of words: take word or whitespace"
        )
    learner, stream, _ = tokenized(source, tokenizer, markers, progress, file=file)
    tokens = learner.vocabulary.tokens()
    counts = _counts(stream, len(tokens))
    order = FIRST_ORDINARY + np.argsort(-counts[FIRST_ORDINARY:], kind="stable")
    ordered = keep_tokens([tokens[token] for token in order.tolist()], learner, stream)
    return ordered.tokenizer, ordered.stream


class _Material(NamedTuple):
    """What is trained on. counts: how often each word occurs. record: of it, for the model's."""

    tokenizer: Tokenizer
    counts: Int64[ndarray, " words"]
    text: TrainingText | Cooccurrences
    digest: str
    record: dict[str, Any]


def _counted(together: Together, config: VectorsConfig, tokenizer: TokenizerConfig) -> _Material:
    """Raises SettingError where settings are given that were chosen when the words were counted."""
    if config.method != "glove":
        raise SettingError(f"co-occurrences are what glove learns from; {config.method} needs the text itself")
    if config.window is not None:
        raise SettingError("the window was chosen when the co-occurrences were counted; leave it out")
    if tokenizer != WORDS:
        raise SettingError("the words of co-occurrences are what they are; choose a tokenizer when they are counted")
    words = [word.encode() for word in together.words]
    digest = hashlib.sha256(b"\n".join(words))
    for array in together.counted:
        digest.update(np.ascontiguousarray(array).data)
    learner = Tokenizer(splitter_named("whitespace"), Vocabulary(words))
    counts = np.array(together.occurrences, np.int64)
    record = {**together.record, "cooccurrences": together.pairs}
    return _Material(learner, counts, together.counted, digest.hexdigest(), record)


def _read(source: Source, tokenizer: TokenizerConfig, markers: Markers, progress: Progress, file: Any) -> _Material:
    learner, stream = read_words(source, tokenizer, markers, progress, file)
    counts = _counts(stream, len(learner.vocabulary))
    words = learner.vocabulary.tokens()[FIRST_ORDINARY:]
    seen = counts[FIRST_ORDINARY:] > 0  # a given vocabulary may have words that the text has not
    words, own = words[: int(seen.sum())], counts[FIRST_ORDINARY:][: int(seen.sum())]
    if len(words) < len(seen):
        learner = keep_tokens(words, learner, stream).tokenizer
    text, unknown = TrainingText(stream, words, own), int(counts[UNKNOWN])
    record = {
        "tokenizer": {name: value for name, value in asdict(tokenizer).items() if value != getattr(WORDS, name)},
        **source.record,
        "documents": int(counts[END]),
        "tokens": int(own.sum()) + unknown,
        "unknown_tokens": unknown,
    }
    return _Material(learner, own, text, _digest(text), record)


def _counts(stream: Int32[ndarray, " tokens"], size: int) -> ndarray:
    counts = np.zeros(size, np.int64)
    for start in range(0, stream.size, 1 << 22):  # np.bincount copies what it counts
        counts += np.bincount(stream[start : start + (1 << 22)], minlength=size)
    return counts


def _digest(text: TrainingText) -> str:
    """Of the ids and the words."""
    digest = hashlib.sha256(b"\n".join(text.words))
    for start in range(0, text.stream.size, 1 << 22):
        digest.update(np.ascontiguousarray(text.stream[start : start + (1 << 22)]).data)
    return digest.hexdigest()


def _reporter(progress: Progress) -> Callable[[VectorsReport], None]:
    """What shows reports where progress is shown."""
    if isinstance(progress, ProgressLine):
        return progress.report  # type: ignore[return-value]  # it reads step, steps, note and valid_loss, which this has
    return lambda report: progress("training", report.step, report.steps)


def _run(
    training: VectorsTraining, folder: Path | None, run: dict[str, Any], on_report: Callable[[VectorsReport], None]
) -> None:
    """Raises KeyboardInterrupt where it was interrupted, after a checkpoint where there is a folder."""

    def save() -> None:
        if folder is not None:
            save_checkpoint(folder, VectorsCheckpoint(training.matrices, training.state), run)

    kept = time.perf_counter()
    with interruptions() as interruption:
        while training.step < training.steps:
            training.advance()
            on_report(training.report())
            if interruption.signal and training.step < training.steps:
                save()
                where = f"step {training.step:,} of {training.steps:,}"
                if folder is None:
                    raise KeyboardInterrupt(f"interrupted after {where}; nothing was kept, since no folder was given")
                raise KeyboardInterrupt(
                    f"interrupted after {where}; continue from {folder} with the same settings and resume=True"
                )
            if time.perf_counter() - kept > _KEPT_EVERY:
                save()
                kept = time.perf_counter()


def _result(training: VectorsTraining, material: _Material) -> tuple[dict[str, ndarray], dict[str, Any]]:
    """The arrays and the settings of what was trained."""
    config, matrices, words = training.config, training.matrices, material.counts.size
    settings = asdict(config)
    if not isinstance(material.text, TrainingText):
        settings["window"] = material.record.get("counting", {}).get("window")
    own = {name: matrix[:, : config.dimensions] for name, matrix in matrices.items() if not name.endswith("_biases")}
    arrays: dict[str, ndarray] = {"counts": material.counts} if material.counts.any() else {}
    if config.method == "glove":
        arrays |= {"vectors": own["words"] + own["contexts"], "centres": own["words"], "contexts": own["contexts"]}
        arrays |= {
            "word_biases": matrices["word_biases"][0].copy(),
            "context_biases": matrices["context_biases"][0].copy(),
        }
        return arrays, settings
    arrays["nodes" if config.loss == "hierarchical" else "contexts"] = np.ascontiguousarray(own["outputs"])
    ngrams = ngrams_of(config)
    if ngrams is None:
        return {**arrays, "vectors": np.ascontiguousarray(own["inputs"])}, settings
    units = units_of(material.tokenizer.vocabulary.tokens()[FIRST_ORDINARY:], ngrams)
    arrays |= {
        "vectors": means_of(units, own["inputs"]),
        "centres": np.ascontiguousarray(own["inputs"][:words]),
    }
    arrays |= {"ngrams": np.ascontiguousarray(own["inputs"][words:]), "buckets": units.seen}
    return arrays, {**settings, "ngrams": list(ngrams)}
