"""Ranking documents for queries by query likelihood."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.arguments import check_least
from chainrule.base.results import Shown, row
from chainrule.base.tables import on_one_line
from chainrule.drawing.pages import html_table
from chainrule.errors import TextError
from chainrule.evaluation.continuations import score_continuations
from chainrule.features.corpus.options import RankConfig
from chainrule.features.corpus.ranking import DEPTH, RankingFigures, measure_rankings
from chainrule.features.corpus.retrieval import DocumentIndex
from chainrule.models.any_model import check_kind
from chainrule.models.progress_line import ProgressOption, callback, shows_progress
from chainrule.models.scoring_model import ScoringModel
from chainrule.protocol import UNKNOWN
from chainrule.text.corpus.bad_records import collecting
from chainrule.text.corpus.plain_text import lines_of
from chainrule.text.corpus.records import read_table
from chainrule.text.numbers import whole_number_of
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jaxtyping import Float64, Int32
    from numpy import ndarray

    from chainrule.models.model import Model
    from chainrule.text.corpus.bad_records import BadRecords
    from chainrule.text.corpus.reading import BadRule
    from chainrule.text.corpus.records import OnBad
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Paths = str | os.PathLike[str]


class RankedDocument(NamedTuple):
    """A document in a ranking. name: the document's. log_prob: log P(query | document), in nats."""

    name: str
    log_prob: float


@dataclass(frozen=True, repr=False)
class Ranked:
    """The documents for each query, best first; and, given judgements, how good these rankings are."""

    queries: dict[str, str]  # name -> text
    documents: dict[str, list[RankedDocument]]
    figures: RankingFigures | None = None

    def __repr__(self) -> str:
        return f"<Ranked: documents of {len(self.queries):,} queries{self._figures()}>"

    def _repr_html_(self) -> str:
        rows = [
            [self.queries[row["query"]], row["document"], str(row["rank"]), f"{row['log_prob']:.4f}"]
            for row in self.to_records()
        ]
        title = f"documents of {len(self.queries):,} queries{self._figures()}"
        return html_table(title, ["query", "document", "rank", "log P"], rows)

    def _figures(self) -> str:
        return "" if self.figures is None else f"; MAP {self.figures.map:.4f}, nDCG@{DEPTH} {self.figures.ndcg:.4f}"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name: a row for pandas. Empty without judgements."""
        return {} if self.figures is None else self.figures.to_dict()

    def results(self) -> Iterator[Shown]:
        """Yield the ranked documents, each a line; then the figures, if there are any."""
        for record in self.to_records():
            columns = record["query"], str(record["rank"]), f"{record['log_prob']:.4f}", record["document"]
            yield row("\t".join(map(on_one_line, columns)), record)
        if self.figures is not None:
            means = f"MAP {self.figures.map:.4f}, nDCG@{DEPTH} {self.figures.ndcg:.4f}"
            yield Shown(f"{means}, queries judged: {self.figures.queries:,}", self.to_dict())

    def notes(self) -> Iterator[str]:
        """Yield which queries have no ranking."""
        for query, ranked in self.documents.items():
            if not ranked:
                yield f"query {query}: no document has a word of it, so there is no ranking"

    def to_records(self) -> list[dict[str, Any]]:
        """Return a dictionary for each ranked document: for pandas, or to be written as JSON lines."""
        return [
            {"query": query, "rank": rank, "document": document.name, "log_prob": document.log_prob}
            for query, ranked in self.documents.items()
            for rank, document in enumerate(ranked, 1)
        ]


@shows_progress
def rank(
    model: Model,
    queries: Paths | Mapping[str, str],
    documents: Paths | Mapping[str, str],
    config: RankConfig | None = None,
    *,
    by_model: bool = False,
    top: int = 10,
    judgements: Paths | Mapping[str, Mapping[str, int]] | None = None,
    bad_records: BadRule | BadRecords = "stop",
    progress: ProgressOption = None,
) -> Ranked:
    """The documents under which each query is likeliest.

    queries: a file with a query on each line, or texts by name. documents: JSON lines, CSV, TSV or Parquet with the
    fields text and, optionally, id, or texts by name. by_model: whether the model gives P(query | document as a
    prompt); otherwise a smoothed unigram model of each document does, and the model only tokenizes. judgements: grades
    of relevance in TREC's format, or by query and document. bad_records: whether a document that cannot be read stops
    the reading, or is skipped. Raises SettingError, TextError, MarkerError.
    """
    progress = callback(progress)
    check_least("top", top, 1)
    with collecting(bad_records, warnings.warn) as bad:
        texts = _documents(documents, bad)
    asked = _queries(queries)
    grades = None if judgements is None else _judgements(judgements)
    names = list(texts)
    ranked: dict[str, list[RankedDocument]] = {}
    whole: dict[str, list[str]] = {}
    for done, (query, scores) in enumerate(_scores(model, asked, list(texts.values()), config, by_model)):
        progress("ranking", done, len(asked))
        if not scores.any():  # no document has a word of the query
            ranked[query] = []
            continue
        order = np.argsort(-scores, kind="stable").tolist()
        ranked[query] = [RankedDocument(names[i], float(scores[i])) for i in order[:top]]
        if grades is not None:
            whole[query] = [names[i] for i in order]
    return Ranked(asked, ranked, None if grades is None else measure_rankings(whole, grades))


def _scores(
    model: Model, queries: Mapping[str, str], documents: Sequence[str], config: RankConfig | None, by_model: bool
) -> Iterator[tuple[str, Float64[ndarray, " documents"]]]:
    """Yield each query's name, with its log-probability given each document."""
    if by_model:
        scorer = check_kind(model, ScoringModel).scorer
        for name, query in queries.items():
            yield name, score_continuations(scorer, model.tokenizer, documents, [f" {query}"] * len(documents))
        return
    words = _Words(model.tokenizer)
    index = DocumentIndex(words.read(documents), words.size)
    for name, [tokens] in zip(queries, (words.read([query]) for query in queries.values()), strict=True):
        yield name, index.scores(tokens, config or RankConfig())


