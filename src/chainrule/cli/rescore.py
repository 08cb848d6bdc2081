"""chainrule rescore LISTS --model lm/: the best of each n-best list, by its own scores and a language model's."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelTokenizerName, Overwrite, WholeNumber, file_or_dash
from chainrule.cli.models import opened
from chainrule.cli.screen import finite, note, print_json, progress
from chainrule.errors import OutputError, SettingError, TextError, naming

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.applications.nbest.kaldi import ScoreFiles
    from chainrule.applications.nbest.lists import NBestList
    from chainrule.applications.nbest.reading import ListFormat
    from chainrule.applications.rescoring.features import TextScorer
    from chainrule.applications.rescoring.rescoring import Judge, Scored, TuningData
    from chainrule.applications.rescoring.weights import Weights
    from chainrule.progress import Progress
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
    from chainrule.applications.nbest.reading import format_of
    from chainrule.applications.rescoring.rescoring import scored
    from chainrule.cli.rescoring_output import Run, described, outputs

    inputs = [name for name in (lists, weighing.tune, references) if name is not None]
    _check(inputs, weighing, output, nbest_out, json=json, overwrite=overwrite)
    source = _Source(lists, reading.format or format_of(lists, reading.files), reading.files, references)
    with progress() as told:
        scorers = _scorers(model, tokenizer, markers, told, spelled=spelling, share=share)
        source, weights, data = _weighed(source, weighing, scorers, told)
        given = source.lists(told)
        blocks = iter(scored(given, scorers) if data is None else data.replayed(given))
        first = next(blocks)
        names, replaced = first.features.names, first.features.replaced
        _note_replaced([name for name in replaced if name not in weights.values])
        weights = weights.with_defaults(names, replaced)
        judge = None if first.errors is None else _judge(bleu=bleu)
        run = Run(weights, _typed(weighing).with_defaults(names), tuple(first.lists[0].scores), names, judge)
        with outputs(output, nbest_out, source.format, tuple(scorers)) as written:
            for block in chain([first], blocks):
                run.add(block)
                written(run.chooser, block)
        if weighing.weights_out is not None:
            weights.save(weighing.weights_out)
    if json:
        print_json(run.as_json())
    else:
        print(described(run), file=sys.stdout if output is not None else sys.stderr)


@dataclass(frozen=True)
class _Source:
    """Where lists come from, and their references."""

    name: str
    format: ListFormat
    files: ScoreFiles
    references: str | None = None

    def lists(self, told: Progress) -> Iterator[NBestList]:
        """Raises TextError."""
        from chainrule.applications.nbest.reading import KEYED, read_lists
        from chainrule.applications.nbest.references import ReferenceFile, with_own_references, with_references

        found = read_lists(self.name, self.format, self.files, told)
        if self.references is None:
            return with_own_references(found)
        return with_references(found, ReferenceFile(self.references, always_keyed=self.format in KEYED))


def _weighed(
    source: _Source, weighing: WeightOptions, scorers: dict[str, TextScorer], told: Progress
) -> tuple[_Source, Weights, TuningData | None]:
    """The source, perhaps with references now; the weights, said or tuned; what tuning found out of the source."""
    from chainrule.applications.nbest.reading import holds_json
    from chainrule.applications.rescoring.rescoring import TuningData, scored
    from chainrule.applications.rescoring.tuning import TuningConfig
    from chainrule.applications.rescoring.weights import Weights

    said = _said(weighing)
    if weighing.tune is None:
        return source, said, None
    if holds_json(weighing.tune):
        tuned_on = _Source(weighing.tune, "json", source.files)
    else:
        source = replace(source, references=source.references or weighing.tune)
        tuned_on = replace(source, references=weighing.tune)
    blocks = (_with_references(block, tuned_on.name) for block in scored(tuned_on.lists(told), scorers))
    data = TuningData.of(blocks, weighing.objective)
    config = TuningConfig(restarts=weighing.restarts, seed=weighing.seed)
    start = said.with_defaults(data.features.names, data.features.replaced).vector(data.features.names)
    after = data.tuned(weighing.objective, start, config, told)
    record = {
        "objective": weighing.objective,
        "lists": tuned_on.name,
        "number": data.features.offsets.size - 1,
        "restarts": weighing.restarts,
        "seed": weighing.seed,
        data.measure.name: {"start": finite(data.value(start)), "tuned": finite(data.value(after))},
    }
    weights = Weights(dict(zip(data.features.names, after.tolist(), strict=True)), record)
    return source, weights, data if tuned_on.name == source.name else None


def _with_references(block: Scored, name: str) -> Scored:
    """Raises TextError where the lists that are to be tuned on have no references."""
    if block.errors is None:
        raise TextError(f"{name}: the lists have no references, and tuning needs them; name a file of them with --tune")
    return block


def _said(weighing: WeightOptions) -> Weights:
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
    from chainrule.applications.rescoring.features import SpelledScorer
    from chainrule.saving import ARPA_SUFFIXES

    found: dict[str, TextScorer] = {}
    for given in models:
        name, _, rest = given.partition("=")
        path = Path(rest if rest and not Path(given).exists() else given)
        if not rest or Path(given).exists():
            suffix = next((suffix for suffix in ARPA_SUFFIXES if path.name.endswith(suffix)), "")
            name = path.resolve().name.removesuffix(suffix)
        if name in found:
            raise SettingError(f"two models are called {name!r}; name one of them anew with --model NAME=PATH")
        with naming(str(path)):
            model = opened(path, tokenizer, markers, told)
            speller = model.speller if spelled else None
            shares = model.family not in _READ_QUICKLY if share is None else share
            found[name] = SpelledScorer(model.language_model, model.tokenizer, speller, shares)
    return found


def _judge(*, bleu: bool) -> Judge:
    """What is measured."""
    from chainrule.applications.rescoring.rescoring import Judge
    from chainrule.evaluation.bleu import Bleu, has_bleu
    from chainrule.evaluation.error_rates import CharacterErrors, WordErrors

    if bleu and not has_bleu():
        note("BLEU is not measured: that needs pip install 'chainrule[bleu]'; --no-bleu leaves it out unsaid")
    return Judge([WordErrors(), CharacterErrors(), *([Bleu()] if bleu and has_bleu() else [])])


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
    from chainrule.files import check_writable

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


_READ_QUICKLY = ("ngram", "uniform", "mixture")  # families for which whole distributions cost more than beginnings
_EXAMPLES = {"--weight": "lm=0.8", "--scores": "acoustic=scores.txt", "--costs": "acoustic=costs.txt"}


def _number(name: str, value: str) -> float:
    """Raises CycloptsError."""
    try:
        return float(value)
    except ValueError:
        raise CycloptsError(msg=f"The weight of {name} is {value}; expected a number.") from None
