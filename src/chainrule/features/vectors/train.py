"""Trains word vectors on a text, or on co-occurrences counted before; keeps checkpoints, and resumes bit for bit.

    checkpoints/checkpoint.json             the settings, the state, and the name of the matrices' file
    checkpoints/last-<digest>.safetensors   the matrices

Replacing checkpoint.json is the one commit point.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from dataclasses import KW_ONLY, asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.arguments import as_path
from chainrule.base.files import parse_json, read_file, replace_file
from chainrule.base.lanes import pad_to_lanes
from chainrule.base.memory import check_fits
from chainrule.base.options import option, takes
from chainrule.base.scratch import token_counts
from chainrule.errors import ModelFormatError, OutputError, SettingError
from chainrule.features.vectors.cooccurrences import CooccurrenceMatrix, read_words
from chainrule.features.vectors.learning.config import VectorsConfig
from chainrule.features.vectors.learning.fasttext import means_of, units_of
from chainrule.features.vectors.learning.learning import TrainingText, zero_rows
from chainrule.features.vectors.learning.training import (
    TrainingState,
    VectorsTraining,
    ngrams_of,
    training_on_cooccurrences,
    training_on_text,
)
from chainrule.features.vectors.model import FAMILY, WordVectors
from chainrule.features.vectors.options import WORDS, WordOptions
from chainrule.models.progress_line import ProgressLine, showing
from chainrule.models.run import ids_file, record_header
from chainrule.models.run_options import CheckpointOptions
from chainrule.protocol import END, UNKNOWN
from chainrule.storage.safetensors import file_digest, open_tensors, write_tensors
from chainrule.text.corpus.corpus import source_of
from chainrule.text.tokenization.build import keep_tokens
from chainrule.text.tokenization.config import TokenizerConfig, as_config
from chainrule.text.tokenization.splitters import splitter_named
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.text.tokenization.vocabulary import Vocabulary
from chainrule.text.tokenization.vocabulary_kernels import FIRST_ORDINARY
from chainrule.training.checkpoint import FOLDER, INDEX, START_OVER, remove_checkpoints
from chainrule.training.config import differences
from chainrule.training.reports import interruptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.vectors.learning.cooccurrences import Cooccurrences
    from chainrule.features.vectors.learning.training import VectorsReport
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.vocabulary import Markers

_KIND = "vectors"


class VectorsCheckpoint(NamedTuple):
    """The matrices and state of a training."""

    matrices: dict[str, ndarray]
    state: TrainingState


def save_checkpoint(folder: Path, checkpoint: VectorsCheckpoint, run: dict[str, Any]) -> None:
    """Write a checkpoint. run: the settings and text that must be the same to resume. Raises OutputError."""
    checkpoints = folder / FOLDER
    try:
        checkpoints.mkdir(parents=True, exist_ok=True)
        temporary = checkpoints / "last.tmp"
        digest = write_tensors(temporary, {name: np.ascontiguousarray(m) for name, m in checkpoint.matrices.items()})
        name = f"last-{digest[:16]}.safetensors"
        os.replace(temporary, checkpoints / name)
    except OSError as error:
        raise OutputError(
            f"{checkpoints}: cannot be written: {error.strerror}; free disk space, then continue with resume=True"
        ) from error
    index = {
        "kind": _KIND,
        "run": run,
        "state": asdict(checkpoint.state),
        "file": name,
        "sha256": digest,
    }
    with replace_file(checkpoints / INDEX) as file:
        file.write(json.dumps(index, indent=2).encode())
    for old in checkpoints.glob("last-*.safetensors"):
        if old.name != name:
            with suppress(OSError):
                old.unlink()


def open_checkpoint(folder: Path, run: dict[str, Any]) -> VectorsCheckpoint | None:
    """Open the checkpoint in a folder, if there is one.

    Raises SettingError if it is of another run; ModelFormatError if it is damaged.
    """
    index = folder / FOLDER / INDEX
    if not index.exists():
        return None
    try:
        read = parse_json(read_file(index))
        kind, settings, text = read["kind"], dict(read["run"]["settings"]), read["run"]["text"]
        name = str(read["file"])
        state, digest = _state_of(**read["state"]), read["sha256"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFormatError(f"{index}: is not a checkpoint of word vectors; {START_OVER}") from error
    differing = differences(settings, run["settings"]) + (["the text differs"] if text != run["text"] else [])
    if kind != _KIND or differing:
        what = "; ".join(differing) if kind == _KIND else f"it is of {kind}"
        raise SettingError(f"{folder}: cannot resume: {what}; use the same settings and text, or {START_OVER}")
    path = folder / FOLDER / os.path.basename(name)
    try:
        if file_digest(path) != digest:
            raise ModelFormatError(f"{path}: is damaged, its checksum differs; {START_OVER}")
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be read: {error.strerror}; {START_OVER}") from error
    return VectorsCheckpoint({name: _aligned(array) for name, array in open_tensors(path).items()}, state)


def _state_of(*, step: int, epoch_losses: list[float], loss: float, examples: int) -> TrainingState:
    """Return the state that JSON values describe. Raises TypeError, ValueError."""
    losses = [float(epoch_loss) for epoch_loss in epoch_losses]
    return TrainingState(step=int(step), epoch_losses=losses, loss=float(loss), examples=int(examples))


def _aligned(array: ndarray) -> ndarray:
    """Return a writable copy, its rows aligned as the kernels need them."""
    if array.dtype != np.float32 or array.shape[1] != pad_to_lanes(array.shape[1]):
        return array.copy()
    rows = zero_rows(*array.shape)
    rows[:] = array
    return rows


_CHECKPOINT_SECONDS = 120.0  # seconds between checkpoints


@dataclass(frozen=True)
class TrainVectorsOptions(CheckpointOptions, WordOptions):
    """What word vectors learn from, and how."""

    source: Source | Paths | CooccurrenceMatrix
    config: VectorsConfig | None = option(None, "their settings", flag=None)
    _: KW_ONLY
    on_report: Callable[[VectorsReport], None] | None = option(
        None, "a callback that gets a VectorsReport after each step", flag=None
    )


@takes(TrainVectorsOptions)
def train_vectors(options: TrainVectorsOptions) -> WordVectors:
    """Train word vectors on a text, in which each line is a document; or GloVe's on co-occurrences counted before.

    tokenizer: as in `train`; by default, words that occur five times or more. folder: where checkpoints go; resume:
    whether to continue from the last one. on_report: a callback that gets a VectorsReport after each step.
    Raises TextError, SettingError, OutputError, ModelFormatError; EstimationError if the learning rate is too high;
    KeyboardInterrupt, which says how to resume.

    good:  chainrule.train_vectors("corpus.txt").save("words/")
    good:  chainrule.train_vectors("corpus.txt", chainrule.VectorsConfig(method="cbow", subwords="3-6"))
    """
    with showing(options.progress) as progress:
        return _train(options, progress)


def _train(options: TrainVectorsOptions, progress: Progress) -> WordVectors:
    source, config, tokenizer = options.source, options.config or VectorsConfig(), as_config(options.tokenizer)
    run_folder = None if options.folder is None else as_path(options.folder, "folder")
    start_time = time.perf_counter()
    with ids_file(run_folder) as file:
        if isinstance(source, CooccurrenceMatrix):
            material = _counted(source, config, tokenizer)
        else:
            material = _read(source_of(source), tokenizer, options.markers, progress, file)
        config = config.resolved()
        run = {"settings": asdict(config), "text": material.digest}
        checkpoint = open_checkpoint(run_folder, run) if options.resume and run_folder is not None else None
        check_fits(2 * 4 * material.counts.size * (config.dimensions + 16), "training these vectors")
        start = checkpoint or (None, None)
        if isinstance(material.text, TrainingText):
            training = training_on_text(material.text, config, progress, *start)
        else:
            training = training_on_cooccurrences(material.text, config, *start)
        _run(training, run_folder, run, options.on_report or _reporter(progress))
    record = {
        **record_header(FAMILY, config),
        "seconds": time.perf_counter() - start_time,
        **material.record,
        "losses": training.state.epoch_losses,
        "training_seconds": training.seconds,
        "words_per_second": training.report().words_per_second if training.seconds else 0.0,
    }
    arrays, settings = _result(training, material)
    return WordVectors(material.tokenizer, arrays, settings, record, ngrams_of(config))


def remove_finished(folder: Path) -> None:
    """Remove the checkpoints of a training whose vectors are saved."""
    remove_checkpoints(folder)


class _Material(NamedTuple):
    """Training data. counts: how often each word occurs. record: of the data, for the model's record."""

    tokenizer: Tokenizer
    counts: Int64[ndarray, " words"]
    text: TrainingText | Cooccurrences
    digest: str
    record: dict[str, Any]