class _Words:
    """Numbers the tokens of a text, also those that a vocabulary lacks: each spelling gets a separate number."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._unknown: dict[bytes, int] = {}

    @property
    def size(self) -> int:
        return self.tokenizer.vocabulary_size + len(self._unknown)

    def read(self, texts: Sequence[str]) -> list[Int32[ndarray, " T"]]:
        """Return the token ids of the texts. Raises MarkerError."""
        encoded = self.tokenizer.encode_texts(texts)
        ids = encoded.ids.copy()
        for position in np.flatnonzero(ids == UNKNOWN).tolist():
            ids[position] = self._unknown.setdefault(encoded.surface(position), self.size)
        return documents_of(ids)


def _queries(queries: Paths | Mapping[str, str]) -> dict[str, str]:
    """Return queries by name: their line numbers, from 1, in a file. Raises TextError."""
    if not isinstance(queries, str | os.PathLike):
        return dict(queries)
    name = os.fspath(queries)
    texts = {str(number): line for number, line in enumerate(lines_of(name), 1) if line.strip()}
    if not texts:
        raise TextError(f"{name}: there is no query in it; expected one a line")
    return texts


def _documents(documents: Paths | Mapping[str, str], on_bad: OnBad) -> dict[str, str]:
    """Return the documents by name. Raises TextError."""
    if not isinstance(documents, str | os.PathLike):
        return dict(documents)
    texts: dict[str, str] = {}
    for number, record in enumerate(read_table(documents, ["text"], on_bad), 1):
        name = record.fields.get("id", str(number))
        if name in texts:
            raise TextError(f"{record.location}: a document before it has the id {name!r}, too; give each its own")
        texts[name] = record.fields["text"]
    return texts


def _judgements(judgements: Paths | Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Return grades by query and document. Raises TextError."""
    if not isinstance(judgements, str | os.PathLike):
        return {query: dict(grades) for query, grades in judgements.items()}
    grades: dict[str, dict[str, int]] = {}
    name = os.fspath(judgements)
    for number, line in enumerate(lines_of(name), 1):
        columns = line.split()
        if not columns:
            continue
        try:
            query, _, document, grade = columns
            grades.setdefault(query, {})[document] = whole_number_of(grade)
        except ValueError:
            raise TextError(
                f"{name}, line {number}: found {line!r}; expected a query, 0, a document and its grade, a whole number"
            ) from None
    return grades
