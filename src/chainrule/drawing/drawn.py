"""Drawn: what a verb that draws gives back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import os


class Drawn(Protocol):
    """A picture or a page. contents: what there is in it, in words, such as 12 maps."""

    @property
    def contents(self) -> str: ...

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write it in the format of the file's ending. Raises OutputError, SettingError."""
