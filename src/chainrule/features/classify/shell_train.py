"""The verbs train classifier (texts, trees and others, from scratch) and finetune (a head on a trained network)."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import CycloptsError, Parameter

from chainrule.base.progress import silent
from chainrule.base.results import Noted
from chainrule.base.tables import count_of
from chainrule.cli.shared.models import check_model_target, is_model, open_model, save_or_keep
from chainrule.cli.shared.options import (
    FILE,
    NO_FLAGS,
    Flags,
    Json,
    MarkerRule,
    ModelMarkerRule,
    NetworkPath,
    Output,
    Overwrite,
    Resume,
    TokenizerFlags,
    VectorFlags,
    flag,
    flags_of_any,
    given_settings,
    tokenizer_of,
)
from chainrule.cli.shared.screen import note, print_json, progress_bar
from chainrule.cli.shared.texts import RecordFlags, bad_records
from chainrule.cli.train.run_output import continues_run, data_differences, report_finished_run, shown_run
from chainrule.errors import OutputError, SettingError
from chainrule.features.classify.network.config import LABELLING
from chainrule.features.classify.options import TrainClassifierOptions
from chainrule.features.classify.shell import assess
from chainrule.features.classify.shell_columns import DEFAULT_LABELLED, LabelledOptions
from chainrule.models.run_options import VectorOptions
from chainrule.text.corpus.bad_records import BadRecords
from chainrule.training.config import ClassifierTrainingConfig, FineTuningConfig, differences

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from chainrule.base.results import Result
    from chainrule.features.classify.labelled.texts import Labelled, LabelledUnit
    from chainrule.text.corpus.records import OnBad


LabelledFile = Annotated[
    str,
    FILE,
    Parameter(
        help="TSV: text, tab, label; or .csv or .jsonl: text, label. With --words: TSV: word, tab, label; or .jsonl: "
        "words, labels. A first line of TSV or CSV that names the columns is a header."
    ),
]


def finetune(
    model: NetworkPath,
    /,
    *,
    data: LabelledFile,
    output: Output,
    test: Annotated[str | None, FILE, Parameter(help="Labelled texts to test on, in the format of --data.")] = None,
    records: RecordFlags = NO_FLAGS,
    words: Annotated[bool, Parameter(negative=(), help="Label each word, not each text.")] = False,
    pairs: Annotated[
        bool,
        Parameter(negative=(), help="Label pairs of sentences: first, tab, second, tab, label; or .jsonl with these."),
    ] = False,
    columns: LabelledOptions = DEFAULT_LABELLED,
    resume: Resume = False,
    training: Flags[FineTuningConfig] = NO_FLAGS,
    markers: ModelMarkerRule = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Fine-tune a network, with a classification head, on labelled texts, words or pairs.

        $ chainrule finetune transformer/ --data labelled.tsv -o classifier/

    The network may be of any family. A pair is read as [CLS] first [SEP] second
    [SEP], with the token types of BERT if the network has them. Keeps the
    weights of the epoch with the best accuracy on held-out texts, even if Ctrl-C
    ends training early. Writes a model folder for chainrule classify. With
    --test, reports accuracy with its 95 % interval, precision, recall, F1,
    confusions and calibration.

    Checkpoints and log.jsonl are kept in the folder during training; --resume
    continues after the process was killed.
    """
    from chainrule.features.classify.classification import check_labels
    from chainrule.features.classify.inputs import digest_of_inputs, kind_of
    from chainrule.features.classify.labelled.texts import classes_of, word_baseline
    from chainrule.features.classify.training import finetune as train_classifier
    from chainrule.text.corpus.records import raise_error
    from chainrule.training.checkpoint import is_first_process, remove_checkpoints

    continues = continues_run(output, resume=resume, overwrite=overwrite)
    if output.resolve() == model.resolve():
        raise OutputError(f"{output}: is the network to start from, which would be lost; choose another folder")
    if words and pairs:
        raise CycloptsError(msg="--words labels each word of a text, and --pairs two texts at once; give one of them.")
    unit: LabelledUnit | Literal["pair"] = "word" if words else "pair" if pairs else "text"

    rule = given_settings(records).get("bad_records", "stop")  # for what is to be learned from

    def read(name: str, on_bad: OnBad) -> list[Any]:
        return list(columns.read(kind_of("text", unit), name, unit, None, on_bad, silent))

    settings = given_settings(training)
    config = FineTuningConfig(**settings)
    if resume and not continues and is_model(output):

        def digest() -> str:
            return digest_of_inputs(read(data, BadRecords(rule)))

        report_finished_classifier(output, settings, digest, {"network": None}, json=json)
        return
    replaces = overwrite or continues
    check_model_target(output, overwrite=replaces)
    with bad_records(records, "stop" if test is None else "skip", data, *filter(None, [test])) as bad:
        examples = read(data, bad if rule == "skip" else raise_error)
        tests = None if test is None else read(test, bad)
    check_labels(tests or [], classes_of(examples))
    if is_first_process() and not pairs:
        note_suspicious_labels(examples, unit, "--words")
    with progress_bar() as progress:
        with shown_run(progress, output, resume=resume, overwrite=overwrite) as options:
            classifier = train_classifier(open_model(model, None, markers, progress), examples, unit, config, **options)
        if not is_first_process():
            return
        result = None if tests is None else classifier.assess(tests, progress)
        if result is not None:
            if words:
                result = replace(result, word_baseline=word_baseline(examples, tests or []))
            classifier.record["test"] = result.as_json()
        save_or_keep(classifier, output, overwrite=replaces, progress=progress)
    remove_checkpoints(output)
    show_classifier(classifier.record, output, result, json=json)


