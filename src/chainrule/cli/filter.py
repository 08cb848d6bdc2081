"""chainrule filter TEXTS --model lm/ --keep 0.3: the likeliest part of a corpus."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelTokenizerName, Overwrite, TextFiles
from chainrule.cli.models import opened
from chainrule.cli.screen import finite, print_json, progress
from chainrule.cli.texts import AS_USUAL, TextOptions, check_text_target, note_lost_fields, note_repairs, text_for
from chainrule.errors import prefix_errors
from chainrule.report.tables import bars

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from chainrule.api.model import Model
    from chainrule.base.progress import Progress
    from chainrule.text.vocabulary import Markers
    from chainrule.text.writing import DocumentFile


def filter_texts(
    *texts: TextFiles,
    model: Annotated[Path, Parameter(help="A model folder, or an ARPA file: of what is to be kept.")],
    keep: Annotated[float | None, Parameter(help="Keep this share of the documents, above 0 and up to 1.")] = None,
    below: Annotated[float | None, Parameter(help="Keep what scores at most this, in bits a token.")] = None,
    difference: Annotated[
        Path | None, Parameter(help="A model of the rest: score by the difference of the cross-entropies.")
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(name=("--output", "-o"), help="The file to write, also .jsonl or compressed; by default the screen."),
    ] = None,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    reading: TextOptions = AS_USUAL,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Keep the part of a corpus that a model finds likeliest.

    A document's score is its cross-entropy in bits a token, its end counted
    and unknown tokens spelled; low is likely. With --difference, it is that
    under --model less that under the other, per token of --model (Moore and
    Lewis 2010): low is more like the one than the other.

    The order of the documents stays; of equal scores, the first are kept.
    --keep reads the text twice. A histogram of the scores goes to the screen,
    or to standard error where the documents go to standard output. Of a
    record, only the text is written, not its other fields.
    """
    from chainrule.api.document_scores import passing
    from chainrule.api.filter import BINS
    from chainrule.evaluation.selection import ScoreFile
    from chainrule.text.writing import check_format

    _check(texts, keep, below, output, json=json)
    source = text_for([model] if difference is None else [model, difference], reading, *texts)
    if output is not None:
        check_format(output)
        check_text_target(output, source, overwrite=overwrite)
    with ScoreFile() as scores:
        with progress() as told:
            ours = _continuing(model, tokenizer, markers, told)
            theirs = None if difference is None else _continuing(difference, tokenizer, markers, told)
            blocks, limit = passing(source, scores, ours, theirs, keep=keep, below=below, progress=told)
            with _target(output, reading.field) as file:
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
    print(_described(counts, edges, limit, kind="difference" if theirs else "cross-entropy"), file=screen)
    print(f"kept {kept:,} of {scores.size:,} documents, {kept / scores.size:.2%}: {limit:.4f} or less", file=screen)


def _continuing(path: Path, tokenizer: str | None, markers: Markers | None, told: Progress) -> Model:
    """A language model. Raises ModelFormatError; SettingError where it is none."""
    model = opened(path, tokenizer, markers, told)
    with prefix_errors(str(path)):
        model.engine_that("continue")
    return model


def _check(texts: tuple[str, ...], keep: float | None, below: float | None, output: Path | None, *, json: bool) -> None:
    """Raises CycloptsError, SettingError."""
    from chainrule.api.document_scores import check_limits

    if (keep is None) == (below is None):
        raise CycloptsError(msg="Say either --keep, a share, or --below, a score.")
    check_limits(keep, below)
    if keep is not None and "-" in texts:
        raise CycloptsError(msg="Standard input, -, can be read only once, and --keep reads twice; say --below.")
    if json and output is None:
        raise CycloptsError(msg="With --json, the documents need a file: say -o.")


def _target(output: Path | None, field: str) -> AbstractContextManager[DocumentFile]:
    from chainrule.text import writing

    if output is not None:
        return writing.document_file(output, field)
    return nullcontext(writing.DocumentFile("standard output", sys.stdout.buffer, field))


def _described(counts: list[int], edges: list[float], limit: float, *, kind: str) -> str:
    """A histogram; what is kept is darker."""
    labels = [f"{edge:.3f}" for edge in edges[1:]]
    marks = [edge <= limit for edge in edges[1:]]
    return f"{kind}, bits a token, up to\n" + bars(labels, counts, marks)
