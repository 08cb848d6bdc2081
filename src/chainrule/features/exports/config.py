"""The names of files for other programs, and how word lists are made. Imports nothing heavy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.base.options import Options, option
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from os import PathLike

_LOCALE = re.compile(r"[A-Za-z]{2,3}(_[A-Za-z0-9]+)*")


@dataclass(frozen=True, kw_only=True)
class WordListConfig(Options):
    """What goes into a word list for Android keyboards. Raises SettingError.

    locale: of the header. words: how many words, the most probable. bigrams: how many next words of each.
    shortcuts: a file with a tab between what is typed and what it stands for.
    """

    locale: str = option("en_US", "for a .combined file: the locale of its words")
    words: int | None = option(None, "for a .combined file: how many words, the most probable; by default all", least=1)
    bigrams: int = option(3, "for a .combined file: how many next words to list for each word", least=0)
    shortcuts: str | PathLike[str] | None = option(
        None, "for a .combined file: a file of shortcuts: in each line a shortcut, a tab and its expansion", reads=Path
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _LOCALE.fullmatch(self.locale):
            raise SettingError(f"locale is {self.locale!r}; expected one such as en or en_US")
