"""chainrule filter TEXTS --model lm/ --keep 0.3: keeps the likeliest part of a corpus."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import bars
from chainrule.cli.shared.arguments import Json, ModelMarkerRule, ModelTokenizerName, Overwrite, TextFiles
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.screen import finite, print_json, progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    TextOptions,
    check_text_target,
    note_lost_fields,
    note_repairs,
    text_for,
)
from chainrule.errors import prefix_errors

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from chainrule.api.models.model import Model
    from chainrule.base.progress import Progress
    from chainrule.text.corpus.writing import DocumentFile
    from chainrule.text.tokenization.vocabulary import Markers


def filter_texts(
    *texts: TextFiles,
    model: Annotated[Path, Parameter(help="A model folder or ARPA file, of text like what to keep.")],
    keep: Annotated[float | None, Parameter(help="Keep this share of the documents, above 0 and up to 1.")] = None,
    below: Annotated[float | None, Parameter(help="Keep documents that score at most this, in bits per token.")] = None,
    difference: Annotated[
        Path | None, Parameter(help="A model of the other text: score by the difference of the cross-entropies.")
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(
            name=("--output", "-o"), help="The file to write, also .jsonl or compressed; by default standard output."
        ),
    ] = None,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    reading: TextOptions = DEFAULT_READING,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Keep the documents of a corpus that a model finds likeliest.

        $ chainrule filter corpus.txt --model lm/ --keep 0.3 -o likely.txt

    A document's score is its cross-entropy in bits per token, its end included
    and unknown tokens spelled; low is likely. With --difference, it is the
    cross-entropy under --model minus that under the other model, per token of
    --model (Moore and Lewis 2010): low is more like the first.

    Documents stay in order; of equal scores, the first are kept. --keep reads
    the text twice. A histogram of the scores is printed, to standard error
    where the documents go to standard output. Of a record, only the text is
    written, not its other fields.
    """
    from chainrule.api.texts.filter import BINS, ScoreFile, passing
    from chainrule.text.corpus.writing import check_format

    _check(texts, keep, below, output, json=json)
    source = text_for([model] if difference is None else [model, difference], reading, *texts)
    if output is not None:
        check_format(output)
        check_text_target(output, source, overwrite=overwrite)
    with ScoreFile() as scores:
        with progress_bar() as progress:
            language_model = _open_language_model(model, tokenizer, markers, progress)
            other = None if difference is None else _open_language_model(difference, tokenizer, markers, progress)
            blocks, limit = passing(source, scores, language_model, other, keep=keep, below=below, progress=progress)
            with _open_target(output, reading.field) as file:
                for block in blocks:
                    file.write(block)
            kept = file.documents
        counts, edges = scores.histogram(BINS)
    if output is not None:
        note_lost_fields(source)
    note_repairs(source)
    if json:
        histogram = {"counts": counts, "edges": [finite(edge) for edge in edges]}
        print_json({"documents": scores.size, "kept": kept, "threshold": finite(limit), "histogram": histogram})
        return
    screen = sys.stdout if output is not None else sys.stderr
    print(_histogram(counts, edges, limit, kind="difference" if other else "cross-entropy"), file=screen)
    print(f"kept {kept:,} of {scores.size:,} documents, {kept / scores.size:.2%}: {limit:.4f} or less", file=screen)


def _open_language_model(path: Path, tokenizer: str | None, markers: Markers | None, progress: Progress) -> Model:
    """Raises ModelFormatError; SettingError where it is not a language model."""
    model = open_model(path, tokenizer, markers, progress)
    with prefix_errors(str(path)):
        model.engine_that("continue")
    return model


def _check(texts: tuple[str, ...], keep: float | None, below: float | None, output: Path | None, *, json: bool) -> None:
    """Raises CycloptsError, SettingError."""
    from chainrule.api.texts.filter import check_limits

    if (keep is None) == (below is None):
        raise CycloptsError(msg="Give either --keep, a share, or --below, a score.")
    check_limits(keep, below)
    if keep is not None and "-" in texts:
        raise CycloptsError(msg="Standard input, -, can be read only once, and --keep reads twice; use --below.")
    if json and output is None:
        raise CycloptsError(msg="With --json, the documents need a file: give --output.")


def _open_target(output: Path | None, field: str) -> AbstractContextManager[DocumentFile]:
    from chainrule.text.corpus import writing

    if output is not None:
        return writing.document_file(output, field)
    return nullcontext(writing.DocumentFile("standard output", sys.stdout.buffer, field))


def _histogram(counts: list[int], edges: list[float], limit: float, *, kind: str) -> str:
    """A histogram, darker for what is kept."""
    labels = [f"{edge:.3f}" for edge in edges[1:]]
    marks = [edge <= limit for edge in edges[1:]]
    return f"{kind} in bits per token, up to\n" + bars(labels, counts, marks)
