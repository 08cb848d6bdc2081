"""chainrule finetune MODEL --data LABELLED -o CLASSIFIER: a head on a pre-trained network learns labels."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import FILE, Json, ModelMarkerRule, Output, Overwrite
from chainrule.cli.bad_records import Strict, bad_records
from chainrule.cli.embed import NetworkPath
from chainrule.cli.ended_run import data_differences, say_that_it_has_ended
from chainrule.cli.flags import flags_of, given_of
from chainrule.cli.models import check_model_target, is_model, opened, save_or_keep
from chainrule.cli.screen import note, print_json, progress
from chainrule.cli.train_neural import Resume
from chainrule.cli.training_screen import TrainingScreen
from chainrule.errors import OutputError, SettingError
from chainrule.training.finetuning_config import FineTuningConfig
from chainrule.training.resume_check import differences

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chainrule.evaluation.classification import Classification
    from chainrule.text.labelled import Labelled, LabelledUnit

    class FineTuningFlags:
        """All fields may be left out."""
else:
    FineTuningFlags = flags_of(FineTuningConfig)

AS_RECOMMENDED = FineTuningFlags()
_CONFUSED = 10  # pairs that are shown
_UNSEEN = 5  # labels that are named
_LABELS = 30  # of more, only --json has a line each

LabelledFile = Annotated[
    str,
    FILE,
    Parameter(
        help="TSV: text, tab, label; or .jsonl: text, label. With --words: word, tab, label; or words, labels. A first "
        "line of TSV whose label is the word label is a header."
    ),
]


def finetune(
    model: NetworkPath,
    /,
    *,
    data: LabelledFile,
    output: Output,
    test: Annotated[
        str | None, FILE, Parameter(help="Labelled texts to report on, written as those of --data.")
    ] = None,
    strict: Strict = False,
    words: Annotated[bool, Parameter(negative=(), help="Each word has a label, not each text.")] = False,
    resume: Resume = False,
    training: FineTuningFlags = AS_RECOMMENDED,
    markers: ModelMarkerRule = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Put a head on a network of any family, and train both on labels.

    The epoch that does best on a share of the texts that is kept for it wins,
    also where Ctrl-C ends the training early. Checkpoints and log.jsonl are
    kept in the folder while it is trained, and --resume goes on after the
    process was killed. What is written is a model folder for chainrule
    classify. With --test: accuracy with its 95 % interval, precision, recall,
    F1, confusion, calibration.
    """
    from chainrule.api.finetune import finetune as finetuned
    from chainrule.applications.labelling import check_labels
    from chainrule.evaluation.classification import word_baseline
    from chainrule.text.labelled import classes_of, read_labelled
    from chainrule.training.folder import is_first_process, is_unfinished, remove_checkpoints

    if strict and test is None:
        raise CycloptsError(msg="--strict is for --test.")
    if resume and overwrite:
        raise SettingError("--resume goes on with a run and --overwrite begins anew; say one of them")
    if output.resolve() == model.resolve():
        raise OutputError(f"{output}: is the network that is read, which would be lost; choose another folder")
    unit: LabelledUnit = "word" if words else "text"
    said = given_of(training)
    config = FineTuningConfig(**said)
    goes_on = resume and is_unfinished(output)
    if resume and not goes_on and is_model(output):
        _say_that_it_has_ended(output, said, data, unit, json=json)
        return
    replaces = overwrite or goes_on
    check_model_target(output, overwrite=replaces)
    examples = read_labelled(data, unit)
    tests = None
    if test is not None:
        with bad_records(strict=strict) as on_bad:
            tests = read_labelled(test, unit, on_bad)
    check_labels(tests or [], classes_of(examples))
    if is_first_process():
        _note_oddities(examples, unit)
    with progress() as told:
        screen = TrainingScreen(told.close)
        classifier = finetuned(
            opened(model, None, markers, told),
            examples,
            unit,
            config,
            folder=output,
            resume=resume,
            overwrite=overwrite,
            told=screen,
            progress=told,
        )
        screen.close()
        if not is_first_process():
            return
        found = None if tests is None else classifier.assess(tests, told)
        if found is not None:
            if words:
                found = replace(found, word_baseline=word_baseline(examples, tests or []))
            classifier.record["test"] = found.as_json()
        save_or_keep(classifier, output, overwrite=replaces, told=told)
    remove_checkpoints(output)
    if found is not None:
        note_unseen(found)
    record = classifier.record
    if config.valid_share and not record["validation_examples"]:
        note("the texts are too few to keep one to choose the epoch by: the last one was taken")
    if json:
        print_json({**record, "model": str(output)})
        return
    print(
        f"{output}: classifier of {record['examples']:,} examples, best after epoch {record['best_epoch']} of "
        f"{record['epochs']}, in {record['training_seconds']:.1f} s"
    )
    if record["validation_examples"]:
        print(
            f"validation: {record['validation_nats']:.4f} nats a label, {record['validation_accuracy']:.1%} right "
            f"in {record['validation_examples']:,} texts"
        )
    if found is not None:
        print(described(found))


