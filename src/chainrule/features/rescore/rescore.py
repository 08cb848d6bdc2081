"""Rescores n-best lists and lattices: chooses the best hypothesis of each by its own scores and those of other models.

Other models are language models, or seq2seq models given the sources of the lists. Of a lattice, the best texts become
a list.
"""

from __future__ import annotations

import filecmp
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.options import takes
from chainrule.base.progress import Progress, silent
from chainrule.base.results import finite
from chainrule.base.tables import count_of, text_table
from chainrule.drawing.pages import html_table
from chainrule.errors import SettingError, TextError
from chainrule.features.metrics.bleu import Bleu, has_bleu
from chainrule.features.metrics.error_rates import CharacterErrors, WordErrors
from chainrule.features.rescore.features import IMPOSSIBLE, SpelledScorer
from chainrule.features.rescore.lattice_search import LatticeSearch
from chainrule.features.rescore.lists.nbest_files import (
    KEYED,
    LATTICES,
    ReferenceFile,
    format_of,
    holds_lists,
    read_lattices,
    read_lists,
    with_equal_names,
    with_own_references,
    with_references,
    with_sources,
)
from chainrule.features.rescore.lists.nbest_formats import ScoreFiles
from chainrule.features.rescore.options import RescoreOptions
from chainrule.features.rescore.rescoring import STAGES, Reranker, RerankingEvaluation, TuningData, score_lists
from chainrule.features.rescore.tuning import Weights
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.models.any_model import check_model
from chainrule.models.model import Model
from chainrule.models.progress_line import showing
from chainrule.text.corpus.bad_records import BadRecords, collecting
from chainrule.text.corpus.records import raise_error
from chainrule.text.parallel import Pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.errors import ChainruleError
    from chainrule.evaluation.resampling import Estimate
    from chainrule.features.metrics.error_rates import CorpusMeasure
    from chainrule.features.rescore.config import ListFormat
    from chainrule.features.rescore.features import HypothesisScorer
    from chainrule.features.rescore.lattices import Unreadable
    from chainrule.features.rescore.lists.nbest import NBestList
    from chainrule.features.rescore.rescoring import Scored
    from chainrule.text.corpus.records import OnBad


class PairScorer:
    """log P(hypothesis | source), as rescoring needs it. An unknown token costs P(<unk>), without a spelling."""

    def __init__(self, model: Seq2SeqModel) -> None:
        self.model = model

    def log_probs(self, texts: Sequence[str], sources: Sequence[str | None]) -> Float64[ndarray, " texts"]:
        """Implement `TextScorer.log_probs`. Raises SettingError where a list has no source, or one that is too long."""
        known = [source for source in sources if source is not None]
        if len(known) < len(texts):
            raise SettingError(
                "a seq2seq model scores hypotheses by their sources, which the lists lack; name a file of sources, "
                'or give JSON lists a "source"'
            )
        return self.model.score(Pairs(known, list(texts)), progress=False)


_SCORED_WHOLE = ("ngram", "uniform", "mixture")  # families for which sharing prefixes costs more than it saves


class Rescored(NamedTuple):
    """The best hypothesis of each list, as `best`, by the list's `id`; the run that chose them; and a row for each."""

    ids: list[str]
    best: list[str]
    rescoring: Rescoring
    rows: list[dict[str, Any]]

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the lists' own scores, of each model, and of the number of words."""
        return dict(self.rescoring.weights.values)

    def __repr__(self) -> str:
        return f"<Rescored>\n{self.rescoring}"

    def _repr_html_(self) -> str:
        header, rows = self.rescoring.table()
        return html_table("", header, rows, self.rescoring.footnotes())

    def to_dict(self) -> dict[str, Any]:
        """Return the figures of the run by name, as numbers: a row for pandas."""
        return self.rescoring.to_dict()

    def as_json(self) -> dict[str, Any]:
        """Return the figures of the run with their intervals, as `rescore --json` prints them."""
        return self.rescoring.as_json()

    def to_records(self) -> list[dict[str, Any]]:
        """A row for each list, with its best hypothesis, before and after, their scores, and whether it is right."""
        return self.rows


