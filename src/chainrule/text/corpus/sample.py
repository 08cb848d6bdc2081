"""The sample text: Python's own documentation, which comes with the package, so that figures do not depend on the
Python that is installed.

About 2 MB: the help topics of the language reference and the docstrings of the standard library of CPython 3.11.7,
without its tests, jokes and applications. The file holds a JSON array for each: the name of a package or module, or
"topics", and the text. Its licence is in the file beside it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.base.files import DECOMPRESSORS
from chainrule.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILE = Path(__file__).with_name("python_documentation.jsonl.zst")
_TOPICS = "topics"


def sample_lines(progress: Progress = silent) -> list[str]:
    """Return the lines of the sample text, without empty ones and without indentation."""
    lines = [" ".join(line.split()) for _, text in _entries() for line in text.splitlines() if line.strip()]
    progress("reading Python's documentation", 1, 1)
    return lines


def sample_docstrings() -> list[tuple[str, str]]:
    """Return the docstrings of the sample text, each with the name of its top-level package or module."""
    return [(name, text) for name, text in _entries() if name != _TOPICS]


def _entries() -> Iterator[tuple[str, str]]:
    with DECOMPRESSORS[_FILE.suffix](_FILE) as file:
        for line in file:
            name, text = json.loads(line)
            yield name, text
