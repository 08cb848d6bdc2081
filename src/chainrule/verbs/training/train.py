"""Trains a model on a text: tokenizer, language model, speller and record (`train`); or trains it further (`adapt`)."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast, overload

import numpy as np

from chainrule.base.memory import Owned, as_bytes
from chainrule.base.options import takes
from chainrule.base.scratch import token_counts
from chainrule.base.threads import start_in_thread
from chainrule.errors import SettingError, TextError
from chainrule.kinds import CAUSAL_NETWORK, MASKED_MODEL, kind_named, kinds, rows
from chainrule.models.families.family import Counting
from chainrule.models.families.table import FAMILIES, check_learns_from_text, config_of, family_of
from chainrule.models.files.adapters import adapter_record, check_no_adapter
from chainrule.models.files.folders import build_model
from chainrule.models.files.opening import load
from chainrule.models.files.recognition import opener_of
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.models.model import Model
from chainrule.models.progress_line import showing
from chainrule.models.run import (
    check_ids_room,
    digests_read,
    ids_file,
    may_exceed_memory,
    record_header,
    seconds_since,
    training_run,
)
from chainrule.neural.config import settings_of
from chainrule.ngram.config import DiskPlan, NGramConfig, check_limitable, check_tunable, ignore_plan
from chainrule.protocol import END, UNKNOWN
from chainrule.storage.config_json import read_config
from chainrule.storage.sources import local_path
from chainrule.text.corpus.corpus import Source, source_of
from chainrule.text.corpus.reading import document_in
from chainrule.text.tokenization.config import TokenizerConfig, as_config
from chainrule.text.tokenization.tokenizer import encode_stream
from chainrule.text.units import begins_word
from chainrule.training.config import AdapterConfig, TrainingConfig, vectors_name
from chainrule.training.job import StreamOptions
from chainrule.verbs.training.example import LAST, example_record
from chainrule.verbs.training.options import (
    AdaptOptions,
    TrainMaskedOptions,
    TrainNetworkOptions,
    TrainNGramOptions,
    TrainOptions,
)
from chainrule.verbs.training.residual import check_known, join_known, known_distribution, open_known
from chainrule.verbs.training.stream import (
    check_fixed,
    initial_vectors,
    read_validation,
    speller_of_counts,
    split_off_validation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _typeshed import DataclassInstance
    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.models.families.family import Family
    from chainrule.models.language_models import CausalModel, CausalNetwork, MaskedModel
    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.network import Network
    from chainrule.ngram.speller import Speller
    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.build import Tokenized
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Markers
    from chainrule.training.config import TrainingRun
    from chainrule.verbs.training.residual import Known

_DEFAULT = TokenizerConfig()


@overload
@takes(TrainMaskedOptions)
def train(  # type: ignore[overload-overlap]  # a MaskedConfig is a TransformerConfig, too
    options: TrainMaskedOptions,
) -> MaskedModel: ...
@overload
@takes(TrainNetworkOptions)
def train(options: TrainNetworkOptions) -> CausalNetwork: ...
@overload
@takes(TrainNGramOptions)
def train(options: TrainNGramOptions) -> CausalModel: ...
@overload
@takes(TrainOptions)
def train(options: TrainOptions) -> Model: ...


@takes(TrainOptions)
def train(options: TrainOptions) -> Model:
    """Trains a model on a text, in which each line is a document.

    config: the settings; their class names the family. By default, an n-gram model of order 5. tokenizer: a
    TokenizerConfig, or just its kind: word, whitespace, character, byte, bpe, unigram, wordpiece, or the path of a
    tokenizer.json or a model folder. markers: what to do with a literal <s>, </s> or <unk> in the text: error, skip or
    keep. progress: by default, a line at a terminal or in a notebook; True: in a log, too; False: nothing; or a
    callback that gets task, done and total. tune: a held-out text to tune an n-gram model's smoothing on. memory: the
    most bytes that an n-gram model may hold while it is trained, such as "4G"; what needs more lies on disk. on_plan: a
    callback that gets a DiskPlan before n-grams are counted there.

    All others are for networks. training: how long and how to train. validation: a text to choose the best weights by;
    by default, the end of the training text. start: the folder of a network to train further, with its configuration
    and tokenizer. vectors: word vectors that token vectors start from, a folder or a file of word2vec, GloVe or
    fastText; fixed_vectors: whether those are never updated. residual_of: the order of an n-gram model, or the path of
    a model of any family, whose residual the network learns; the model is then a log-linear mixture of both. run: where
    checkpoints and log.jsonl go, and whether to resume; or give its fields folder, resume, overwrite and on_report, a
    callback that gets a Report, whose str is one line.
    Raises TextError, EstimationError, SettingError, OutputError, ModelFormatError; KeyboardInterrupt, which says how to
    resume, if the training of a network is interrupted.

    good:  chainrule.train(["a.txt", "b.txt.gz"], chainrule.NGramConfig(order=3))
    good:  chainrule.train("a.txt", tokenizer=chainrule.TokenizerConfig(kind="bpe", vocabulary_size=4000))
    good:  chainrule.train(chainrule.Lines(["a text", "another"]))
    good:  chainrule.train("a.txt", chainrule.TransformerConfig(), training=TrainingConfig(minutes=5), folder="lm/")
    bad:   chainrule.train("a text")                    # a string names a file
    """
    with showing(options.progress) as progress:
        return _train(options, progress)


def _train(options: TrainOptions, progress: Progress) -> Model:
    start_time = time.perf_counter()
    request = _request(options)
    run = training_run(options, progress)
    _check(request, run)
    if not request.family.trains_in_steps:
        from chainrule.base.ahead import compile_ahead

        compile_ahead("counting")
    learner, stream, left_out, literals = _read(request, options.markers, run.folder, progress)
    counts = token_counts(stream, learner.vocabulary_size)
    _check_tokens(request.source, counts)
    speller = cache(start_in_thread(lambda: speller_of_counts(learner, counts, request.config, left_out, literals)))
    text = _Text(learner, Owned(stream), left_out, speller, np.array(stream[-LAST:]))
    del stream
    learn = _learn_in_steps if request.family.trains_in_steps else _learn_counts
    engine, learned = learn(request, text, run, progress)
    unseen_types = speller().unseen_types
    family, config = request.family_name, request.config
    if request.known is not None:
        family, config = "mixture", learned.pop("mixture")
    record = {
        **record_header(family, config),
        "seconds": seconds_since(start_time, learned),
        **_request_record(request, counts),
        "unseen_types": unseen_types,
        **learned,
    }
    return build_model(family, engine, learner, record, speller())


@dataclass(frozen=True)
class _Request:
    """What to train, on what text.

    network: the network to train further, from the folder `start`. source_checkpoint: the record of the Hugging Face
    folder that it came from.
    """

    source: Source
    config: DataclassInstance
    tokenizer: TokenizerConfig
    training: TrainingConfig | None
    validation: Source | None
    tune: Source | None
    vectors: str | None
    fixed_vectors: bool
    start: str | None
    network: Network | None
    source_checkpoint: dict[str, Any] | None
    memory: int | None
    on_plan: Callable[[DiskPlan], None]
    known: Known | None
    teachers: Any
    adapter: AdapterConfig | None

    @property
    def family_name(self) -> str:
        return family_of(self.config)

    @property
    def family(self) -> Family:
        return FAMILIES[self.family_name]


def _request(options: TrainOptions) -> _Request:
    """Opens texts, and the model to start from, whose configuration and tokenizer are then used."""
    source, config, tokenizer = options.source, options.config, options.tokenizer
    network, source_checkpoint = None, None
    if options.start is not None:
        model = _model_to_start_from(Path(options.start), config, tokenizer, options.vectors)
        network, source = model.engine.network, source_of(source, model.document)
        if options.adapter is None:
            network = network.float()
        source_checkpoint = model.record.get("hugging_face")
        config, tokenizer = network.config, os.fspath(options.start)
    source = source_of(source)
    document = document_in(source.record)
    known = None if options.residual_of is None else open_known(options.residual_of)
    if known is not None and known.model is not None and as_config(tokenizer) == _DEFAULT:
        tokenizer = known.name if local_path(known.name).is_dir() else tokenizer
    config, teachers = NGramConfig() if config is None else config, None
    if options.teacher_record["teacher"] is not None:
        teachers = rows("train")["teacher"].get()(options, config)
        tokenizer = teachers.folder or tokenizer if as_config(tokenizer) == _DEFAULT else tokenizer
    elif alone := [name for name in options.given if name.startswith("teacher_")]:
        raise SettingError(f"{alone[0]} is for a teacher; set teacher, too")
    return _Request(
        source,
        config,
        as_config(tokenizer),
        options.training,
        None if options.validation is None else source_of(options.validation, document),
        None if options.tune is None else source_of(options.tune, document),
        None if options.vectors is None else os.fspath(options.vectors),
        options.fixed_vectors,
        None if options.start is None else os.fspath(options.start),
        network,
        source_checkpoint,
        as_bytes("memory", options.memory),
        options.on_plan or ignore_plan,
        known,
        teachers,
        options.adapter,
    )


def _check(request: _Request, run: TrainingRun) -> None:
    """Raises SettingError if settings do not fit the family or each other."""
    check_learns_from_text(request.family_name)
    if request.tune is not None:
        check_tunable(request.config)
    for_networks = (request.training, request.validation, run.folder, request.vectors)
    if not request.family.trains_in_steps and (for_networks != (None,) * 4 or run.resume):
        raise SettingError(
            f"a model of family {request.family_name} is estimated from counts; training, validation, folder, resume "
            "and vectors are for networks"
        )
    if request.adapter is not None and request.start is None:
        raise SettingError("adapter is for a network that is trained further; set start, its folder, or leave it out")
    if request.known is not None and kinds()[request.family_name].model != CAUSAL_NETWORK:
        raise SettingError(
            f"residual_of is for networks that continue texts, not for a model of family {request.family_name}; leave "
            "it out"
        )
    check_fixed(request.vectors, fixed=request.fixed_vectors)
    if request.memory is not None:
        check_limitable(request.config, tuned=request.tune is not None)


def _read(request: _Request, markers: Markers, folder: Path | None, progress: Progress) -> Tokenized:
    """The text as ids, mapped from a file for a network, or where it may be too large for memory. Raises TextError."""
    from chainrule.ngram.counting.count import check_text_fits

    token_bytes = request.family.token_bytes
    on_disk = request.memory is not None or may_exceed_memory(request.source, token_bytes)
    on_disk = on_disk and request.family.counts_on_disk(request.config) and request.tune is None
    with ids_file(folder) if request.family.trains_in_steps or on_disk else nullcontext() as file:
        return tokenize_source(
            request.source,
            request.tokenizer,
            markers,
            progress,
            check_ids_room if on_disk else lambda tokens: check_text_fits(tokens, token_bytes),
            file,
        )


def _check_tokens(source: Source, counts: Int64[ndarray, " V"]) -> None:
    """Raises TextError if all documents of a text are empty. counts: of each token."""
    documents = int(counts[END])
    if counts.sum() == documents:
        names = ", ".join(source.sources)
        raise TextError(f"{names}: all of its documents, {documents:,}, are empty; at least one token is needed")


class _Text(NamedTuple):
    """A text as ids, and the speller of words that the tokenizer does not know. last: the last of these ids."""

    tokenizer: Tokenizer
    stream: Owned[Int32[ndarray, " tokens"]]
    left_out: Sequence[bytes]
    speller: Callable[[], Speller]
    last: Int32[ndarray, " last"]

    def example(self, heldout: Int32[ndarray, " tokens"] | None) -> dict[str, Any]:
        """The record of a sentence of the held-out text, or of this one."""
        stream = self.last if heldout is None else heldout
        return example_record(self.tokenizer, stream, is_held_out=heldout is not None)


def _learn_counts(
    request: _Request, text: _Text, run: TrainingRun, progress: Progress
) -> tuple[LanguageModel[Any], dict[str, Any]]:
    """Estimates a model from counts; returns it with its record."""
    heldout = None if request.tune is None else encode_stream(text.tokenizer, request.tune, progress)
    counting = Counting(heldout, request.memory, request.on_plan)
    size = text.tokenizer.vocabulary_size
    model, learned = request.family.train(text.stream, size, request.config, progress, counting=counting)
    learned |= text.example(heldout)
    return model, learned if request.tune is None else {**learned, "tuned_on": request.tune.record["data"]}


def _learn_in_steps(request: _Request, text: _Text, run: TrainingRun, progress: Progress) -> tuple[Any, dict[str, Any]]:
    """Trains a network step by step; returns its model and its record."""
    training, tokenizer, stream = request.training or TrainingConfig(), text.tokenizer, text.stream.take()
    if request.validation is None:
        stream, kept = split_off_validation(
            tokenizer,
            stream,
            training,
            text.left_out,
            text.speller,
            whole_documents=cast("NetworkConfig", request.config).reads == "tree",
        )
    else:
        kept = read_validation(request.validation, tokenizer, training, text.speller, progress)
    size, known, base = tokenizer.vocabulary_size, None, None
    if request.known is not None:
        check_known(request.known, tokenizer, request.source.record["data"])
        validated = np.empty(0, np.int32) if kept is None else kept.stream
        known, base = known_distribution(request.known, stream, validated, size, progress)
    teacher, learned_from = None, {}
    if request.teachers is not None:
        teacher, learned_from = request.teachers.read(tokenizer, request.source, stream, run.folder, progress)
    vectors = initial_vectors(request.vectors, tokenizer.vocabulary.tokens(), progress, fixed=request.fixed_vectors)
    options = StreamOptions(
        training=training,
        validation=kept,
        origin={
            "family": request.family_name,
            "tokenizer": tokenizer.name,
            "normalise": list(tokenizer.normaliser.steps),
            "vectors": None if vectors is None else vectors.name,
            **({} if request.start is None else {"start": request.start}),
            **({} if request.known is None else {"residual_of": request.known.name}),
            **({} if request.teachers is None else request.teachers.options.teacher_record),
        },
        start=request.network,
        vectors=vectors,
        begins_word=begins_word(tokenizer) if request.family.job == "fill" else None,
        known=known,
        teacher=teacher,
        adapter=request.adapter,
        tokens=tuple(tokenizer.vocabulary.tokens()),
    )
    config = request.family.resolved_for(request.config, tokenizer)
    model, learned = request.family.train(stream, size, config, progress, options=options, run=run)
    if request.adapter is not None and request.start is not None:
        learned |= adapter_record(model.network, request.adapter, request.start)
    learned |= text.example(None if kept is None else kept.stream) | learned_from
    chosen = model.network.config  # sizes that were left open, too
    if request.known is None:
        return model, learned if chosen == config else {**learned, "settings": asdict(chosen)}
    families = (request.family_name, request.known.family)
    mixture, settings = join_known(families, model, base, learned.pop("residual_weight"))
    models = zip((request.family_name, request.known.model_name), families, strict=True)
    return mixture, {
        **learned,
        "mixture": settings,
        "models": [{"name": name, "family": family} for name, family in models],
        "weights": list(mixture.weights),
        "network": settings_of(chosen),
        "residual_of": request.known.name,
        **({} if request.known.model is None else {"data_of_models": digests_read(request.known.model.record)}),
    }


def _model_to_start_from(
    folder: Path,
    config: DataclassInstance | None,
    tokenizer: TokenizerConfig | str,
    vectors: str | os.PathLike[str] | None,
) -> Model:
    """Opens a network. Raises SettingError if it is none, or if settings that it has are given; ModelFormatError."""
    model = load(folder, Model)
    if not FAMILIES[model.family].embeds:
        raise SettingError(f"{folder}: a model of family {model.family!r} cannot be trained on; expected a network")
    check_no_adapter(model, folder)
    own = (as_config("word"), as_config(os.fspath(folder)))
    if config not in (None, model.engine.network.config) or as_config(tokenizer) not in own or vectors is not None:
        raise SettingError(
            f"{folder}: keeps its configuration, tokenizer and vectors; leave config, tokenizer and vectors out"
        )
    return model


def _request_record(request: _Request, counts: Int64[ndarray, " vocab"]) -> dict[str, Any]:
    """The record of texts and tokenizer. counts: of each token of the text."""
    documents, unknown = int(counts[END]), int(counts[UNKNOWN])
    tokenizer = {name: value for name, value in asdict(request.tokenizer).items() if value != getattr(_DEFAULT, name)}
    vectors = None if request.vectors is None else vectors_name(request.vectors, fixed=request.fixed_vectors)
    validated_on = None if request.validation is None else request.validation.record["data"]
    others = {
        "vectors": vectors,
        "start": request.start,
        "validated_on": validated_on,
        "hugging_face": request.source_checkpoint,
    }
    return {
        "tokenizer": tokenizer,
        **request.source.record,
        "documents": documents,
        "tokens": int(counts.sum()) - documents,
        "unknown_tokens": unknown,
        **{name: value for name, value in others.items() if value is not None},
    }


@takes(AdaptOptions)
def adapt(options: AdaptOptions) -> Model:
    """Trains a network further, on other text; returns a new model with the same settings and tokenizer.

    model: the folder of a network of any family. Words that its tokenizer does not know stay unknown. lora: the rank of
    adapters, which alone are trained (of a Transformer, which may be quantised); the new model is saved as a small
    folder that names that of the network, and `convert` merges both. lora_alpha, lora_layers: as for `AdapterConfig`.
    preferred: pairs of answers to learn from in place of a text, by DPO; beta: how much the network is held to what it
    was; bad_records: what becomes of pairs that cannot be read. The other arguments are those of `train`. Raises
    SettingError if the model is not a network, and what `train` raises.

    good:  chainrule.adapt("lm/", "law.txt", training=chainrule.TrainingConfig(minutes=2)).save("law/")
    good:  chainrule.adapt("smollm2/", "law.txt", lora=16).save("law/")
    good:  chainrule.adapt("smollm2/", preferred="pairs.jsonl", lora=16).save("polite/")
    """
    network_config_of(Path(options.model))
    if options.preferred is not None:
        if options.teacher_record["teacher"] is not None:
            raise SettingError("preferred and teacher are both given; a teacher is for a text")
        with showing(options.progress) as progress:
            trained: Model = rows("adapt")["preferred"].get()(options, adapter_of(options), progress)
            return trained
    if options.source is None:
        raise SettingError("adapt needs a text, or preferred, a file of pairs; none was given")
    if options.bad_records != "stop":
        raise SettingError("bad_records is for preferred; for a text, give a Corpus with Reading(bad_records=...)")
    own = {"model", "source", "preferred", "beta", "bad_records", *(field.name for field in fields(AdapterConfig))}
    others = {name: value for name, value in options.given.items() if name not in own}
    return train(options.source, start=options.model, adapter=adapter_of(options), **others)


def adapter_of(options: AdapterConfig) -> AdapterConfig | None:
    """The adapters that options ask for; None where they ask for none. Raises SettingError."""
    settings = {field.name: getattr(options, field.name) for field in fields(AdapterConfig)}
    if options.lora is not None:
        return AdapterConfig(**settings)
    if given := [name for name, value in settings.items() if value is not None]:
        raise SettingError(f"{given[0]} is for adapters; set lora, their rank, too")
    return None


def network_config_of(folder: Path) -> NetworkConfig:
    """The settings of a network, in a folder or a file. Raises SettingError if it is none; ModelFormatError."""
    if opener_of(local_path(folder)) is not None:
        model = load(folder, Model)
        _check_trainable(folder, model.family)
        own: NetworkConfig = model.engine.network.config
        return own
    entry = read_config(local_path(folder))
    _check_trainable(folder, entry.family)
    config: NetworkConfig = config_of(entry.family, entry.settings.get("network"))
    return config


def _check_trainable(folder: Path, family: str) -> None:
    """Raises SettingError."""
    kind = kind_named(family)
    if kind is None or kind.model not in (CAUSAL_NETWORK, MASKED_MODEL):
        raise SettingError(
            f"{folder}: {kind.title if kind else family} cannot be trained further on plain text; expected a network "
            "that predicts tokens"
        )
