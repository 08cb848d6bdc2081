"""chainrule rescore LISTS --model lm/: the best of each n-best list, by its own scores and a language model's."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelTokenizerName, Overwrite, WholeNumber, file_or_dash
from chainrule.cli.models import opened
from chainrule.cli.screen import note, print_json, progress
from chainrule.errors import OutputError, SettingError, prefix_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.applications.nbest.kaldi import ScoreFiles
    from chainrule.applications.rescoring.features import TextScorer
    from chainrule.applications.rescoring.weights import Weights
    from chainrule.base.progress import Progress
    from chainrule.text.vocabulary import Markers

_SEVERAL = Parameter(consume_multiple=True, negative=(), show_default=False)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """How n-best lists are read."""

    format: Annotated[
        Literal["json", "moses", "kaldi", "espnet", "srilm"] | None,
        Parameter(help="How the lists are written; by default as names and first lines show."),
    ] = None
    scores: Annotated[
        tuple[str, ...],
        _SEVERAL,
        Parameter(help="For a text of Kaldi's: the files of its scores, acoustic=FILE; higher is better."),
    ] = ()
    costs: Annotated[
        tuple[str, ...], _SEVERAL, Parameter(help="The same for costs, which are lower for better ones.")
    ] = ()

    @property
    def files(self) -> ScoreFiles:
        """Raises CycloptsError, SettingError."""
        from chainrule.applications.nbest.kaldi import ScoreFiles

        return ScoreFiles(_named_values("--scores", self.scores), _named_values("--costs", self.costs))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WeightOptions:
    """What the weights are, or how they are tuned."""

    weight: Annotated[
        tuple[str, ...],
        _SEVERAL,
        Parameter(help="Weights: lm=0.8 words=0.5; by default 1, but 0 for words and priors beside a model."),
    ] = ()
    weights: Annotated[Path | None, Parameter(help="A file of weights that --weights-out wrote.")] = None
    tune: Annotated[
        str | None,
        Parameter(
            help="Tune the weights: on LISTS with this file of references, or on other JSON lists that hold theirs."
        ),
    ] = None
    objective: Annotated[
        Literal["wer", "cer", "bleu", "likelihood"],
        Parameter(help="What is tuned: an error rate, BLEU, or the likelihood of the nearest hypotheses."),
    ] = "wer"
    restarts: Annotated[int, WholeNumber, Parameter(help="Tune anew from so many random weights.")] = 8
    seed: Annotated[int, WholeNumber, Parameter(help="Another seed draws other weights to begin with.")] = 0
    weights_out: Annotated[Path | None, Parameter(help="The file to write the weights to.")] = None


_AS_SHOWN, _EQUAL = ListOptions(), WeightOptions()


def rescore(
    lists: Annotated[
        str,
        Parameter(allow_leading_hyphen=True, validator=file_or_dash),
        Parameter(
            help="N-best lists: a file, also compressed, a folder of ESPnet's or SRILM's, or - for standard input."
        ),
    ],
    /,
    *,
    model: Annotated[
        tuple[str, ...],
        Parameter(
            help="A model folder or ARPA file, also NAME=PATH; several times for several.",
            negative=(),
            show_default=False,
        ),
    ] = (),
    weighing: WeightOptions = _EQUAL,
    references: Annotated[
        str | None,
        Parameter(
            help="What should come out, a line a list or with the lists' ids before; JSON lists may hold theirs."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(name=("--output", "-o"), help="The file to write, also .jsonl or compressed; by default the screen."),
    ] = None,
    nbest_out: Annotated[
        Path | None,
        Parameter(help="Write the lists with their new scores, best first, in their format, or as .jsonl."),
    ] = None,
    reading: ListOptions = _AS_SHOWN,
    spelling: Annotated[bool, Parameter(help="An unknown word costs its spelling, too.")] = True,
    share: Annotated[
        bool | None,
        Parameter(help="Read what hypotheses begin with alike once; by default for all but n-gram models."),
    ] = None,
    bleu: Annotated[bool, Parameter(help="Measure BLEU as well, where sacrebleu is installed.")] = True,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Choose among hypotheses: the best sum of their own scores and a model's.

    The sum is weight x score for each own score of a hypothesis, + weight x
    log P under each model, + weight x its number of words. Lists are JSON
    lines, {"id": "1", "hypotheses": [{"text": "so it goes", "score": -3.1}]},
    with "scores": {"name": -3.1} for several and "reference" if it is known;
    or those of Moses, Kaldi, ESPnet and SRILM.

    With references, word error rate, character error rate and BLEU are told
    before, after, and for the oracle, the best choice that there is; with 95 %
    bootstrap intervals. Before is by own scores alone, each with weight 1 or
    what --weight says, also where other weights are loaded or tuned. Tuning
    keeps the first weight. A text that a model finds impossible counts as
    -1,000,000 nats, which is told, and written as null or -inf.
    """
    from chainrule.api.rescore import ListSource, Rescoring, Tuning
    from chainrule.applications.nbest.reading import format_of
    from chainrule.applications.rescoring.tuning import TuningConfig
    from chainrule.cli.rescoring_output import outputs
    from chainrule.evaluation.bleu import has_bleu

    inputs = [name for name in (lists, weighing.tune, references) if name is not None]
    _check(inputs, weighing, output, nbest_out, json=json, overwrite=overwrite)
    given = _given(weighing)
    source = ListSource(lists, reading.format or format_of(lists, reading.files), reading.files, references)
    config = TuningConfig(restarts=weighing.restarts, seed=weighing.seed)
    tuning = None if weighing.tune is None else Tuning(weighing.tune, weighing.objective, config)
    with progress() as told:
        scorers = _scorers(model, tokenizer, markers, told, spelled=spelling, share=share)
        run = Rescoring(source, scorers, given, before=_typed(weighing), tuning=tuning, bleu=bleu, progress=told)
        _note_replaced(run.replaced)
        if run.judge is not None and bleu and not has_bleu():
            note("BLEU is not measured: that needs pip install 'chainrule[bleu]'; --no-bleu leaves it out unsaid")
        with outputs(output, nbest_out, run.source.format, tuple(scorers)) as written:
            for block in run:
                written(run.chooser, block)
        if weighing.weights_out is not None:
            run.weights.save(weighing.weights_out)
    if json:
        print_json(run.as_json())
    else:
        print(run, file=sys.stdout if output is not None else sys.stderr)


