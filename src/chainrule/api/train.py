"""From a text to a trained model: tokenizer, language model, speller, and the record of how it came about."""

from __future__ import annotations

import datetime
import os
import platform
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule import __version__
from chainrule.api.load_model import as_config, load, saved_tokenizer
from chainrule.api.model import Model
from chainrule.api.progress_line import ProgressOption, callback, shows_progress, told_by
from chainrule.api.validation_text import ids_file, kept_for_validation, validated_on
from chainrule.base.jit import started
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.families import FAMILIES, family_of
from chainrule.ngram.config import NGramConfig, check_tunable
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.corpus import Source, source_of
from chainrule.text.learning import Tokenized, limited, limited_to, prepared
from chainrule.text.reading import document_in
from chainrule.text.splitters import SEPARATORS
from chainrule.text.tokenizer import encoded_stream
from chainrule.text.tokenizer_config import TokenizerConfig
from chainrule.text.vectors import read_vectors
from chainrule.text.vocabulary import Vocabulary
from chainrule.text.words import begins_word
from chainrule.training.config import Beginning, Run, TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from _typeshed import DataclassInstance
    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.spelling.speller import Speller
    from chainrule.protocol import LanguageModel
    from chainrule.text.corpus import Paths
    from chainrule.text.tokenizer import Tokenizer
    from chainrule.text.vocabulary import Markers
    from chainrule.training.reports import Told

_COUNTED_AT_ONCE = 1 << 20  # tokens
_DEFAULT = TokenizerConfig()


