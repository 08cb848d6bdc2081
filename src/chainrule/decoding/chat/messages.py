"""The messages of a conversation: who speaks, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Role = Literal["system", "developer", "user", "assistant"]
_SYSTEM = ("system", "developer")  # the second is OpenAI's newer name
_TEXT_PARTS = ("text", "input_text", "output_text")


class Message(NamedTuple):
    """A message. A developer's counts as the system's wherever the model's template does not tell the two apart."""

    role: Role
    content: str


def as_messages(messages: Iterable[Mapping[str, Any] | Message]) -> list[Message]:
    """Return messages from dictionaries with role and content, a text or a list of parts (`text_of_content`).

    Raises SettingError if one is not a message, or the last is the assistant's, after which nobody has spoken.
    """
    if isinstance(messages, str):
        raise TypeError('this takes messages, such as [{"role": "user", "content": "Hello"}]; found a str')
    given = [
        message if isinstance(message, Message) else _message(message, number)
        for number, message in enumerate(messages, 1)
    ]
    if not given or given[-1].role == "assistant":
        last = "the last message is from the assistant" if given else "there is no message"
        raise SettingError(f"{last}; the model answers a message from the user, or from the system")
    return given


def split_system(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return the system message, if the conversation has one, and the others."""
    cut = int(messages[0].role in _SYSTEM)
    return messages[:cut], messages[cut:]


def with_system_role(messages: Sequence[Message]) -> list[Message]:
    """Return the same messages, for a model that knows no developer."""
    return [Message("system", text) if role == "developer" else Message(role, text) for role, text in messages]


def exchanges(messages: Sequence[Message]) -> list[int]:
    """Return the indices at which a conversation can be cut: where the user begins to speak."""
    return [
        i for i, message in enumerate(messages) if message.role == "user" and (not i or messages[i - 1].role != "user")
    ]


def text_of_content(content: Any, place: str) -> Any:
    """Return the text of a message's content: itself, or that of its parts, as OpenAI's interface has them, a line for
    each.

    place: the message, for errors. Raises SettingError for a part that is no text.
    """
    if not isinstance(content, list):
        return content
    texts = []
    for number, part in enumerate(content, 1):
        match part:
            case str(text) | {"type": "text" | "input_text" | "output_text", "text": str(text)}:
                texts.append(text)
            case {"type": str(kind)} if kind not in _TEXT_PARTS:
                raise SettingError(f"part {number} of {place} is of type {kind:.40}; this model reads text alone")
            case _:
                expected = '{"type": "text", "text": ...}'
                raise SettingError(f"part {number} of {place} is {part!r:.60}; expected {expected}")
    return "\n".join(texts)


def _message(message: Mapping[str, Any], number: int) -> Message:
    """Return the message in a dictionary with role and content. Raises SettingError."""
    match message:
        case {"role": str(role), "content": str() | list() as content} if role in get_args(Role):
            text = text_of_content(content, f"message {number}")
            return Message(role, text)  # type: ignore[arg-type]  # mypy does not narrow by get_args
        case _:
            raise SettingError(
                f"{message!r:.80} is not a message; expected its role, which is {', '.join(get_args(Role))}, and its "
                "content, a text or a list of parts"
            )