def _counted(together: CooccurrenceMatrix, config: VectorsConfig, tokenizer: TokenizerConfig) -> _Material:
    """Return counted co-occurrences as training data.

    Raises SettingError if a setting is given that counting has fixed.
    """
    if config.method != "glove":
        raise SettingError(
            f"method is {config.method!r}, which learns from a text; for co-occurrences, set method='glove'"
        )
    if config.window is not None:
        raise SettingError("the window was chosen when the co-occurrences were counted; leave the window out")
    if tokenizer != WORDS:
        raise SettingError("the words were chosen when the co-occurrences were counted; leave the tokenizer out")
    words = [word.encode() for word in together.words]
    digest = hashlib.sha256(b"\n".join(words))
    for array in together.counted:
        digest.update(np.ascontiguousarray(array).data)
    learner = Tokenizer(splitter_named("whitespace"), Vocabulary(words))
    counts = np.array(together.occurrences, np.int64)
    record = {**together.record, "cooccurrences": together.pairs}
    return _Material(learner, counts, together.counted, digest.hexdigest(), record)


def _read(source: Source, tokenizer: TokenizerConfig, markers: Markers, progress: Progress, file: Any) -> _Material:
    """Return a text as training data. Raises TextError, SettingError."""
    learner, stream = read_words(source, tokenizer, markers, progress, file)
    counts = token_counts(stream, len(learner.vocabulary))
    words = learner.vocabulary.tokens()[FIRST_ORDINARY:]
    seen = counts[FIRST_ORDINARY:] > 0  # a vocabulary that was given may have words that do not occur
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


