"""The verb rescore: chooses the best of each n-best list by its scores and a language model's, or writes new scores."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from cyclopts import CycloptsError, Parameter

from chainrule.base.files import ARPA_SUFFIXES, compressing, ending_of, replace_file
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    Json,
    ModelMarkerRule,
    ModelTokenizerName,
    Overwrite,
    file_or_dash,
    given_settings,
)
from chainrule.cli.shared.results import table_rows
from chainrule.cli.shared.screen import note, print_json, progress_bar
from chainrule.cli.shared.texts import RecordFlags, bad_records
from chainrule.errors import OutputError, SettingError, TextError, installing, prefix_errors
from chainrule.features.rescore.options import RescoreOptions
from chainrule.text.corpus.reading import FORMATS, TABLES, text_suffix
from chainrule.text.numbers import number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from chainrule.base.progress import Progress
    from chainrule.errors import ChainruleError
    from chainrule.features.rescore.config import ListFormat
    from chainrule.features.rescore.features import HypothesisScorer
    from chainrule.features.rescore.rescoring import Reranker, Scored
    from chainrule.features.rescore.tuning import Weights
    from chainrule.text.tokenization.vocabulary import Markers


def rescore(
    *models_and_lists: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            validator=file_or_dash,
            name="MODELS... LISTS",
            required=True,
            help="Models: folders, also of pairs, or ARPA files, each also as NAME=PATH. Last, n-best lists or "
            "lattices: a file, also compressed, a folder of ESPnet, SRILM or SLF, or - for standard input.",
        ),
    ],
    model: Annotated[
        tuple[str, ...],
        Parameter(help="One more model; repeat it for several.", negative=(), show_default=False),
    ] = (),
    options: Flags[RescoreOptions] = NO_FLAGS,
    records: RecordFlags = NO_FLAGS,
    weights: Annotated[Path | None, Parameter(help="A file of weights that --weights-out wrote.")] = None,
    weights_out: Annotated[Path | None, Parameter(help="The file to write the weights to.")] = None,
    output: Annotated[
        Path | None,
        Parameter(
            name=("--output", "-o"),
            help="The file to write, also compressed; .jsonl, .csv, .tsv or .parquet: a row for each list, with scores "
            "and errors; by default standard output.",
        ),
    ] = None,
    nbest_out: Annotated[
        Path | None,
        Parameter(help="Write the lists with their new scores, best first, in their format, or as .jsonl, .csv, .tsv."),
    ] = None,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Choose the best hypotheses, by their own scores plus a language model's.

        $ chainrule rescore lm/ nbest.jsonl -o best.txt

    Ranks by the sum of weight x score over a hypothesis's own scores, + weight
    x log P under each model, + weight x its number of words. Lists are JSON
    lines, {"id": "1", "hypotheses": [{"text": "so it goes", "score": -3.1}]},
    with "scores": {"name": -3.1} for several and, optionally, "reference"; tables
    with a row for each hypothesis: id, text, score (or columns that --scores
    names), perhaps reference; or those of Moses, Kaldi, ESPnet and SRILM. Of
    lattices, Kaldi's as text or HTK's SLF, the best path is exact where all
    models are n-gram models; others choose among the --nbest best texts. A
    lattice that is wrong is named, and the others go on.

    With references, reports word error rate, character error rate and BLEU
    before, after, and for the oracle, the best possible choice, with 95 %
    bootstrap intervals. Before: by own scores alone, each with weight 1 or its
    --weight, even where other weights are loaded or tuned. Tuning keeps the
    first weight fixed. A text that is impossible for a model counts as
    -1,000,000 nats; a note says so, and it is written as null or -inf.

    A seq2seq model scores each hypothesis given its source: --sources, or the
    "source" of JSON lists.
    """
    from chainrule.features.metrics.bleu import has_bleu
    from chainrule.features.rescore.rescore import ListSource, Rescoring

    lists, named = _lists_and_models(models_and_lists, model)
    given = given_settings(options)
    inputs = [lists, *(given[name] for name in ("tune", "references", "sources") if name in given)]
    _check(inputs, [output, nbest_out, weights_out], tunes="tune" in given, json=json, overwrite=overwrite)
    errors: list[ChainruleError] = []

    def report(error: ChainruleError) -> None:
        errors.append(error)
        note(str(error))

    files = [name for name in inputs if name != "-"]
    with progress_bar() as progress, bad_records(records, "stop", *files) as bad:
        config = RescoreOptions(**given | _named(given), on_error=report, bad_records=bad)
        all_weights = _all_weights(config, weights)
        source = ListSource.of(lists, config)
        scorers = _scorers(named, tokenizer, markers, config, progress)
        run = Rescoring(source, scorers, all_weights, config, progress)
        _note_replaced(run.replaced)
        if run.judge is not None and config.bleu and not has_bleu():
            note(f"BLEU was not measured: it needs {installing('bleu')}; --no-bleu turns off this note")
        with open_outputs(output, nbest_out, run.source.format, tuple(scorers)) as written:
            for block in run:
                written(run.chooser, block)
        if weights_out is not None:
            run.weights.save(weights_out)
    if json:
        print_json(run.as_json())
    else:
        print(run, file=sys.stdout if output is not None else sys.stderr)
    if errors:
        wrong = f"{len(errors):,} of {run.lists + len(errors):,} lattices could not be read; see above"
        raise TextError(f"{lists}: {wrong}")