@shows_progress
def train(
    source: Source | Paths,
    config: DataclassInstance | None = None,
    *,
    tokenizer: TokenizerConfig | str = "word",
    markers: Markers = "error",
    training: TrainingConfig | None = None,
    validation: Source | Paths | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    told: Told | None = None,
    progress: ProgressOption = None,
    tune: Source | Paths | None = None,
    vectors: str | os.PathLike[str] | None = None,
    fixed_vectors: bool = False,
    start: str | os.PathLike[str] | None = None,
) -> Model:
    """Trains a model on a text, a line a document.

    config: its type says which family; by default an n-gram model of order 5. tokenizer: a TokenizerConfig, or only the
    kind: word, whitespace, character, byte, bpe, unigram, wordpiece, the path of a tokenizer.json or of a model folder.
    markers: what a literal <s>, </s> or <unk> in the text does: error, skip, keep. progress: by default a line at a
    terminal and in a notebook; True: in a log, too; False: none; or a callback of task, done and total. tune: a
    held-out text, to be made as likely as may be by an n-gram model's weights, discounts or constant, where its
    smoothing has some.

    The rest is for networks. training: for how long, and how. validation: a text to choose the best weights by; by
    default the end of the first one. folder: where checkpoints and log.jsonl go. resume: go on from the checkpoint in
    it. overwrite: begin anew where there is one. told: is given a Report now and then, whose str is a line; by default
    `progress` shows it. vectors: a file of word2vec or
    GloVe, for the vectors of tokens to begin as; fixed_vectors: and to stay as. start: the model folder of a network
    that learning goes on from, on this text, with its configuration and its tokenizer.
    Raises TextError, EstimationError, SettingError, OutputError, ModelFormatError; KeyboardInterrupt, with what to do
    to go on, where the training of a network is interrupted.

    good:  chainrule.train(["a.txt", "b.txt.gz"], chainrule.NGramConfig(order=3))
    good:  chainrule.train("a.txt", tokenizer=chainrule.TokenizerConfig(kind="bpe", vocabulary_size=4000))
    good:  chainrule.train(chainrule.Lines(["a text", "another"]))
    good:  chainrule.train("a.txt", chainrule.TransformerConfig(), training=TrainingConfig(minutes=5), folder="lm/")
    bad:   chainrule.train("a text")                    # a string names a file
    """
    from chainrule.ngram.counting.memory_estimate import check_text_fits

    progress = callback(progress)
    told = told or told_by(progress)
    started_from = None
    if start is not None:
        model = _model_to_start_from(Path(start), config, tokenizer, vectors)
        started_from, source = model.engine.network, source_of(source, model.document)
        config, tokenizer = started_from.config, os.fspath(start)
    config = NGramConfig() if config is None else config
    family = family_of(config)
    source = source_of(source)
    document = document_in(source.record)
    if tune is not None:
        check_tunable(config)
        tune = source_of(tune, document)
    began = time.perf_counter()
    tokenizer = as_config(tokenizer)
    in_steps = FAMILIES[family].in_steps
    if not in_steps and (training, validation, folder, resume, vectors) != (None, None, None, False, None):
        raise SettingError(
            f"a model of family {family} is counted; training, validation, folder and vectors are for networks"
        )
    if fixed_vectors and vectors is None:
        raise SettingError("there are no vectors to be fixed; name a file of them, or let them be learnt")
    if resume and overwrite:
        raise SettingError("resume goes on with a run and overwrite begins anew; say one of them")
    folder = None if folder is None else Path(folder)
    with ids_file(folder) if in_steps else nullcontext() as file:
        learner, stream, left_out = tokenized(
            source, tokenizer, markers, progress, lambda n: check_text_fits(n, FAMILIES[family].token_bytes), file
        )
    speller_learnt = cache(started(lambda: learnt_speller(learner, stream, config, left_out)))
    learnt_from, kept, beginning = stream, None, None
    if in_steps:
        training = training or TrainingConfig()
        if validation is None:
            learnt_from, kept = kept_for_validation(learner, stream, training, left_out, speller_learnt)
        else:
            validation = source_of(validation, document)
            kept = validated_on(validation, learner, training, speller_learnt, progress)
        if vectors is not None:
            found = read_vectors(os.fspath(vectors), learner.vocabulary.tokens(), progress)
            beginning = Beginning(found, fixed_vectors)
        learn = partial(
            FAMILIES[family].train,
            run=Run(
                training=training,
                validation=kept,
                folder=folder,
                resume=resume,
                overwrite=overwrite,
                origin={
                    "family": family,
                    "tokenizer": learner.name,
                    "normalise": list(learner.normaliser.steps),
                    "vectors": None if beginning is None else beginning.name,
                    **({} if start is None else {"start": os.fspath(start)}),
                },
                start=started_from,
                beginning=beginning,
                told=told,
                begins_word=begins_word(learner) if FAMILIES[family].job == "fill" else None,
            ),
        )
    else:
        learn = partial(FAMILIES[family].train)
    if tune is None:
        language_model, learnt = learn(learnt_from, learner.vocabulary_size, config, progress)
    else:
        assert isinstance(config, NGramConfig)
        language_model, learnt = _tuned(learner, stream, config, tune, progress)
    speller = speller_learnt()
    record = {
        **circumstances(family, config),
        "seconds": time.perf_counter() - began,
        "tokenizer": {name: value for name, value in asdict(tokenizer).items() if value != getattr(_DEFAULT, name)},
        **_data_record(source, stream),
        **({} if beginning is None else {"vectors": beginning.name}),
        **({} if start is None else {"start": os.fspath(start)}),
        **({"validated_on": validation.record["data"]} if isinstance(validation, Source) else {}),
        "unseen_types": speller.unseen_types,
        **learnt,
    }
    return Model(family, language_model, learner, record, speller)


def _model_to_start_from(
    folder: Path,
    config: DataclassInstance | None,
    tokenizer: TokenizerConfig | str,
    vectors: str | os.PathLike[str] | None,
) -> Model:
    """Raises SettingError where the model is no network, or more is said that it knows itself; ModelFormatError."""
    model = load(folder)
    if not FAMILIES[model.family].embeds:
        raise SettingError(f"{folder}: a model of family {model.family!r} cannot be trained on; expected a network")
    own = (as_config("word"), as_config(os.fspath(folder)))
    if config not in (None, model.engine.network.config) or as_config(tokenizer) not in own or vectors is not None:
        raise SettingError(f"{folder}: its configuration, tokenizer and vectors are what they are; say nothing of them")
    return model


def _tuned(
    tokenizer: Tokenizer, stream: Int32[ndarray, " tokens"], config: NGramConfig, tune: Source, progress: Progress
) -> tuple[LanguageModel[Any], dict[str, Any]]:
    from chainrule.ngram.training import train_ngram

    heldout = encoded_stream(tokenizer, tune, progress)
    model, learnt = train_ngram(stream, tokenizer.vocabulary_size, config, progress, heldout)
    return model, {**learnt, "tuned_on": tune.record["data"]}