def _digest(text: TrainingText) -> str:
    """Return SHA-256 of the words and the ids."""
    digest = hashlib.sha256(b"\n".join(text.words))
    for start in range(0, text.stream.size, 1 << 22):
        digest.update(np.ascontiguousarray(text.stream[start : start + (1 << 22)]).data)
    return digest.hexdigest()


def _reporter(progress: Progress) -> Callable[[VectorsReport], None]:
    """Return a callback that shows reports where progress is shown."""
    if isinstance(progress, ProgressLine):
        return progress.report  # type: ignore[return-value]  # it reads step, steps, note and valid_loss, which a VectorsReport has
    return lambda report: progress("training", report.step, report.steps)


def _run(
    training: VectorsTraining, folder: Path | None, run: dict[str, Any], on_report: Callable[[VectorsReport], None]
) -> None:
    """Train to the end. Raises KeyboardInterrupt if interrupted, after a checkpoint if there is a folder."""

    def save() -> None:
        if folder is not None:
            save_checkpoint(folder, VectorsCheckpoint(training.matrices, training.state), run)

    saved_at = time.perf_counter()
    with interruptions() as interruption:
        while training.step < training.steps:
            training.advance()
            on_report(training.report())
            if interruption.signal and training.step < training.steps:
                save()
                where = f"step {training.step:,} of {training.steps:,}"
                if folder is None:
                    raise KeyboardInterrupt(f"interrupted after {where}; without a folder, nothing was saved")
                raise KeyboardInterrupt(
                    f"interrupted after {where}; to continue from {folder}, use the same settings and resume=True"
                )
            if time.perf_counter() - saved_at > _CHECKPOINT_SECONDS:
                save()
                saved_at = time.perf_counter()


def _result(training: VectorsTraining, material: _Material) -> tuple[dict[str, ndarray], dict[str, Any]]:
    """Return the arrays and settings of the trained vectors."""
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