def show_classifier(
    record: dict[str, Any],
    output: Path,
    result: Result | None,
    *,
    json: bool,
) -> None:
    """Print what was trained, and how well it does on the test, if there is one."""
    from chainrule.features.classify.units import unit_kind

    if record["settings"]["valid_share"] and not record["validation_examples"]:
        note("there are too few examples to hold one out and choose the epoch by it; kept the last epoch")
    if isinstance(result, Noted):
        for message in result.notes():
            note(message)
    if json:
        print_json({**record, "model": str(output)})
        return
    network = f"{record['network']['name']} " if "network" in record else ""
    print(
        f"{output}: {network}classifier of {count_of(record['examples'], 'example')}, best after epoch "
        f"{record['best_epoch']} of {record['epochs']}, in {record['training_seconds']:.1f} s"
    )
    if record["validation_examples"]:
        figures = unit_kind(record.get("unit")).validated(record)
        examples = count_of(record["validation_examples"], "example")
        print(f"validation: {record['validation_nats']:.4f} nats {figures} in {examples}")
    if result is not None:
        print(result)


def note_suspicious_labels(examples: Sequence[Labelled], unit: str, for_words: str) -> None:
    """Print notes on examples that may be a mistake: single words as texts, labels that occur once.

    for_words: the verb's option for labels of words.
    """
    if unit == "text" and all(len(example.text.split()) == 1 for example in examples):
        note(f"every text is a single word; to label the words of texts, use {for_words}")
    times = Counter(label for example in examples for label in example.labels)
    single = [label for label, number in times.items() if number == 1]
    if single:
        occur = "occurs only once:" if len(single) == 1 else "occur only once, such as"
        note(f"of {len(times):,} labels, {len(single):,} {occur} {single[0]!r}")


def report_finished_classifier(
    output: Path, settings: dict[str, Any], digest: Callable[[], str], others: dict[str, Any], *, json: bool
) -> None:
    """Report a finished run, as `report_finished_run` does.

    settings: those of the training, as given. digest: of the labelled examples. others: other given values, by their
    names in the record.
    """

    def other_changes(before: dict[str, Any]) -> list[str]:
        recorded = before.get("settings", {})
        now = {"data": {"labelled examples": digest()}}
        changes = differences({name: recorded.get(name) for name in settings}, settings)
        for name, value in others.items():
            known = before.get(name)
            if isinstance(value, dict) and isinstance(known, dict):
                known = {key: known.get(key) for key in value}
            changes += differences({name: known}, {name: value})
        return changes + data_differences(before, now)

    report_finished_run(output, "classifier", None, {}, other_changes, json=json)


if TYPE_CHECKING:
    from chainrule.neural.config.network import LabellingConfig

    NetworkChoice: TypeAlias = str
    LabellingFlags: TypeAlias = Any
else:
    NetworkChoice, LabellingFlags = Literal[tuple(LABELLING)], flags_of_any(list(LABELLING.values()))

NetworkName = Annotated[
    NetworkChoice,
    Parameter(
        help="By default convolution-bag; of words, lstm; of pairs, bag. "
        + "; ".join(f"{name}: {(kind.__doc__ or '').partition('.')[0]}" for name, kind in LABELLING.items())
        + "."
    ),
]