def _lists_and_models(arguments: Sequence[str], models: Sequence[str]) -> tuple[str, list[str]]:
    """Return the last argument, the lists, and all models, those before it first. Raises CycloptsError."""
    from chainrule.cli.shared.wrong_usage import is_model

    *named, lists = arguments
    if is_model(lists):
        other = next((name for name in named if not is_model(_path_of(name)[1])), None)
        if other is not None:
            raise CycloptsError(msg=f"{other} is not a model, and {lists} is: the models come first, then the lists.")
        raise CycloptsError(msg=f"{lists} is a model; after it, the n-best lists are missing.")
    return lists, [*named, *models]


def _path_of(argument: str) -> tuple[str, str]:
    """Return the name and the path of a model that may be written as NAME=PATH; the name is empty if there is none."""
    name, equals, path = argument.partition("=")
    return (name, path) if path and equals and not Path(argument).exists() else ("", argument)


def _all_weights(options: RescoreOptions, file: Path | None) -> Weights:
    """Return the weights of the command line, then those of a file. Raises SettingError, TextError."""
    from chainrule.features.rescore.tuning import Weights, load_weights

    typed = Weights(options.weights or {})
    if file is None:
        return typed
    loaded = load_weights(file)
    return Weights({**loaded.values, **typed.values}, loaded.record)


def _note_replaced(names: Sequence[str]) -> None:
    """Note which scores of the lists a model replaces. names: of the lists' own scores whose default weight is 0."""
    for name in names:
        note(f"the lists mark {name} as the score of a weaker language model; the model replaces it: --weight {name}=0")


def _scorers(
    models: Sequence[str],
    tokenizer: str | None,
    markers: Markers | None,
    options: RescoreOptions,
    progress: Progress,
) -> dict[str, HypothesisScorer]:
    """Open the models and return their scorers by name. Raises ModelFormatError, SettingError."""
    from chainrule.features.rescore.rescore import hypothesis_scorer
    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.models.files.opening import load
    from chainrule.models.files.recognition import model_class_at

    scorers: dict[str, HypothesisScorer] = {}
    for given in models:
        name, path = _path_of(given)[0], Path(_path_of(given)[1])
        if not name:
            name = path.resolve().name
            name = name[: len(name) - len(ending_of(path, ARPA_SUFFIXES))]
        if name in scorers:
            raise SettingError(f"two models are named {name!r}; rename one with --model NAME=PATH")
        with prefix_errors(str(path)):
            opened = (
                load(path, Seq2SeqModel)
                if model_class_at(path) is Seq2SeqModel
                else open_model(path, tokenizer, markers, progress)
            )
            scorers[name] = hypothesis_scorer(opened, options)
    return scorers


def _check(inputs: Sequence[str], outputs: Sequence[Path | None], *, tunes: bool, json: bool, overwrite: bool) -> None:
    """Check the inputs and outputs. outputs: the best hypotheses first. Raises CycloptsError, OutputError."""
    from chainrule.base.files import check_new_file

    if inputs.count("-") > 1 or (inputs[0] == "-" and tunes):
        raise CycloptsError(msg="Standard input, -, can be read only once, and tuning reads the lists twice.")
    if json and outputs[0] is None:
        raise CycloptsError(msg="With --json, the best hypotheses need a file: give --output.")
    targets = [path for path in outputs if path is not None]
    for i, path in enumerate(targets):
        if path in targets[:i]:
            raise OutputError(f"{path}: is given for two outputs; choose another name for one of them")
        check_new_file(path, overwrite=overwrite, inputs=[name for name in inputs if name != "-"])


def _named(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options that were given as NAME=VALUE, by name. Raises CycloptsError."""
    named: dict[str, dict[str, Any]] = {}
    for option, (flag, example) in _NAMED.items():
        values = named[option] = {}
        for pair in given.get(option, ()):
            name, _, value = pair.partition("=")
            if not name or not value:
                raise CycloptsError(msg=f"{flag} takes NAME=VALUE, such as {example}, not {pair}.")
            if name in values:
                raise CycloptsError(msg=f"{flag} names {name} twice.")
            values[name] = _number(name, value) if option == "weights" else value
    return named


_NAMED = {
    "weights": ("--weight", "lm=0.8"),
    "scores": ("--scores", "acoustic=scores.txt"),
    "costs": ("--costs", "acoustic=costs.txt"),
}


def _number(name: str, value: str) -> float:
    """Return a weight as a number. Raises CycloptsError."""
    try:
        return number_of(value)
    except ValueError:
        raise CycloptsError(msg=f"The weight of {name} is {value}; expected a number.") from None


@contextmanager
def open_outputs(
    output: Path | None, nbest_out: Path | None, kind: ListFormat, models: Sequence[str]
) -> Iterator[Callable[[Reranker, Scored], None]]:
    """Yield a function that writes a block of lists to all outputs; files appear if all goes well. Raises
    OutputError.
    """
    from chainrule.features.rescore.lists.nbest_files import KEYED, list_writer, write_best

    is_rows = output is not None and text_suffix(str(output)) in (*FORMATS, *TABLES)
    with ExitStack() as stack:
        best: BinaryIO = sys.stdout.buffer
        write_rows = None if output is None or not is_rows else stack.enter_context(table_rows(output))
        if output is not None and not is_rows:
            best = stack.enter_context(compressing(stack.enter_context(replace_file(output)), output))
        lists = None if nbest_out is None else stack.enter_context(list_writer(nbest_out, kind, models))

        def write(chooser: Reranker, block: Scored) -> None:
            if write_rows is not None:
                write_rows(chooser.rows(block))
            texts = block.texts()
            for nbest, row in zip(block.lists, chooser.after(block).tolist(), strict=True) if not is_rows else ():
                write_best(best, nbest, texts[row], with_id=kind in KEYED)
            if output is None:
                best.flush()
            if lists is not None:
                for nbest, scores, order in chooser.ranked(block):
                    lists.write(nbest, scores, order)

        yield write
