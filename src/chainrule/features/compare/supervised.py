"""Classifiers trained on the same labelled examples, and seq2seq models measured on the same pairs, in tables.

Labelled examples also compare three ways to use word vectors.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.base.options import takes
from chainrule.base.progress import silent
from chainrule.base.results import named_figures
from chainrule.base.tables import cell, text_table
from chainrule.drawing.pages import html_table
from chainrule.errors import SettingError, prefix_errors
from chainrule.evaluation.resampling import p_value_of_sums
from chainrule.features.classify.network.config import LABELLING
from chainrule.features.classify.training import train_classifier
from chainrule.features.compare.compare import with_names
from chainrule.features.compare.config import LabelsOptions
from chainrule.features.metrics.bleu import Bleu
from chainrule.features.seq2seq.measurement import PairMeasurement, measure_pairs
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.features.seq2seq.options import MeasureOptions
from chainrule.models.files.opening import load
from chainrule.models.progress_line import showing

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.metrics.classification import Classification
    from chainrule.text.parallel import Pairs

    AnyPairModel = Seq2SeqModel | str | os.PathLike[str]


@dataclass(frozen=True)
class LabelRow:
    """A network, how its token vectors were initialised, its figures, and the cost of its training."""

    network: str
    vectors: str  # fresh, tuned or fixed
    result: Classification
    parameters: int
    seconds: float


_ABOUT = ("network", "vectors", "parameters", "seconds")  # of a row, beside its figures


@dataclass(frozen=True, repr=False)
class LabelComparison:
    """Networks on the same labelled examples; `str` is a table."""

    rows: tuple[LabelRow, ...]

    def __repr__(self) -> str:
        return f"<LabelComparison of {len(self.rows)} networks>\n{self}"

    def __str__(self) -> str:
        return text_table(*self.table())

    def _repr_html_(self) -> str:
        return html_table("", *self.table())

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the cells, for people."""
        header = ["network", "vectors", "accuracy", "95 %", "macro F1", "nats", "parameters", "seconds"]
        cells = []
        for row in self.rows:
            low, high = row.result.accuracy.interval
            cells.append(
                [
                    row.network,
                    row.vectors,
                    f"{row.result.accuracy.share:.2%}",
                    f"{100 * low:.1f} to {100 * high:.1f}",
                    f"{row.result.macro_f1:.4f}",
                    f"{row.result.nats:.4f}",
                    f"{row.parameters:,}",
                    f"{row.seconds:.1f}",
                ]
            )
        return header, cells

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each network, of numbers, strings and None: for pandas.DataFrame."""
        return [{**named_figures(row, _ABOUT), **row.result.to_dict()} for row in self.rows]

    def as_json(self) -> list[dict[str, Any]]:
        """Return a row for each network for JSON, with all figures."""
        return [{**named_figures(row, _ABOUT), **row.result.as_json()} for row in self.rows]


@takes(LabelsOptions)
def compare_labels(examples: Sequence[Any], test: Sequence[Any], options: LabelsOptions) -> LabelComparison:
    """Train each network on the same examples and measure it on others.

    The options are those of `LabelsOptions`. Raises what `train_classifier` does; SettingError where networks read
    different kinds of inputs.

    good:  compare_labels(chainrule.read_labelled("train.tsv"), chainrule.read_labelled("test.tsv"), vectors="words/")
    """
    networks = options.networks
    unknown = [name for name in networks if name not in LABELLING]
    if unknown or not networks:
        raise SettingError(f"networks are {list(networks)!r}; expected some of {', '.join(LABELLING)}")
    kinds = {LABELLING[name].reads for name in networks}
    if len(kinds) > 1:
        raise SettingError(f"these networks read different inputs, {' and '.join(sorted(kinds))}; compare those of one")
    if options.unit == "rating":
        raise SettingError("unit is 'rating', and this table is of labels; train each network, and use assess_ratings")
    ways: dict[str, dict[str, Any]] = {"fresh": {}}
    if options.vectors is not None:
        ways |= {"tuned": {"vectors": options.vectors}, "fixed": {"vectors": options.vectors, "fixed_vectors": True}}
    rows = []
    with showing(options.progress) as progress:
        for i, (name, way) in enumerate((name, way) for name in networks for way in ways):
            progress("training classifiers", i, len(networks) * len(ways))
            model = train_classifier(
                examples,
                name,
                unit=options.unit,
                training=options.training,
                tokenizer=options.tokenizer,
                progress=silent,
                **ways[way],
            )
            parameters, seconds = model.record["parameters"], model.record["training_seconds"]
            rows.append(LabelRow(name, way, model.assess(test, silent), parameters, seconds))
    return LabelComparison(tuple(rows))


@dataclass(frozen=True)
class PairRow:
    """A seq2seq model, its figures, and the time that measuring took.

    p_value: that of a paired test of its BLEU against the best, by approximate randomisation of whole texts (Riezler
    and Maxwell 2005); None for the best itself.
    """

    name: str
    measurement: PairMeasurement
    p_value: float | None
    parameters: int | None
    train_seconds: float | None
    seconds: float


@dataclass(frozen=True, repr=False)
class PairComparison:
    """Seq2seq models on the same pairs, in the order given; `str` is a table."""

    rows: tuple[PairRow, ...]

    def __repr__(self) -> str:
        return f"<PairComparison of {len(self.rows)} models>\n{self}"

    def __str__(self) -> str:
        return "\n".join([text_table(*self.table()), "", *self.footnotes()])

    def _repr_html_(self) -> str:
        return html_table("", *self.table(), self.footnotes())

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the cells, for people. Perplexity is shown where all models cut the targets alike."""
        are_alike = len({row.measurement.signature for row in self.rows}) == 1
        perplexity = ["perplexity"] if are_alike else []
        header = ["model", *perplexity, "bits/byte", "BLEU", "95 %", "p", "chrF", "95 %", "length ratio"]
        cells = []
        for row in self.rows:
            scores = {score.name: score for score in row.measurement.scores.scores}
            bits = "unknown tokens" if row.measurement.unknown else f"{row.measurement.bits_per_byte:.4f}"
            figures = [f"{row.measurement.perplexity:,.2f}", bits] if are_alike else [bits]
            bleu, chrf = scores["BLEU"].row()[1:], scores["chrF"].row()[1:]
            p = "best" if row.p_value is None else f"{row.p_value:.4f}"
            length = f"{scores['length ratio'].value:.3f}"
            cost = [cell(row.parameters, ","), cell(row.train_seconds, ".1f"), f"{row.seconds:.1f}"]
            cells.append([row.name, *figures, *bleu, p, *chrf, length, *cost])
        return [*header, "parameters", "train s", "eval s"], cells

    def footnotes(self) -> list[str]:
        """Return the lines below the table: how many pairs there were, and the variants of the scores."""
        scores = self.rows[0].measurement.scores
        variants = [f"{score.name}  {score.variant}" for score in scores.scores if score.name in ("BLEU", "chrF")]
        return [f"{scores.texts:,} pairs; p: a paired test of BLEU against the best", *variants]

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each model, of numbers, strings and None: for pandas.DataFrame."""
        return [{**_about_pairs(row), **row.measurement.to_dict()} for row in self.rows]

    def as_json(self) -> list[dict[str, Any]]:
        """Return a row for each model for JSON."""
        return [{**_about_pairs(row), **row.measurement.as_json()} for row in self.rows]


@takes(MeasureOptions)
def compare_pairs(
    models: Mapping[str, AnyPairModel] | Iterable[AnyPairModel], pairs: Pairs, options: MeasureOptions
) -> PairComparison:
    """Measure seq2seq models on the same pairs, in one table, with paired tests of BLEU against the best.

    models: by the names that the table shows; or models and paths, with the paths as names. The options are those of
    `MeasureOptions`. Raises SettingError, also if there is no model or sacrebleu is not installed;
    ModelFormatError.

    good:  print(chainrule.compare_pairs(["lstm/", "transformer/"], chainrule.parallel("test.de", "test.en")))
    """
    with showing(options.progress) as progress:
        return _compare_pairs(models, pairs, options, progress)


def _compare_pairs(
    models: Mapping[str, AnyPairModel] | Iterable[AnyPairModel],
    pairs: Pairs,
    options: MeasureOptions,
    progress: Progress,
) -> PairComparison:
    bleu = Bleu()
    measured: list[tuple[str, Seq2SeqModel, PairMeasurement, Int64[ndarray, "pairs statistics"], float]] = []
    for name, model in _opened(models):
        with prefix_errors(name):
            started = time.perf_counter()
            log_probs = model.score(pairs, progress=progress)
            written = model.write(pairs.sources, options.beam, max_tokens=options.max_tokens, progress=progress)
            texts = [several[0].text if several else "" for several in written]
            measurement = measure_pairs(pairs.targets, log_probs, texts, model.target)
            seconds = time.perf_counter() - started
            measured.append((name, model, measurement, bleu.statistics(texts, pairs.targets), seconds))
    if not measured:
        raise SettingError("there is no model to compare; name one or more")
    best = max(measured, key=lambda one: float(bleu.value(one[3].sum(axis=0))))[3]
    return PairComparison(
        tuple(
            PairRow(
                name,
                measurement,
                None if statistics is best else p_value_of_sums(statistics, best, bleu.value),
                model.record.get("parameters"),
                model.record.get("seconds"),
                seconds,
            )
            for name, model, measurement, statistics, seconds in measured
        )
    )


def _opened(models: Mapping[str, AnyPairModel] | Iterable[AnyPairModel]) -> Iterator[tuple[str, Seq2SeqModel]]:
    """Yield each model with its name, opened when it is needed."""
    for name, one in with_names(models, Seq2SeqModel):
        yield name, one if isinstance(one, Seq2SeqModel) else load(Path(one), Seq2SeqModel)


def _about_pairs(row: PairRow) -> dict[str, Any]:
    return {"model": row.name, **named_figures(row, ("p_value", "parameters", "train_seconds", "seconds"))}
