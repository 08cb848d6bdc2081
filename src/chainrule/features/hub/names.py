"""Names of models of the Hub, as users write them: owner/name, owner/name@revision, owner/name:file."""

from __future__ import annotations

import re
from typing import NamedTuple

from chainrule.errors import SettingError

_NAME = re.compile(r"(?P<repository>[\w.-]+(/[\w.-]+)?)(@(?P<revision>[^:@]+))?(:(?P<file>.+))?")


class HubName(NamedTuple):
    """A model's name. revision: a branch, tag or commit. file: a path, a pattern or a part of a name; or nothing."""

    repository: str
    revision: str = "main"
    file: str = ""

    @classmethod
    def parse(cls, text: str) -> HubName:
        """Return the parts of a name, which is what follows hf:. Raises SettingError."""
        match = _NAME.fullmatch(text.strip("/"))
        if match is None:
            raise SettingError(
                f"hf:{text}: is no name of a model of the Hub; expected hf:owner/name, perhaps with a revision, "
                "hf:owner/name@v1.0, and a file, hf:owner/name:Q4_K_M"
            )
        return cls(match["repository"], match["revision"] or "main", match["file"] or "")

    def __str__(self) -> str:
        return f"hf:{self.repository}" + (f"@{self.revision}" if self.revision != "main" else "")
