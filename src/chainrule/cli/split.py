"""chainrule split TEXTS... --into FILE=SHARE...: divides a text into parts, for training and testing."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chainrule.base.tables import text_table
from chainrule.cli.shared.arguments import Json, Overwrite, TextFiles
from chainrule.cli.shared.screen import print_json, progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    TextOptions,
    check_text_target,
    note_lost_fields,
    note_repairs,
    with_shares,
)


def split(
    *texts: TextFiles,
    into: Annotated[
        tuple[str, ...],
        Parameter(
            help="The files to write, with their shares: train.txt=0.9 test.txt=0.1. Put texts before it.",
            consume_multiple=True,
            negative=(),
        ),
    ],
    reading: TextOptions = DEFAULT_READING,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Divide a text into parts, the same on every machine.

        $ chainrule split corpus.txt --into train.txt=0.9 test.txt=0.1

    Lines stay together in runs of 50, since a test line whose neighbours were
    trained on is too easy. Records and whole files are assigned by the SHA-256
    of their text, so that copies stay together and each stays in its part when
    others are added. Parts are plain text, a document a line, or JSON lines if
    the name ends in .jsonl; both may be compressed. Of a record, only the text
    is written, not its other fields.
    """
    from chainrule.text.corpus.splits import divide, exact_shares
    from chainrule.text.corpus.writing import check_format, document_file

    named = with_shares("--into", into)
    shares = exact_shares(share for _, share in named)
    paths = [Path(name) for name, _ in named]
    source = reading.corpus(*texts)
    for path in paths:
        check_format(path)
        check_text_target(path, source, overwrite=overwrite)
    with ExitStack() as stack:
        progress = stack.enter_context(progress_bar())
        files = [stack.enter_context(document_file(path, reading.field)) for path in paths]
        for part, piece in divide(source, shares, progress, "splitting"):
            files[part].write(piece)
    note_lost_fields(source)
    note_repairs(source)
    if json:
        rows = zip(paths, files, strict=True)
        print_json([{"file": str(path), "documents": file.documents, "bytes": file.bytes} for path, file in rows])
    else:
        total = sum(file.documents for file in files)
        figures = [
            [str(path), f"{file.documents:,}", f"{file.documents / total:.2%}", f"{file.bytes:,}"]
            for path, file in zip(paths, files, strict=True)
        ]
        print(text_table(["part", "documents", "share", "bytes"], figures))
