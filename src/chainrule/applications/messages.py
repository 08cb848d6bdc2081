"""The messages of a conversation: who speaks, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Role = Literal["system", "user", "assistant"]


class Message(NamedTuple):
    role: Role
    content: str


def as_messages(messages: Iterable[Mapping[str, Any] | Message]) -> list[Message]:
    """Messages from dictionaries with role and content.

    Raises SettingError if one is not a message, a system message is not the first, or the last is not the user's.
    """
    if isinstance(messages, str):
        raise TypeError('this takes messages, such as [{"role": "user", "content": "Hello"}]; found a str')
    given = [message if isinstance(message, Message) else _message(message) for message in messages]
    for number, message in enumerate(given, 1):
        if message.role == "system" and number > 1:
            raise SettingError(f"message {number} is a system message; only the first message can be one")
    if not given or given[-1].role != "user":
        last = f"the last message is from the {given[-1].role}" if given else "there is no message"
        raise SettingError(f"{last}; the model answers a message from the user")
    return given


def split_system(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """The system message, if the conversation has one, and the others."""
    cut = int(messages[0].role == "system")
    return messages[:cut], messages[cut:]


def exchanges(messages: Sequence[Message]) -> list[int]:
    """The indices at which a conversation can be cut: where the user begins to speak."""
    return [
        i for i, message in enumerate(messages) if message.role == "user" and (not i or messages[i - 1].role != "user")
    ]


def _message(message: Mapping[str, Any]) -> Message:
    """Raises SettingError."""
    match message:
        case {"role": str(role), "content": str(content)} if role in get_args(Role):
            return Message(role, content)  # type: ignore[arg-type]  # mypy does not narrow by get_args
        case _:
            raise SettingError(
                f"{message!r:.80} is not a message; expected its role, which is {', '.join(get_args(Role))}, and its "
                "content, a text"
            )
