"""Conversations as pairs: the turns before an answer are its source.

A conversation is an object with `messages`, each with `role` (system, user or assistant) and `content`, as
`chainrule chat` saves them. A source has all turns in one line, each after its role: `user: Hello assistant: Hi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MESSAGES = "messages"
ROLES = ("system", "user", "assistant")


def source_of_turns(turns: Iterable[tuple[str, str]]) -> str:
    """Roles and texts in one line: what a model of pairs reads of a conversation."""
    return " ".join(f"{role}: {on_one_line(text)}" for role, text in turns)


def pairs_of_turns(record: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """The source and the target of each answer in a conversation. Raises TextError, which names the place."""
    messages = record[MESSAGES]
    if not isinstance(messages, list) or not messages:
        raise TextError(f"{place}: {MESSAGES} is no list of turns; expected objects with role and content")
    turns: list[tuple[str, str]] = []
    for number, message in enumerate(messages, 1):
        match message:
            case {"role": str(role), "content": str(text)} if role in ROLES:
                pass
            case _:
                raise TextError(
                    f"{place}: message {number} is no turn; expected its role, which is {', '.join(ROLES)}, and its "
                    "content, a text"
                )
        if role == "assistant" and turns:
            yield source_of_turns(turns), on_one_line(text)
        turns.append((role, text))


def on_one_line(text: str) -> str:
    """The text with spaces for its line ends."""
    return " ".join(text.splitlines())
