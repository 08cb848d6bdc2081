"""chainrule rank MODEL --queries q.txt --documents d.jsonl: the documents under which each query is likeliest."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import FILE, Json, ModelMarkerRule, ModelPath, Needs, WholeNumber
from chainrule.cli.shared.screen import note, on_one_line, print_json, progress_bar


def rank(
    model: ModelPath,
    /,
    *,
    queries: Annotated[str, FILE, Parameter(help="A query a line.")],
    documents: Annotated[str, FILE, Parameter(help="JSON lines, CSV or TSV with the field text, and optionally id.")],
    by: Annotated[
        Literal["dirichlet", "jelinek-mercer", "model"],
        Parameter(
            help="A unigram model of each document, smoothed by all of them (dirichlet, jelinek-mercer); or the model, "
            "with the document as its prompt."
        ),
    ] = "dirichlet",
    mu: Annotated[
        float | None, Parameter(help="How strong dirichlet is, in tokens; 2000 by default."), Needs("by dirichlet")
    ] = None,
    share: Annotated[
        float | None,
        Parameter(name="--lambda", help="The share of all documents; 0.5 by default."),
        Needs("by jelinek-mercer"),
    ] = None,
    top: Annotated[int, WholeNumber, Parameter(help="How many documents to list for each query.")] = 10,
    judgements: Annotated[
        str | None, FILE, Parameter(help="Grades of relevance, as TREC's qrels: report MAP and nDCG.")
    ] = None,
    markers: ModelMarkerRule = None,
    json: Json = False,
) -> None:
    """Rank documents by the probability of a query.

        $ chainrule rank lm/ --queries queries.txt --documents documents.jsonl

    Columns: the number of the query, the rank, log P(query | document) in nats,
    the document's id. MODEL tokenizes, unless --by model.
    """
    from chainrule.api.texts.rank import rank as rank_documents
    from chainrule.applications.retrieval import LAMBDA, MU, RankConfig

    if share is not None and not 0 < share < 1:
        raise CycloptsError(msg=f"--lambda takes a number between 0 and 1, not {share}.")
    config = None
    if by != "model":
        config = RankConfig(smoothing=by, mu=MU if mu is None else mu, share=LAMBDA if share is None else share)
    with progress_bar() as progress:
        ranked = rank_documents(
            open_model(model, None, markers, progress),
            queries,
            documents,
            config,
            by_model=by == "model",
            top=top,
            judgements=judgements,
            progress=progress,
        )
    for query, listed in ranked.documents.items():
        if not listed:
            note(f"query {query}: no document has a word of it, so there is no ranking")
    for row in ranked.to_records():
        if json:
            print_json(row)
        else:
            print(f"{row['query']}\t{row['rank']}\t{row['log_prob']:.4f}\t{on_one_line(row['document'])}")
    if judgements is not None and ranked.figures is None:
        note("no query has a relevant document among the judgements, so there are no figures")
    elif ranked.figures is not None and json:
        print_json(ranked.to_dict())
    elif ranked.figures is not None:
        figures = ranked.figures
        print(f"MAP {figures.map:.4f}, nDCG@10 {figures.ndcg:.4f}, queries judged: {figures.queries:,}")
