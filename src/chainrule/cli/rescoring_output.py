"""The output of `chainrule rescore`: the best hypotheses, and lists with new scores."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, BinaryIO

from chainrule.applications.rescoring.nbest_files import KEYED, list_writer, write_best
from chainrule.applications.rescoring.rescoring import Chooser
from chainrule.base.files import compressing, replace_file
from chainrule.text.corpus.reading import FORMATS, text_suffix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from chainrule.applications.rescoring.nbest_files import ListFormat
    from chainrule.applications.rescoring.rescoring import Scored


@contextmanager
def open_outputs(
    output: Path | None, nbest_out: Path | None, kind: ListFormat, models: Sequence[str]
) -> Iterator[Callable[[Chooser, Scored], None]]:
    """A function that writes a block of lists to all outputs; files appear if all goes well. Raises OutputError."""
    as_json = output is not None and FORMATS.get(text_suffix(str(output))) == "json"
    with ExitStack() as stack:
        best: BinaryIO = sys.stdout.buffer
        if output is not None:
            best = stack.enter_context(compressing(stack.enter_context(replace_file(output)), output))
        lists = None if nbest_out is None else stack.enter_context(list_writer(nbest_out, kind, models))

        def write(chooser: Chooser, block: Scored) -> None:
            texts = block.texts()
            for nbest, row in zip(block.lists, chooser.after(block).tolist(), strict=True):
                write_best(best, nbest, texts[row], as_json=as_json, with_id=kind in KEYED)
            if output is None:
                best.flush()
            if lists is not None:
                for nbest, scores, order in chooser.ranked(block):
                    lists.write(nbest, scores, order)

        yield write