def learnt_speller(
    tokenizer: Tokenizer,
    stream: Int32[ndarray, " tokens"],
    config: DataclassInstance,
    left_out: Sequence[bytes] = (),
) -> Speller:
    """As `speller_of_counts`, for the tokens of a stream."""
    counts = np.zeros(tokenizer.vocabulary_size, np.int64)
    for start in range(0, stream.size, _COUNTED_AT_ONCE):  # np.bincount copies what it counts
        counts += np.bincount(stream[start : start + _COUNTED_AT_ONCE], minlength=counts.size)
    return speller_of_counts(tokenizer, counts, config, left_out)


def speller_of_counts(
    tokenizer: Tokenizer, counts: Int64[ndarray, " vocab"], config: DataclassInstance, left_out: Sequence[bytes] = ()
) -> Speller:
    """Learns from the types that a limited vocabulary left out, and where there are few, from the rarest by `counts`.

    How many unseen types to expect: none of a tokenizer that spells everything; one, so that P(<unk>) stays as it is,
    where the model gives <unk> the mass of all of them: where it has seen <unk> as a token, or its unigrams are not
    interpolated; else as `unseen_types` says, since <unk> has the price of a single one.
    """
    from chainrule.ngram.spelling.speller import ENOUGH, Speller, rare_spellings, unseen_types

    has_whole_mass = counts[UNKNOWN] > 0 or (isinstance(config, NGramConfig) and config.unknown_has_whole_mass)
    counts = counts.astype(np.int64)  # a copy
    counts[[UNKNOWN, BEGIN, END]] = 0
    spellings = left_out[:: max(1, len(left_out) // (2 * ENOUGH))]
    if len(spellings) < ENOUGH:
        spellings = [*spellings, *rare_spellings(tokenizer.vocabulary.tokens(), counts)]
    unseen = 0 if tokenizer.spells_everything else 1 if has_whole_mass else unseen_types(counts)
    return Speller.trained(spellings, tokenizer.vocabulary, unseen_types=unseen, never=SEPARATORS)


def tokenized(
    source: Source,
    tokenizer: TokenizerConfig | str,
    markers: Markers = "error",
    progress: Progress = silent,
    expecting: Callable[[int], None] | None = None,
    file: BinaryIO | None = None,
) -> Tokenized:
    """A tokenizer, learnt from a source where it has to be, and the source as one stream of ids.

    One that a saved model has learns nothing more; which words of the source it does not know is what a speller is
    learnt from, as in the training of that model.

    expecting, file: as `encoded_stream` has them.

    Raises TextError, EstimationError, SettingError, ModelFormatError.
    """
    config = as_config(tokenizer)
    saved = saved_tokenizer(config, progress)
    learner = (saved or prepared(config, markers, source, progress)).with_markers(markers)
    if saved is None or not TokenizerConfig(kind=saved.name).learns_words:
        stream = encoded_stream(learner, source, progress, grow=config.learns_words, expecting=expecting, file=file)
        return limited(learner, stream, config)
    known = saved.vocabulary.tokens()[END + 1 :]
    growing = learner.with_vocabulary(Vocabulary(known))  # to find what is left out
    stream = encoded_stream(growing, source, progress, grow=True, expecting=expecting, file=file)
    return limited_to(known, growing, stream)


def peak_memory() -> int | None:
    """The most memory, in bytes, that this process has held; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def circumstances(family: str, config: DataclassInstance) -> dict[str, Any]:
    """What a record begins with."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    versions = {"chainrule": __version__, "python": platform.python_version(), "numpy": np.__version__}
    return {"family": family, "settings": asdict(config), "trained": now, "versions": versions, "command": sys.argv}


def _data_record(source: Source, stream: Int32[ndarray, " tokens"]) -> dict[str, Any]:
    parts = [stream[start : start + _COUNTED_AT_ONCE] for start in range(0, stream.size, _COUNTED_AT_ONCE)]
    documents, unknown = (sum(int(np.count_nonzero(part == token)) for part in parts) for token in (END, UNKNOWN))
    return {**source.record, "documents": documents, "tokens": stream.size - documents, "unknown_tokens": unknown}
