"""For mkdocstrings: markers such as <s> in docstrings are text, not HTML."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

MARKER = re.compile(r"(?<!`)(\[MASK\]|</?(?:s|unk)>)(?!`)")


class Markers(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = MARKER.sub(r"`\1`", obj.docstring.value)
