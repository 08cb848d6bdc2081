"""The file for the ids of a text that may be larger than memory."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chainrule.base.memory import available_memory
from chainrule.base.scratch import check_disk_room
from chainrule.errors import OutputError
from chainrule.text.corpus.corpus import Corpus
from chainrule.text.corpus.reading import compression_suffix
from chainrule.text.corpus.streams import file_size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from chainrule.text.corpus.corpus import Source

_ID_BYTES = 4
_LEAST_TOKEN_BYTES = 4  # of text, a token and the space after it, in the mean
_EXPANSION = 5  # of a compressed text


@contextmanager
def ids_file(folder: Path | None) -> Iterator[Any]:
    """A file without a name, which vanishes when nothing is mapped from it any more. Raises OutputError.

    It is in the folder or, since a folder is made only when something is saved in it, in the nearest existing parent.
    """
    directory = None if folder is None else next(path for path in (folder, *folder.parents) if path.exists())
    try:
        file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
    except OSError as error:
        raise OutputError(f"{directory or tempfile.gettempdir()}: cannot be written: {error.strerror}") from error
    with file:
        yield file


def may_exceed_memory(source: Source, token_bytes: int) -> bool:
    """Whether the files of a text are so large that its tokens may need more than half of the memory."""
    available = available_memory()
    if available is None or not isinstance(source, Corpus):
        return False
    size = 0
    for file in (file for files in source.files for file in files):
        size += file_size(file) * (_EXPANSION if compression_suffix(file) else 1)
    return size // _LEAST_TOKEN_BYTES * token_bytes > available // 2


def check_ids_room(tokens: int) -> None:
    """Raises OutputError where the disk has no room for the ids of a text."""
    check_disk_room(_ID_BYTES * tokens, f"a text of about {tokens:,} tokens")