@takes(RescoreOptions)
def rescore(
    lists: str,
    models: Model | Seq2SeqModel | Mapping[str, Model | Seq2SeqModel],
    options: RescoreOptions,
) -> Rescored:
    """Chooses the hypothesis of each n-best list, or lattice, with the best weighted sum of scores.

    lists: a file of JSON lines, a table, or a file of Moses', Kaldi's or SRILM's; a folder of ESPnet's or SRILM's;
    lattices: Kaldi's as text, HTK's in SLF or a folder of them. models: by name, for weights and results; a single one
    is called lm. The sum is of the list's own scores, log P under each model in nats, and the number of words; of a
    lattice, the best path is exact if all models are n-gram models. The options are those of `RescoreOptions`. Raises
    TextError, SettingError.

    good:  chainrule.rescore("nbest.jsonl", chainrule.load("lm/"), tune="dev.jsonl").best
    """
    named = dict(models) if isinstance(models, Mapping) else {"lm": models}
    for model in named.values():
        check_model(model, Model, Seq2SeqModel)
    scorers = {name: hypothesis_scorer(model, options) for name, model in named.items()}
    rows: list[dict[str, Any]] = []
    with showing(options.progress) as progress, collecting(options.bad_records, warnings.warn) as bad:
        options = replace(options, bad_records=bad)
        source, weights = ListSource.of(lists, options), Weights(options.weights or {})
        run = Rescoring(source, scorers, weights, options, progress)
        for block in run:
            rows += run.chooser.rows(block)
    return Rescored([row["id"] for row in rows], [row["text"] for row in rows], run, rows)


def hypothesis_scorer(model: Model | Seq2SeqModel, options: RescoreOptions) -> HypothesisScorer:
    """Return a scorer of hypotheses. Raises SettingError if the model does not continue texts."""
    if isinstance(model, Seq2SeqModel):
        return PairScorer(model)
    return scorer_of(model, spelling=options.spelling, share=options.share)


def scorer_of(model: Model, *, spelling: bool = True, share: bool | None = None) -> SpelledScorer:
    """Return a scorer that scores each text by itself. Raises SettingError if the model does not continue texts."""
    shares = model.family not in _SCORED_WHOLE if share is None else share
    return SpelledScorer(model.language_model, model.tokenizer, model.speller if spelling else None, shares)


@dataclass(frozen=True)
class ListSource:
    """A file or folder of lists or lattices, and the files of their references and sources, if there are any."""

    name: str
    format: ListFormat
    files: ScoreFiles
    references: str | None = None
    sources: str | None = None
    symbols: str | None = None
    on_bad: OnBad = field(default=raise_error, compare=False)

    @property
    def has_lattices(self) -> bool:
        return self.format in LATTICES

    @classmethod
    def of(cls, name: str, options: RescoreOptions) -> ListSource:
        """Return the source that a name and options describe. Raises TextError, SettingError."""
        files = ScoreFiles(options.scores or {}, options.costs or {})
        kind = options.format or format_of(name, files)
        bad = options.bad_records if isinstance(options.bad_records, BadRecords) else BadRecords(options.bad_records)
        if bad.rule == "skip" and kind not in ("json", "table"):
            raise SettingError(f"bad_records is for lists in JSON lines and tables, not for the format {kind!r}")
        return cls(name, kind, files, options.references, options.sources, options.symbols, bad)

    def lists(
        self,
        search: LatticeSearch,
        progress: Progress = silent,
        on_error: Callable[[ChainruleError], object] | None = None,
    ) -> Iterator[NBestList]:
        """Yield the lists.

        search: makes the lists of lattices. on_error: gets what is wrong with a lattice; by default it is raised.
        Raises TextError.
        """
        always_keyed = self.format in KEYED
        sources = references = None
        if self.sources is not None:
            sources = ReferenceFile(self.sources, always_keyed=always_keyed, what="source")
        if self.references is not None:
            references = ReferenceFile(self.references, always_keyed=always_keyed)

        def leave_out(lattice: Unreadable) -> None:
            if on_error is None:
                raise lattice.error
            on_error(lattice.error)
            for file in (sources, references):
                if file is not None:
                    file.skip(lattice.id)

        if self.has_lattices or self.symbols is not None:
            lattices = read_lattices(self.name, self.format, self.symbols, progress)
            lists = with_equal_names(self.name, search.lists(lattices, leave_out))
        else:
            lists = read_lists(self.name, self.format, self.files, progress, self.on_bad)
        if sources is not None:
            lists = with_sources(lists, sources)
        return with_own_references(lists) if references is None else with_references(lists, references)


