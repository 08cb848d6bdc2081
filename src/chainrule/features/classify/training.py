"""Trains classifiers: from scratch on labelled inputs of any kind, or by fine-tuning a pre-trained network on texts."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.base.arguments import as_list, check_type
from chainrule.base.options import takes
from chainrule.errors import SettingError
from chainrule.features.classify.inputs import default_network, digest_of_inputs, kind_of
from chainrule.features.classify.labelled.texts import classes_of
from chainrule.features.classify.model import ClassifierModel
from chainrule.features.classify.network.config import labelling_config, labelling_name
from chainrule.features.classify.options import FinetuneOptions, TrainClassifierOptions
from chainrule.features.classify.units import unit_kind
from chainrule.models.any_model import check_model
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.models.progress_line import showing
from chainrule.models.run import record_header, seconds_since, training_run
from chainrule.text.corpus.corpus import Lines
from chainrule.text.tokenization.config import as_config
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.training.config import ClassifierTrainingConfig, FineTuningConfig, InitialVectors
from chainrule.verbs.training.stream import vectors_of_tokens, with_words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.base.progress import Progress
    from chainrule.features.classify.inputs import InputKind
    from chainrule.neural.config.network import LabellingConfig
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers
    from chainrule.text.vector_files import Vectors


@takes(TrainClassifierOptions)
def train_classifier(options: TrainClassifierOptions) -> ClassifierModel:
    """Return a model of family classifier, trained from scratch on labelled inputs: texts, trees and others.

    examples: of the kind that the network reads, as `read_labelled` gives them for texts. network: a configuration, or
    the name of one: bag, lstm, gru, rnn, convolution, transformer and others of LABELLING; by default convolution-bag,
    lstm for words, and bag for pairs. unit: what is labelled; by default whole inputs, such as texts; "pair", two
    inputs with one label, as `read_labelled_pairs` gives them; "rating", two inputs with a number; "box", things in
    pictures, as `read_boxes` gives them. tokenizer, markers: for texts, as in `train`. vectors: word vectors to
    initialise token vectors with; embedding_width is their width by default. fixed_vectors: whether they are never
    updated; then all words that have a vector are known, even if no example has them. The rest is as in `train`. Ctrl-C
    ends the training with the best epoch so far, once there is one. Raises SettingError; TextError where labels are
    missing, or all the same; EstimationError where the loss is no number; else what `train` raises.

    good:  chainrule.train_classifier(chainrule.read_labelled("reviews.tsv"), "convolution")
    """
    with showing(options.progress) as progress:
        return _train(options, progress)


def _train(options: TrainClassifierOptions, progress: Progress) -> ClassifierModel:
    from chainrule.features.classify.objective import Example, split
    from chainrule.features.classify.runs import train_from_scratch

    began = time.perf_counter()
    network = labelling_config(options.network or default_network(options.unit))
    training, vectors = options.training or ClassifierTrainingConfig(), options.vectors
    check_type("training", training, ClassifierTrainingConfig)
    kind = kind_of(network.reads, options.unit)
    unit = kind.unit(options.unit)
    run = training_run(options, progress)
    examples = kind.check(as_list("examples", options.examples), unit)
    labelled = unit_kind(unit)
    labels = labelled.labels(examples)
    if kind.tokenizer is None and (options.tokenizer is not None or vectors is not None):
        raise SettingError(f"{kind.plural} have no tokens; leave tokenizer and vectors out")
    if options.fixed_vectors and vectors is None:
        raise SettingError("there are no vectors to be fixed; name word vectors, or leave fixed_vectors out")
    network = cast("LabellingConfig", kind.settle(network, [example.input for example in examples]))
    learner = _tokenizer(kind, examples, options.tokenizer, options.markers, progress)
    initial = None
    if vectors is not None:
        if options.fixed_vectors:
            learner = with_words_of(learner, vectors, progress)
        found = vectors_of_tokens(vectors, learner.vocabulary.tokens(), progress)
        network, initial = _as_wide(network, found), InitialVectors(found, options.fixed_vectors)
    inputs = kind.encode(learner, examples, unit, network)
    targets = labelled.targets(examples, labels, network)
    encoded = [Example(own, target) for own, target in zip(inputs, targets, strict=True)]
    data = split(encoded, training.valid_share, training.seed, labelled.labels_of_target)
    classifier, learnt = train_from_scratch(
        network, labels, unit, learner.vocabulary_size, data, training, run, vectors=initial, inputs=kind.plural
    )
    record = {
        **record_header("classifier", training),
        "seconds": seconds_since(began, learnt),
        "unit": unit,
        "network": {"name": labelling_name(network), **asdict(network)},
        "data": {"labelled examples": digest_of_inputs(examples)},
        **({} if initial is None else {"vectors": initial.name}),
        **learnt,
    }
    return ClassifierModel("classifier", classifier, learner, record)


def _tokenizer(
    kind: InputKind,
    examples: Sequence[Any],
    tokenizer: TokenizerConfig | str | None,
    markers: Markers,
    progress: Progress,
) -> Tokenizer:
    """Return a tokenizer learned from the texts in inputs; an empty one where they have no texts.

    Raises as `tokenized` does.
    """
    texts = kind.texts([example.input for example in examples])
    if kind.tokenizer is None or not texts:
        return Tokenizer.untrained("whitespace")
    return tokenize_source(Lines(texts), as_config(tokenizer or kind.tokenizer), markers, progress).tokenizer


def _as_wide(network: LabellingConfig, vectors: Vectors) -> LabellingConfig:
    """Return the configuration with the vectors' width as embedding_width, where that is left at its default."""
    field = next((field for field in network.__dataclass_fields__.values() if field.name == "embedding_width"), None)
    if field is None or getattr(network, field.name) != field.default or not vectors.rows.size:
        return network
    return replace(network, **{field.name: int(vectors.rows.shape[1])})


