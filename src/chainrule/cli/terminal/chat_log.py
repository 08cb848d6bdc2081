"""The log of a conversation: a file that every message is added to as it is said."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from chainrule.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.applications.messages import Message


class ChatLog:
    """Adds a line of JSON to a file for each message: time, role and content."""

    def __init__(self, path: Path) -> None:
        """Raises OutputError if the file cannot be written."""
        self._path = path
        self._append("")

    def add(self, message: Message) -> None:
        """Raises OutputError."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._append(json.dumps({"time": now, **message._asdict()}, ensure_ascii=False) + "\n")

    def _append(self, text: str) -> None:
        try:
            with self._path.open("ab") as file:
                file.write(text.encode("utf-8", "replace"))
        except OSError as error:
            raise OutputError(f"{self._path}: cannot be written: {error.strerror}") from error