def _given(weighing: WeightOptions) -> Weights:
    """What is said, on the command line before what is in a file. Raises CycloptsError, SettingError, TextError."""
    from chainrule.applications.rescoring.weights import Weights, load_weights

    typed = _typed(weighing)
    if weighing.weights is None:
        return typed
    loaded = load_weights(weighing.weights)
    return Weights({**loaded.values, **typed.values}, loaded.record)


def _typed(weighing: WeightOptions) -> Weights:
    """What is said on the command line alone. Raises CycloptsError, SettingError."""
    from chainrule.applications.rescoring.weights import Weights

    return Weights({name: _number(name, value) for name, value in _named_values("--weight", weighing.weight).items()})


def _note_replaced(names: Sequence[str]) -> None:
    """names: of the lists' own scores that get no weight by default."""
    for name in names:
        note(f"{name} is a weaker language model's, as the lists say; the model stands in for it: --weight {name}=0")


def _scorers(
    models: Sequence[str],
    tokenizer: str | None,
    markers: Markers | None,
    told: Progress,
    *,
    spelled: bool,
    share: bool | None,
) -> dict[str, TextScorer]:
    """The models by their names. Raises ModelFormatError, SettingError."""
    from chainrule.api.rescore import scorer_of
    from chainrule.ngram.arpa.lines import ARPA_SUFFIXES

    found: dict[str, TextScorer] = {}
    for given in models:
        name, _, rest = given.partition("=")
        path = Path(rest if rest and not Path(given).exists() else given)
        if not rest or Path(given).exists():
            suffix = next((suffix for suffix in ARPA_SUFFIXES if path.name.endswith(suffix)), "")
            name = path.resolve().name.removesuffix(suffix)
        if name in found:
            raise SettingError(f"two models are called {name!r}; name one of them anew with --model NAME=PATH")
        with prefix_errors(str(path)):
            found[name] = scorer_of(opened(path, tokenizer, markers, told), spelling=spelled, share=share)
    return found


def _check(
    inputs: Sequence[str],
    weighing: WeightOptions,
    output: Path | None,
    nbest_out: Path | None,
    *,
    json: bool,
    overwrite: bool,
) -> None:
    """Raises CycloptsError, OutputError."""
    if inputs.count("-") > 1 or (inputs[0] == "-" and weighing.tune is not None):
        raise CycloptsError(msg="Standard input, -, can be read only once, and tuning on lists reads them twice.")
    if json and output is None:
        raise CycloptsError(msg="With --json, the best hypotheses need a file: say -o.")
    targets = [path for path in (output, nbest_out, weighing.weights_out) if path is not None]
    for i, path in enumerate(targets):
        if path in targets[:i]:
            raise OutputError(f"{path}: is to be written twice; choose another name for one of them")
        _check_target(path, inputs, overwrite=overwrite)


def _check_target(path: Path, inputs: Sequence[str], *, overwrite: bool) -> None:
    """Asked before the work: whether something may be written there. Raises OutputError."""
    from chainrule.base.files import check_writable

    if path.exists():
        if any(path.samefile(name) for name in inputs if name != "-" and Path(name).exists()):
            raise OutputError(f"{path}: is what is to be read; choose another name")
        if path.is_dir() or not overwrite:
            advice = "choose another name" if path.is_dir() else "say --overwrite to replace it, or choose another name"
            raise OutputError(f"{path}: exists already; {advice}")
    if not path.absolute().parent.is_dir():
        raise OutputError(f"{path}: there is no folder {path.parent} to write it in; make it first")
    check_writable(path.parent)


def _named_values(option: str, values: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE by name. Raises CycloptsError."""
    found: dict[str, str] = {}
    for given in values:
        name, is_named, value = given.partition("=")
        if not is_named or not name or not value:
            raise CycloptsError(msg=f"{option} takes NAME=VALUE, such as {_EXAMPLES[option]}, not {given}.")
        if name in found:
            raise CycloptsError(msg=f"{option} names {name} twice.")
        found[name] = value
    return found


_EXAMPLES = {"--weight": "lm=0.8", "--scores": "acoustic=scores.txt", "--costs": "acoustic=costs.txt"}


def _number(name: str, value: str) -> float:
    """Raises CycloptsError."""
    try:
        return float(value)
    except ValueError:
        raise CycloptsError(msg=f"The weight of {name} is {value}; expected a number.") from None
