"""chainrule train classifier DATA -o CLASSIFIER: trains a network that labels texts, trees and others, from scratch."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from chainrule.base.progress import silent
from chainrule.cli.shared.arguments import (
    DEFAULT_TOKENIZER,
    FILE,
    Json,
    MarkerRule,
    Output,
    Overwrite,
    TokenizerOptions,
)
from chainrule.cli.shared.bad_records import Strict, bad_records
from chainrule.cli.shared.models import check_model_target, is_model, save_or_keep
from chainrule.cli.shared.screen import progress_bar
from chainrule.cli.train.finetune import (
    assess,
    note_suspicious_labels,
    note_unseen,
    report_finished_classifier,
    show_classifier,
)
from chainrule.cli.train.finished_run import continues_run
from chainrule.cli.train.flags import flags_of, flags_of_any, given_settings
from chainrule.cli.train.neural import DEFAULT_VECTORS, Resume, VectorOptions
from chainrule.cli.train.training_screen import TrainingScreen
from chainrule.errors import SettingError
from chainrule.neural.config.classifiers import LABELLING
from chainrule.training.config import LabelTraining

if TYPE_CHECKING:
    from chainrule.neural.config.network import LabellingConfig

    class LabelTrainingFlags:
        """All fields may be left out."""

    class LabellingFlags:
        """All fields may be left out."""

    NetworkChoice = str
else:
    NetworkChoice = Literal[tuple(LABELLING)]
    LabelTrainingFlags = flags_of(LabelTraining)
    LabellingFlags = flags_of_any(list(LABELLING.values()))

DEFAULT_TRAINING, DEFAULT_NETWORK = LabelTrainingFlags(), LabellingFlags()

NetworkName = Annotated[
    NetworkChoice,
    Parameter(
        help="; ".join(f"{name}: {(kind.__doc__ or '').partition('.')[0]}" for name, kind in LABELLING.items()) + "."
    ),
]


def classifier(
    data: Annotated[
        str,
        FILE,
        Parameter(
            help="Labelled inputs. Texts: TSV: text, tab, label; or .jsonl: text, label; with --unit word: word, tab, "
            "label; or words, labels. Trees: brackets, .conllu, or .jsonl: words, parents, labels. Graphs: .jsonl: "
            "nodes, edges, label or labels; or .conllu. Pictures: a "
            "folder of JPEG or PNG files for each label, in one folder; or .jsonl: picture (a path), label; with "
            "--unit box: picture, boxes, a list of {box: [left, top, right, bottom], label}. Pairs of "
            "texts or trees: first, tab, second, tab, label; or .jsonl: first, second, label; or named columns, as in "
            "SICK.",
        ),
    ],
    /,
    *,
    output: Output,
    network: NetworkName = "lstm",
    unit: Annotated[
        str | None,
        Parameter(
            help="What is labelled: text or word; tree or node; graph or node; by default the whole. pair: two texts "
            "or trees have one label; rating: they have a number. picture, pixel; or box: where things are in pictures."
        ),
    ] = None,
    test: Annotated[str | None, FILE, Parameter(help="Labelled inputs to test on, in the format of DATA.")] = None,
    strict: Strict = False,
    resume: Resume = False,
    settings: LabellingFlags = DEFAULT_NETWORK,
    training: LabelTrainingFlags = DEFAULT_TRAINING,
    beginning: VectorOptions = DEFAULT_VECTORS,
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    markers: MarkerRule = "keep",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """A network that labels texts, words, trees, graphs or pairs, from scratch.

        $ chainrule train classifier labelled.tsv -o labels/ --network convolution

    Keeps the weights of the epoch that does best on held-out examples, even
    if Ctrl-C ends training early. Writes a model folder for chainrule
    classify and evaluate. With --test, reports accuracy with its 95 % interval,
    precision, recall, F1, confusions and calibration.

    Word vectors are learned with the rest. With --vectors they start as those
    of a file and are tuned; --fixed-vectors keeps them as they are.

    Checkpoints and log.jsonl are kept in the folder during training; --resume
    continues after the process was killed.
    """
    from chainrule.api.training.classifier import train_classifier
    from chainrule.applications.classification import check_labels
    from chainrule.applications.classifier_inputs import BOX_UNIT, RATING_UNIT, digest_of_inputs, kind_of
    from chainrule.text.corpus.records import raise_error
    from chainrule.text.labelled import classes_of
    from chainrule.training.checkpoint import is_first_process, remove_checkpoints

    if strict and test is None:
        raise SettingError("--strict is for --test")
    continues = continues_run(output, resume=resume, overwrite=overwrite)
    config, learning = _configuration(network, given_settings(settings)), given_settings(training)
    kind = kind_of(config.reads, unit)
    unit = kind.unit(unit)
    if resume and not continues and is_model(output):
        others = {
            "network": {"name": network, **given_settings(settings)},
            "vectors": beginning.name,
        }
        report_finished_classifier(
            output,
            learning,
            lambda: digest_of_inputs(kind.read(data, unit, config, raise_error, silent)),
            others,
            json=json,
        )
        return
    replaces = overwrite or continues
    check_model_target(output, overwrite=replaces)
    tests = None
    with progress_bar() as progress:
        examples = kind.read(data, unit, config, raise_error, progress)
        if test is not None:
            with bad_records(strict=strict) as on_bad:
                tests = kind.read(test, unit, config, on_bad, progress)
    if unit != RATING_UNIT:
        check_labels(tests or [], classes_of(examples, least=1 if unit == BOX_UNIT else 2))
    if is_first_process() and config.reads == "text" and unit != RATING_UNIT:
        note_suspicious_labels(examples, unit)
    with progress_bar() as progress:
        screen = TrainingScreen(progress.close)
        model = train_classifier(
            examples,
            config,
            unit=unit,
            training=LabelTraining(**learning),
            tokenizer=None if tokenizer == DEFAULT_TOKENIZER else tokenizer.config(),
            markers=markers,
            vectors=beginning.vectors,
            fixed_vectors=beginning.fixed_vectors,
            folder=output,
            resume=resume,
            overwrite=overwrite,
            on_report=screen,
            progress=progress,
        )
        screen.close()
        if not is_first_process():
            return
        result = None if tests is None else assess(model, tests, progress)
        if result is not None:
            model.record["test"] = result.as_json()
        save_or_keep(model, output, overwrite=replaces, progress=progress)
    remove_checkpoints(output)
    note_unseen(result)
    show_classifier(model.record, output, result, json=json)


def _configuration(network: str, given: dict[str, Any]) -> LabellingConfig:
    """Raises SettingError where a setting is one of other networks."""
    kind = LABELLING[network]
    own = {field.name for field in fields(kind)}
    if unknown := [name for name in given if name not in own]:
        having = [name for name, other in LABELLING.items() if unknown[0] in {field.name for field in fields(other)}]
        flag = "--" + unknown[0].replace("_", "-")
        raise SettingError(f"{flag} is not a setting of --network {network}, but of {', '.join(having)}; leave it out")
    return kind(**given)
