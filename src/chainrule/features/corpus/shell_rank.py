"""chainrule rank MODEL --queries q.txt --documents d.jsonl: the documents under which each query is likeliest."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    FILE,
    NO_FLAGS,
    Flags,
    ModelMarkerRule,
    ModelPath,
    WholeNumber,
    given_settings,
)
from chainrule.cli.shared.results import TO_SCREEN, ResultOptions
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import RecordFlags, bad_records
from chainrule.features.corpus.options import RankConfig


def rank(
    model: ModelPath,
    /,
    *,
    queries: Annotated[str, FILE, Parameter(help="A query a line.")],
    documents: Annotated[
        str, FILE, Parameter(help="JSON lines, CSV, TSV or Parquet with the field text, and optionally id.")
    ],
    records: RecordFlags = NO_FLAGS,
    by: Annotated[
        Literal["dirichlet", "jelinek-mercer", "model"],
        Parameter(
            help="A unigram model of each document, smoothed by all of them (dirichlet, jelinek-mercer); or the model, "
            "with the document as its prompt."
        ),
    ] = "dirichlet",
    smoothing: Flags[RankConfig] = NO_FLAGS,
    top: Annotated[int, WholeNumber, Parameter(help="How many documents to list for each query.")] = 10,
    judgements: Annotated[
        str | None, FILE, Parameter(help="Grades of relevance, as TREC's qrels: report MAP and nDCG.")
    ] = None,
    markers: ModelMarkerRule = None,
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Rank documents by the probability of a query.

        $ chainrule rank lm/ --queries queries.txt --documents documents.jsonl

    Columns: the number of the query, the rank, log P(query | document) in nats,
    the document's id. MODEL only tokenizes the texts, except with --by model.
    """
    from chainrule.features.corpus.rank import rank as rank_documents

    show.check(queries, documents)
    config = None if by == "model" else RankConfig(smoothing=by, **given_settings(smoothing))
    with progress_bar() as progress, bad_records(records, "stop", documents) as bad:
        ranked = rank_documents(
            open_model(model, None, markers, progress),
            queries,
            documents,
            config,
            by_model=by == "model",
            top=top,
            judgements=judgements,
            bad_records=bad,
            progress=progress,
        )
    show.show_all(ranked.results())
    for message in ranked.notes():
        note(message)
    if judgements is not None and ranked.figures is None:
        note("no query has a relevant document among the judgements, so there are no figures")
