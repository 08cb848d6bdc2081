"""From a text to a trained model: tokenizer, language model, speller, and the record of how it came about."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.api.load_model import load
from chainrule.api.model import Model
from chainrule.api.progress_line import ProgressOption, callback, shows_progress, told_by
from chainrule.api.record import circumstances
from chainrule.api.speller import speller_of_counts, token_counts
from chainrule.api.tokenizers import tokenized
from chainrule.api.validation_text import ids_file, kept_for_validation, validated_on
from chainrule.base.jit import start_in_thread
from chainrule.base.owned import Owned
from chainrule.errors import SettingError
from chainrule.families import FAMILIES, family_of
from chainrule.ngram.config import NGramConfig, check_tunable
from chainrule.protocol import END, UNKNOWN
from chainrule.text.corpus import Source, source_of
from chainrule.text.reading import document_in
from chainrule.text.tokenizer import encoded_stream
from chainrule.text.tokenizer_config import TokenizerConfig, as_config
from chainrule.text.vectors import read_vectors
from chainrule.text.words import begins_word
from chainrule.training.config import TrainingConfig
from chainrule.training.job import Beginning, Run

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.protocol import LanguageModel
    from chainrule.text.corpus import Paths
    from chainrule.text.tokenizer import Tokenizer
    from chainrule.text.vocabulary import Markers
    from chainrule.training.reports import Told

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
    in_steps = FAMILIES[family].trains_in_steps
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
    tokens = token_counts(stream, learner.vocabulary_size)
    speller_learnt = cache(start_in_thread(lambda: speller_of_counts(learner, tokens, config, left_out)))
    kept, beginning = None, None
    if in_steps:
        training = training or TrainingConfig()
        if validation is None:
            stream, kept = kept_for_validation(learner, stream, training, left_out, speller_learnt)
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
    owned = Owned(stream)
    del stream
    if tune is not None:
        assert isinstance(config, NGramConfig)
        language_model, learnt = _tuned(learner, owned, config, tune, progress)
    else:
        language_model, learnt = learn(owned.take() if in_steps else owned, learner.vocabulary_size, config, progress)
    speller = speller_learnt()
    record = {
        **circumstances(family, config),
        "seconds": time.perf_counter() - began,
        "tokenizer": {name: value for name, value in asdict(tokenizer).items() if value != getattr(_DEFAULT, name)},
        **_data_record(source, tokens),
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
    tokenizer: Tokenizer,
    stream: Owned[Int32[ndarray, " tokens"]],
    config: NGramConfig,
    tune: Source,
    progress: Progress,
) -> tuple[LanguageModel[Any], dict[str, Any]]:
    from chainrule.ngram.training import train_ngram

    heldout = encoded_stream(tokenizer, tune, progress)
    model, learnt = train_ngram(stream, tokenizer.vocabulary_size, config, progress, heldout)
    return model, {**learnt, "tuned_on": tune.record["data"]}


def _data_record(source: Source, tokens: Int64[ndarray, " vocab"]) -> dict[str, Any]:
    documents, unknown = int(tokens[END]), int(tokens[UNKNOWN])
    return {**source.record, "documents": documents, "tokens": int(tokens.sum()) - documents, "unknown_tokens": unknown}