def classifier(
    data: Annotated[
        str,
        FILE,
        Parameter(
            help="Labelled inputs. Texts: TSV: text, tab, label; or .csv or .jsonl: text, label; with --unit word: "
            "TSV: word, tab, label; or .jsonl: words, labels. Trees: brackets, .conllu, or .jsonl: words, parents, "
            "labels. Graphs: .jsonl: nodes, edges, label or labels; or .conllu. Pictures: a folder of JPEG or PNG "
            "files for each label, in one folder; or .jsonl: picture (a path), label; with --unit box: picture, boxes, "
            "a list of {box: [left, top, right, bottom], label}. Pairs of texts or trees: first, tab, second, tab, "
            "label; or .csv or .jsonl: first, second, label; or named columns, as in SICK, or by --field and "
            "--label-field.",
        ),
    ],
    /,
    *,
    output: Output,
    network: NetworkName | None = None,
    unit: Annotated[str | None, flag(TrainClassifierOptions, "unit")] = None,
    test: Annotated[str | None, FILE, Parameter(help="Labelled inputs to test on, in the format of DATA.")] = None,
    records: RecordFlags = NO_FLAGS,
    columns: LabelledOptions = DEFAULT_LABELLED,
    resume: Resume = False,
    settings: LabellingFlags = NO_FLAGS,
    training: Flags[ClassifierTrainingConfig] = NO_FLAGS,
    beginning: VectorFlags = NO_FLAGS,
    tokenizer: TokenizerFlags = NO_FLAGS,
    markers: MarkerRule = "keep",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """A network that labels texts, words, trees, graphs or pairs, from scratch.

        $ chainrule train classifier labelled.tsv -o labels/ --network convolution

    Keeps the weights of the epoch with the best accuracy (of ratings: Pearson's
    correlation) on held-out examples, even if Ctrl-C ends training early.
    Writes a model folder for chainrule classify and evaluate. With --test,
    reports accuracy with its 95 % interval, precision, recall, F1, confusions
    and calibration.

    Word vectors are learned with the rest. With --vectors they start as those
    of a file and are tuned; --fixed-vectors keeps them as they are.

    Checkpoints and log.jsonl are kept in the folder during training; --resume
    continues after the process was killed.
    """
    from chainrule.features.classify.classification import check_labels
    from chainrule.features.classify.inputs import default_network, digest_of_inputs, kind_of
    from chainrule.features.classify.training import train_classifier
    from chainrule.features.classify.units import RATING_UNIT, unit_kind
    from chainrule.text.corpus.records import raise_error
    from chainrule.training.checkpoint import is_first_process, remove_checkpoints

    continues = continues_run(output, resume=resume, overwrite=overwrite)
    config = _configuration(network, default_network(unit), given_settings(settings))
    network, learning = network or default_network(unit), given_settings(training)
    kind, initial = kind_of(config.reads, unit), VectorOptions(**given_settings(beginning))
    unit = kind.unit(unit)
    rule = given_settings(records).get("bad_records", "stop")  # for what is to be learned from
    if resume and not continues and is_model(output):
        others = {
            "network": {"name": network, **given_settings(settings)},
            "vectors": initial.name,
        }
        report_finished_classifier(
            output,
            learning,
            lambda: digest_of_inputs(columns.read(kind, data, unit, config, BadRecords(rule), silent)),
            others,
            json=json,
        )
        return
    replaces = overwrite or continues
    check_model_target(output, overwrite=replaces)
    inputs = [data, *filter(None, [test])]
    with progress_bar() as progress, bad_records(records, "stop" if test is None else "skip", *inputs) as bad:
        examples = columns.read(kind, data, unit, config, bad if rule == "skip" else raise_error, progress)
        tests = None if test is None else columns.read(kind, test, unit, config, bad, progress)
    if unit != RATING_UNIT:
        check_labels(tests or [], unit_kind(unit).labels(examples))
    if is_first_process() and config.reads == "text" and unit != RATING_UNIT:
        note_suspicious_labels(examples, unit, "--unit word")
    with progress_bar() as progress:
        with shown_run(progress, output, resume=resume, overwrite=overwrite) as options:
            model = train_classifier(
                examples,
                config,
                unit=unit,
                training=ClassifierTrainingConfig(**learning),
                tokenizer=tokenizer_of(tokenizer) if given_settings(tokenizer) else None,
                markers=markers,
                **initial.given,
                **options,
            )
        if not is_first_process():
            return
        result = None if tests is None else assess(model, tests, progress)
        if result is not None:
            model.record["test"] = result.as_json()
        save_or_keep(model, output, overwrite=replaces, progress=progress)
    remove_checkpoints(output)
    show_classifier(model.record, output, result, json=json)


def _configuration(network: str | None, default: str, given: dict[str, Any]) -> LabellingConfig:
    """Return the settings of the network. default: the one that is taken if none is named.

    Raises SettingError where a setting is one of other networks.
    """
    kind = LABELLING[network or default]
    own = {field.name for field in fields(kind)}
    if unknown := [name for name in given if name not in own]:
        having = [name for name, other in LABELLING.items() if unknown[0] in {field.name for field in fields(other)}]
        flag = "--" + unknown[0].replace("_", "-")
        if network is None:
            having = [name for name in having if LABELLING[name].reads == kind.reads] or having
            best = "lstm" if "lstm" in having else having[0]
            others = ", ".join(name for name in having if name != best)
            raise SettingError(
                f"{flag} is not a setting of {default}, the default network; add --network {best}"
                + (f", or another that has it: {others}" if others else "")
            )
        raise SettingError(f"{flag} is not a setting of --network {network}, but of {', '.join(having)}; leave it out")
    return kind(**given)