def _note_oddities(examples: Sequence[Labelled], unit: LabelledUnit) -> None:
    if unit == "text" and all(len(example.text.split()) == 1 for example in examples):
        note("every text is a single word; if these are the words of texts, say --words")
    times = Counter(label for example in examples for label in example.labels)
    single = [label for label, number in times.items() if number == 1]
    if single:
        note(f"of {len(times):,} labels, {len(single):,} are there once only, such as {single[0]!r}")


def note_unseen(found: Classification) -> None:
    """Says which labels training has not seen."""
    if found.unseen:
        names = list(found.unseen)
        shown = ", ".join(names[:_UNSEEN]) + f" and {len(names) - _UNSEEN} more" * (len(names) > _UNSEEN)
        examples, total = sum(found.unseen.values()), found.accuracy.pairs
        note(
            f"{len(names):,} of the labels were not seen in training ({shown}): the {examples:,} of {total:,} examples "
            "that have one count as wrong, and are left out of nats"
        )


def _by_word(found: Classification) -> list[tuple[str, str, str]]:
    """A line of `described`, where it is known."""
    if found.word_baseline is None:
        return []
    return [("by word", f"{found.word_baseline:.2%}", "if each word has its most frequent label of --data")]


def _say_that_it_has_ended(output: Path, said: dict[str, Any], data: str, unit: LabelledUnit, *, json: bool) -> None:
    from chainrule.text.labelled import digest_of, read_labelled

    def others(before: dict[str, Any]) -> list[str]:
        settings = before.get("settings", {})
        now = {"data": {"labelled examples": digest_of(read_labelled(data, unit))}}
        return differences({name: settings.get(name) for name in said}, said) + data_differences(before, now)

    say_that_it_has_ended(output, "classifier", None, {}, others, json=json)


def described(found: Classification) -> str:
    """For people."""
    from chainrule.report.tables import text_table

    low, high = found.accuracy.interval
    of_labels = found.confusion.sum(1)
    most = int(of_labels.argmax())
    figures = [
        ("accuracy", f"{found.accuracy.share:.2%}", f"{100 * low:.2f} to {100 * high:.2f} at 95 %"),
        ("majority", f"{of_labels[most] / of_labels.sum():.2%}", f"{found.labels[most]}, if said of all"),
        *_by_word(found),
        ("macro F1", f"{found.macro_f1:.4f}", f"over the labels in it: {(of_labels > 0).sum()}"),
        ("nats", f"{found.nats:.4f}", "a label"),
        ("calibration error", f"{found.calibration_error:.4f}", "expected, in 15 bins"),
        ("examples", f"{found.accuracy.pairs:,}", ""),
    ]
    lines = [f"{name:<20}{value:>12}  {remark}".rstrip() for name, value, remark in figures]
    if len(found.labels) <= _LABELS:
        rows = zip(found.labels, found.precision, found.recall, found.f1, of_labels, strict=True)
        cells = [[label, *(f"{share:.4f}" for share in shares), f"{number:,}"] for label, *shares, number in rows]
        lines.append(text_table(["label", "precision", "recall", "F1", "examples"], cells))
    lines += [f"{times:,} {true} taken for {other}" for true, other, times in found.confused(_CONFUSED)]
    return "\n".join(lines)