class Rescoring:
    """One run over lists: how it chooses, and what it has chosen so far. Iterating goes through the lists, once."""

    def __init__(
        self,
        source: ListSource,
        scorers: Mapping[str, HypothesisScorer],
        given: Weights,
        options: RescoreOptions,
        progress: Progress = silent,
    ) -> None:
        """Prepare the run, and tune the weights if the options say so.

        given: weights of some scores: those of the options and perhaps of a file. Raises TextError, SettingError.
        """
        models = dict(scorers)
        data: TuningData | None = None
        weights, self._is_tuned_on_itself = given, False
        self._of_tuning: list[str] = []  # notes
        tuned_on: set[int] = set()
        if options.tune is not None:
            self._is_tuned_on_itself = not holds_lists(options.tune) or _hold_the_same(options.tune, source.name)
            source, weights, data, self._of_tuning = _tuned(
                source, options.tune, options, models, given, tuned_on, progress
            )
        search = LatticeSearch(models, weights, options.nbest)
        self.left_out = search.left_out if source.has_lattices else []  # models that the search does not know
        self._nbest = options.nbest
        lists = source.lists(search, progress, options.on_error)
        blocks = iter(score_lists(lists, models) if data is None else data.replayed(lists))
        first = next(blocks)
        names, replaced = first.features.names, first.features.replaced
        own = tuple(first.lists[0].scores)
        self.source = source
        self.replaced = [name for name in replaced if name not in weights.values]  # scores that models stand in for
        self.weights = weights.with_defaults(names, replaced)
        before_all = Weights(options.weights or {}).with_defaults(names).vector(names)
        self.chooser = Reranker(self.weights.vector(names), before_all * [name in own for name in names])
        measures: list[CorpusMeasure] = [
            WordErrors(),
            CharacterErrors(),
            *([Bleu()] if options.bleu and has_bleu() else []),
        ]
        self.judge = None if first.errors is None else RerankingEvaluation(measures)
        self.lists = self.hypotheses = self.changed = 0
        self._tuned_on, self._among_tuned = tuned_on, 0
        self.impossible = dict.fromkeys(names[len(own) : -1], 0)  # hypotheses, by the model
        self._blocks = chain([first], blocks)

    def __iter__(self) -> Iterator[Scored]:
        """Yield some lists at a time, after they have been counted."""
        for block in self._blocks:
            self._add(block)
            yield block

    def _add(self, block: Scored) -> None:
        before, after = self.chooser.before(block), self.chooser.after(block)
        if self.judge is not None:
            self.judge.add(block, before, after)
        texts = block.texts()
        self.lists += len(block.lists)
        self._among_tuned += sum(_identity(nbest) in self._tuned_on for nbest in block.lists)
        self.hypotheses += len(texts)
        impossible = block.features.impossible(len(block.lists[0].scores)).sum(axis=0).tolist()
        for name, count in zip(self.impossible, impossible, strict=True):
            self.impossible[name] += count
        self.changed += sum(texts[one] != texts[other] for one, other in zip(before, after, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the figures so far by name, as numbers: a row for pandas."""
        figures: dict[str, Any] = {"lists": self.lists, "hypotheses": self.hypotheses, "changed": self.changed}
        figures |= {f"weight_{name}": value for name, value in self.weights.values.items()}
        if self.judge is not None:
            for measure in self.judge.measures:
                figures |= {f"{_key(measure)}_{stage}": self.judge.figure(measure, stage).value for stage in STAGES}
        return figures

    def as_json(self) -> dict[str, Any]:
        """Return the figures so far for JSON, with their intervals; infinity as the string "Infinity"."""
        figures: dict[str, Any] = {
            "lists": self.lists,
            "hypotheses": self.hypotheses,
            "changed": self.changed,
            "weights": dict(self.weights.values),
            "impossible": self.impossible,
        }
        if self.source.has_lattices:
            figures["search"] = {"nbest": self._nbest, "without": self.left_out}
        if self.weights.record:
            figures["tuned"] = dict(self.weights.record)
        return figures | (_measured(self.judge) if self.judge is not None else {})

    def __str__(self) -> str:
        """Return the notes and the table, for people."""
        lines = self.footnotes()
        header, rows = self.table()
        if rows:
            lines += ["", text_table(header, rows)]
            lines += [f"\nBLEU  {measure.signature}" for measure in self._measures if isinstance(measure, Bleu)]
        return "\n".join(lines)

    def footnotes(self) -> list[str]:
        """Return how many lists and choices there were, and the weights."""
        share = self.changed / max(self.lists, 1)
        weights = ", ".join(f"{name} {value:.4g}" for name, value in self.weights.values.items())
        return [
            f"{count_of(self.lists, 'list')} of {count_of(self.hypotheses, 'hypothesis', 'hypotheses')}; "
            f"{count_of(self.changed, 'choice')} changed, {share:.2%}",
            f"weights  {weights}",
            *(
                f"{name} is no n-gram model: it chooses among the texts of each lattice that are best without it, "
                f"up to {self._nbest:,}"
                for name in self.left_out
            ),
            *(
                f"{name} gives {count:,} hypotheses no probability: each counts as {IMPOSSIBLE:,.0f} nats, and is "
                "written as null or -inf"
                for name, count in self.impossible.items()
                if count
            ),
            *self._of_tuning,
            *([] if self.judge is None else self._tuning_notes()),
        ]

    def _tuning_notes(self) -> list[str]:
        """Return whether the figures are of lists that weights were tuned on."""
        if self._is_tuned_on_itself or (self.lists and self._among_tuned == self.lists):
            return [_TUNED_ON.format("these lists")]
        return [_TUNED_ON.format(f"{self._among_tuned:,} of these {self.lists:,} lists")] if self._among_tuned else []

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the header, and the figures before and after with their change; no rows without references."""
        header = ["", *(cell for measure in self._measures for cell in (measure.short, "95 %"))]
        if self.judge is None:
            return header, []
        judge = self.judge
        rows = [
            [stage, *(cell for m in judge.measures for cell in _cells(m, judge.figure(m, stage)))] for stage in STAGES
        ]
        rows.insert(2, ["change", *(cell for m in judge.measures for cell in _cells(m, judge.change(m), signed=True))])
        return header, rows

    @property
    def _measures(self) -> Sequence[CorpusMeasure]:
        return () if self.judge is None else self.judge.measures


def _tuned(
    source: ListSource,
    tune: str,
    options: RescoreOptions,
    scorers: dict[str, HypothesisScorer],
    given: Weights,
    tuned_on: set[int],
    progress: Progress,
) -> tuple[ListSource, Weights, TuningData | None, list[str]]:
    """Return the source, perhaps with references now; the weights; the lists of the source that tuning kept; notes.

    tuned_on: gets the identities of the lists.
    """
    if holds_lists(tune):
        tuning = ListSource(tune, format_of(tune, source.files), source.files, on_bad=source.on_bad)
    else:
        source = replace(source, references=source.references or tune)
        tuning = replace(source, references=tune)
    search = LatticeSearch(scorers, given, options.nbest)
    lists = tuning.lists(search, progress, None if options.on_error is None else lambda error: None)
    blocks = (_checked(block, tuning.name, tuned_on) for block in score_lists(lists, scorers))
    data = TuningData.of(blocks, options.objective)
    start = given.with_defaults(data.features.names, data.features.replaced).vector(data.features.names)
    after = data.tuned(options.objective, start, options, progress)
    record = {
        "objective": options.objective,
        "lists": tuning.name,
        "number": data.features.offsets.size - 1,
        "restarts": options.restarts,
        "seed": options.seed,
        data.measure.name: {"start": finite(data.value(start)), "tuned": finite(data.value(after))},
    }
    weights = Weights(dict(zip(data.features.names, after.tolist(), strict=True)), record)
    are_same = tuning.name == source.name and not source.has_lattices  # whose texts depend on the weights
    notes = _notes_on(data.features.offsets.size - 1, is_same=bool((after == start).all()))
    return source, weights, data if are_same else None, notes


_FEW = 50  # lists, on which weights follow chance


def _notes_on(lists: int, *, is_same: bool) -> list[str]:
    """Return what to know of weights that were tuned on so many lists. is_same: whether none were better."""
    on = count_of(lists, "list")
    if is_same:
        return [f"tuning on {on} found no better weights, so they are those that it began with; tune on more lists"]
    return [f"the weights were tuned on {on} alone, and follow chance; tune on hundreds"] if lists < _FEW else []


_TUNED_ON = "the weights were tuned on {}, so the figures are too good; measure on other lists"


def _identity(nbest: NBestList) -> int:
    """Return a hash of a list's texts and scores."""
    return hash((nbest.texts, tuple(nbest.scores.items())))


def _hold_the_same(one: str, other: str) -> bool:
    """Return whether two names are of one file, or of files with the same content."""
    if not (os.path.isfile(one) and os.path.isfile(other)):
        return os.path.realpath(one) == os.path.realpath(other)
    return filecmp.cmp(one, other, shallow=False)


def _checked(block: Scored, name: str, tuned_on: set[int]) -> Scored:
    """Return a block to tune on.

    tuned_on: gets the identities of its lists. Raises TextError where it has no references.
    """
    if block.errors is None:
        raise TextError(
            f'{name}: the lists have no references, and tuning needs them: give each list a "reference", or name a '
            "file of references, a line each, in place of these lists"
        )
    tuned_on.update(map(_identity, block.lists))
    return block


def _measured(judge: RerankingEvaluation) -> dict[str, Any]:
    by_measure: dict[str, Any] = {}
    for measure in judge.measures:
        figures: dict[str, Any] = {stage: judge.figure(measure, stage).as_json() for stage in STAGES}
        figures["change"] = judge.change(measure).as_json()
        if isinstance(measure, Bleu):
            figures["signature"] = measure.signature
        by_measure[_key(measure)] = figures
    return by_measure


def _key(measure: CorpusMeasure) -> str:
    return measure.name.replace(" ", "_").lower()


def _cells(measure: CorpusMeasure, figure: Estimate, *, signed: bool = False) -> Sequence[str]:
    """Return a figure and its interval; error rates in per cent."""
    scale, digits = (100, 2) if measure.lower_is_better else (1, 1)
    value, low, high = (f"{scale * number:{'+' * signed}.{digits}f}" for number in (figure.value, *figure.interval))
    unit = " %" if measure.lower_is_better else ""
    return [value + unit, f"{low} to {high}" if not math.isnan(figure.interval[0]) else ""]
