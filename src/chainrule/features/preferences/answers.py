"""Pairs of answers to a prompt, of which people prefer one: records with the fields prompt, chosen and rejected.

Each field is a text; or, as in data sets for chats, the prompt is a list of messages and each answer one message of the
assistant, in a list.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.errors import TextError
from chainrule.text.corpus.records import Record, raise_error, read_field, read_items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.text.corpus.records import OnBad

_FIELDS = ("prompt", "chosen", "rejected")


class Preference(NamedTuple):
    """A prompt, a text or the messages of a conversation, and two answers. place: file and line, for messages."""

    prompt: str | tuple[dict[str, str], ...]
    chosen: str
    rejected: str
    place: str


def read_preferences(name: str, on_bad: OnBad = raise_error) -> list[Preference]:
    """Reads the pairs of a file; - is standard input. Raises TextError with file and line.

    on_bad: a callback that gets what is wrong with a pair, which is then left out.
    """
    return read_items(name, _read, "pair", on_bad, expected=f"records with {', '.join(_FIELDS)}")


def _read(record: Record) -> Preference:
    """Raises TextError."""
    prompt, chosen, rejected = (read_field(record.fields, field) for field in _FIELDS)
    messages = _messages(prompt)
    if messages is not None:
        prompt, chosen, rejected = messages, _answer(chosen), _answer(rejected)
    for field, value in zip(_FIELDS, (prompt, chosen, rejected), strict=True):
        if not isinstance(value, str | tuple):
            expected = "the text of one message of the assistant" if messages and field != "prompt" else "a text"
            raise TextError(f"the field {field!r} is {json.dumps(record.fields[field])[:60]}; expected {expected}")
    return Preference(prompt, chosen, rejected, record.location)


def _messages(value: Any) -> tuple[dict[str, str], ...] | None:
    """Return the messages of a conversation; None if this is none."""
    if not isinstance(value, list) or not value:
        return None
    if not all(isinstance(each, dict) and isinstance(each.get("content"), str) for each in value):
        return None
    return tuple({"role": str(each.get("role")), "content": each["content"]} for each in value)


def _answer(value: Any) -> Any:
    """Return the text of an answer that is a list of one message; other values unchanged."""
    messages = _messages(value)
    if messages is not None and len(messages) == 1 and messages[0]["role"] == "assistant":
        return messages[0]["content"]
    return value if isinstance(value, str) else None


def digest_of_preferences(pairs: Sequence[Preference]) -> str:
    """Return a digest that identifies these pairs."""
    digest = hashlib.sha256()
    for pair in pairs:
        digest.update(json.dumps(pair[:3]).encode("utf-8", "replace"))
    return digest.hexdigest()[:16]