@takes(FinetuneOptions)
def finetune(options: FinetuneOptions) -> ClassifierModel:
    """Train a network with a classification head on labelled texts; return a model of family classifier.

    model: a network of any family. examples: with a label for the text, for each of its words, or for a pair of
    sentences, as `unit` says; a pair is read as one text, [CLS] a [SEP] b [SEP], with the types of BERT where the
    network has them.
    The rest is as in `train`. Ctrl-C ends training with the best epoch so far, once there is one.
    Raises SettingError if the model is not a network; TextError if there are too few labels; EstimationError if the
    loss is not finite; and what `train` raises.

    good:  chainrule.finetune(chainrule.load("lm/"), chainrule.read_labelled("reviews.tsv"))
    """
    with showing(options.progress) as progress:
        return _finetune(options, progress)


def _finetune(options: FinetuneOptions, progress: Progress) -> ClassifierModel:
    from chainrule.features.classify.objective import Example
    from chainrule.features.classify.runs import finetune_network

    model, unit, config = options.model, options.unit, options.config or FineTuningConfig()
    began = time.perf_counter()
    check_model(model)
    check_type("config", config, FineTuningConfig)
    if not FAMILIES[model.family].embeds:
        raise SettingError(f"a model of family {model.family!r} has no encoder for a head; give a network")
    kind = kind_of("text", unit)
    examples = kind.check(as_list("examples", options.examples), unit)
    units = kind.encode(model.tokenizer, examples, unit, None)
    labels = classes_of(examples)
    index = {label: i for i, label in enumerate(labels)}
    labelled = [
        Example(own, np.array([index[label] for label in example.labels]))
        for own, example in zip(units, examples, strict=True)
    ]
    run = training_run(options, progress)
    classifier, record = finetune_network(model.engine.network, labels, unit, labelled, config, run)
    record = {
        **record_header("classifier", config),
        "seconds": seconds_since(began, record),
        "data": {"labelled examples": digest_of_inputs(examples)},
        **record,
        "base": model.family,
        "base_record": model.record,
    }
    return ClassifierModel("classifier", classifier, model.tokenizer, record, model.speller)
