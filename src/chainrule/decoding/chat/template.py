"""Chat templates: messages to text by a model's Jinja template, run in a sandbox; conversations to token ids.

A template may loop, compare and join strings; it reaches no file, no attribute of Python and no code. Its environment
is that of transformers, so that every conversation is written as there. Loops over `range` and repeated strings are
limited, since both could take all time and memory.

No message can forge a role or an end. Special tokens are control tokens only where the template writes them. So the
conversation is rendered a second time, in which stand-ins (characters for private use) take the place of the
punctuation of control tokens in every message: a token with a stand-in is spelled by a message, and the text is cut
inside it, so that it stays text. Templates look into messages (`'</think>' in content`), so a message with stand-ins
compares, splits and is sliced as the message itself (`_Content`), and the two renderings have the same text. Where a
template looks in another way and they differ, the first is taken if its control tokens are those that the template
writes in the second, else the second.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import do_title
from jinja2.meta import find_undeclared_variables
from jinja2.nodes import Add, Filter
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from chainrule.decoding.chat.messages import Message, with_system_role
from chainrule.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from jaxtyping import Int32
    from jinja2.nodes import Concat, Expr, Node, Template
    from jinja2.parser import Parser
    from jinja2.runtime import Context
    from numpy import ndarray

_MOST_STEPS = 100_000  # of all loops over `range` while one conversation is written
_PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
_OURS = ("messages", "tools", "documents", "add_generation_prompt")  # variables that callers do not set
_LONGEST = 1 << 20  # characters or items of a repeated string or list


class ChatTemplate:
    """How a conversation is written."""

    def __init__(self, source: str, variables: Mapping[str, str], location: str, now: Callable[[], datetime]) -> None:
        """Compile the template in a sandbox.

        variables: names that the template may use, such as bos_token. location: the model's path, for messages. now:
        the time, for templates that write the date. Raises ModelFormatError if the source is no template.
        """
        self.source, self._variables, self._location = source, dict(variables), location
        self._sandbox = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        self._sandbox.filters |= {"tojson": _tojson, "title": _title}
        self._sandbox.globals |= {
            "raise_exception": _refuse,
            "strftime_now": lambda form: now().strftime(form),
            "range": self._sandbox.counted_range,
        }
        if not source.strip():
            raise ModelFormatError(f"{location}: its chat template is empty; expected one in Jinja")
        try:
            self._template = self._sandbox.from_string(source)
        except (TemplateSyntaxError, RecursionError) as error:
            raise ModelFormatError(f"{location}: its chat template is not valid Jinja: {error}") from error

    def reads(self, name: str) -> bool:
        """Return whether the template has a variable that its caller may set."""
        tree = self._sandbox.parse(self.source)
        return name in find_undeclared_variables(tree) - {*self._sandbox.globals, *self._variables, *_OURS}

    def render(self, messages: Sequence[Message], variables: Mapping[str, Any] | None = None) -> str:
        """Return the conversation as the model reads it, up to where its answer begins.

        variables: of the caller, as `reads` knows them. Raises SettingError if the template refuses these messages,
        ModelFormatError if it fails.
        """
        self._sandbox.steps = 0
        try:
            return self._template.render(
                messages=[message._asdict() for message in messages],
                tools=None,
                documents=None,
                add_generation_prompt=True,
                **{**(variables or {}), **self._variables},
            )
        except _RefusedError as error:
            raise SettingError(f"{self._location}: its chat template refuses these messages: {error}") from None
        except Exception as error:  # whatever a template does with values of the wrong kind
            raise ModelFormatError(f"{self._location}: its chat template failed: {error}") from error


class _RefusedError(TemplateError):
    """A template's message about a conversation that it refuses to write."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, in which a template may neither run long nor make long texts.

    steps: of loops over `range` so far.
    """

    intercepted_binops = frozenset({"*", "**"})
    steps = 0

    def _parse(self, source: str, name: str | None, filename: str | None) -> Template:
        tree: Template = _Addition().visit(super()._parse(source, name, filename))
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        for one, other in ((left, right), (right, left)):
            if operator == "*" and isinstance(one, str | list | tuple) and isinstance(other, int):
                if len(one) * other > _LONGEST:
                    raise SecurityError(f"it repeats something to a length above {_LONGEST:,}")
            elif operator == "**" and abs(other) > 64:
                raise SecurityError("it computes a power above 64")
        return super().call_binop(context, operator, left, right)

    def counted_range(self, *arguments: int) -> range:
        numbers = range(*arguments)
        self.steps += len(numbers)
        if self.steps > _MOST_STEPS:
            raise SecurityError(f"its loops take more than {_MOST_STEPS:,} steps")
        return numbers


class _Addition(NodeTransformer):
    """Makes a ~ b the sum of two strings, so that what a message is joined to can be looked into as a message can."""

    def visit_Concat(self, node: Concat) -> Node:  # noqa: N802  # Jinja's own name
        self.generic_visit(node)
        strings = [Filter(part, "string", [], [], None, None, lineno=node.lineno) for part in node.nodes]
        joined: Expr = strings[0]
        for string in strings[1:]:
            joined = Add(joined, string, lineno=node.lineno)
        return joined


class _Generation(Extension):
    """{% generation %} ... {% endgeneration %}: marks, for training, what the model says; here it changes nothing."""

    tags = {"generation"}  # noqa: RUF012  # Jinja's own declaration

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _refuse(message: object) -> None:
    raise _RefusedError(str(message))


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return the filter tojson as in transformers: Jinja's own escapes what HTML must not contain."""
    shown, stand_ins = _without_stand_ins(value)
    text = json.dumps(shown, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    return text if stand_ins is None else stand_ins.hide(text)


def _without_stand_ins(value: Any) -> tuple[Any, _StandIns | None]:
    """Return the value with the original text of all messages in it, and the stand-ins of one of them."""
    if isinstance(value, _Content):
        return value.stand_ins.show(value), value.stand_ins
    if isinstance(value, dict):
        pairs = {key: _without_stand_ins(item) for key, item in value.items()}
        stand_ins = next((own for _, own in pairs.values() if own), None)
        return {key: item for key, (item, _) in pairs.items()}, stand_ins
    if isinstance(value, list | tuple):
        items = [_without_stand_ins(item) for item in value]
        return [item for item, _ in items], next((own for _, own in items if own), None)
    return value, None


def _title(value: Any) -> str:
    """Return the filter title, which looks for punctuation."""
    if isinstance(value, _Content):
        return value.stand_ins.hide(do_title(value.stand_ins.show(value)))
    return do_title(value)


class _StandIns:
    """Private-use characters, each in the place of one character of control tokens."""

    def __init__(self, characters: Iterable[str], texts: Iterable[str]) -> None:
        """Choose a stand-in for each character.

        texts: those in which no stand-in may occur. Raises SettingError if they leave too few.
        """
        used = set().union(*texts)
        unused = (code for code in itertools.chain(*_PRIVATE_USE) if chr(code) not in used)
        codes = dict(zip(sorted(characters), unused, strict=False))
        if len(codes) < len(set(characters)):
            raise SettingError("the messages have nearly all private-use characters of Unicode; leave some out")
        self._hide = {ord(character): code for character, code in codes.items()}
        self._show = {code: character for character, code in codes.items()}

    def hide(self, text: str) -> str:
        return text.translate(self._hide)

    def show(self, text: str) -> str:
        return text.translate(self._show)

    def are_in(self, text: str) -> bool:
        return any(ord(character) in self._show for character in text)


class _Content(str):
    """A message with stand-ins, which a template sees as the message: each method answers as that of the message.

    Its parts have stand-ins, too, and so has whatever text they are joined to.
    """

    stand_ins = _StandIns((), ())

    @classmethod
    def of(cls, text: str, stand_ins: _StandIns) -> _Content:
        content = cls(text)
        content.stand_ins = stand_ins
        return content

    def __hash__(self) -> int:
        return hash(self.stand_ins.show(self))

    def __str__(self) -> str:
        return self  # so that filters that begin with str(...) look at a message, too

    def __iter__(self) -> Iterator[str]:
        return (_Content.of(character, self.stand_ins) for character in super().__iter__())

    def __radd__(self, other: object) -> str:
        return _Content.of(str.__add__(other, self), self.stand_ins) if isinstance(other, str) else NotImplemented


def _answering(name: str) -> Callable[..., Any]:
    """Return a method that compares or counts: it sees the text without stand-ins."""
    method = getattr(str, name)

    @functools.wraps(method)
    def answer(self: _Content, *arguments: Any, **named: Any) -> Any:
        show = self.stand_ins.show

        def shown(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(shown, value))
            return show(value) if isinstance(value, str) else value

        return method(show(self), *map(shown, arguments), **{key: shown(value) for key, value in named.items()})

    return answer


def _giving(name: str, *, looks_for: Literal["", "text", "characters"] = "") -> Callable[..., Any]:
    """Return a method that gives text: its parts keep their stand-ins. looks_for: what its first argument is."""
    method = getattr(str, name)

    @functools.wraps(method)
    def give(self: _Content, *arguments: Any, **named: Any) -> Any:
        own = self.stand_ins
        if looks_for and arguments and isinstance(arguments[0], str):
            first = own.hide(arguments[0])
            if looks_for == "characters":
                first += own.show(arguments[0])
            elif not str.__contains__(self, first):
                first = arguments[0]
            arguments = (first, *arguments[1:])

        def kept(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return type(value)(map(kept, value))
            return _Content.of(value, own) if isinstance(value, str) else value

        return kept(method(self, *arguments, **named))

    return give


for _name in (
    *("__contains__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"),
    *("count", "endswith", "find", "index", "isascii", "isprintable", "rfind", "rindex", "startswith"),
):
    setattr(_Content, _name, _answering(_name))
for _name in ("partition", "removeprefix", "removesuffix", "replace", "rpartition", "rsplit", "split"):
    setattr(_Content, _name, _giving(_name, looks_for="text"))
for _name in ("lstrip", "rstrip", "strip"):
    setattr(_Content, _name, _giving(_name, looks_for="characters"))
for _name in (
    *("__add__", "__getitem__", "__mul__", "__rmul__", "center", "expandtabs", "ljust", "rjust", "splitlines"),
    *("capitalize", "casefold", "lower", "swapcase", "title", "upper"),
):
    setattr(_Content, _name, _giving(_name))


class PromptEncoder(Protocol):
    """Encodes rendered conversations. special: the texts of control tokens. added: other texts that are one token."""

    special: Sequence[str]
    added: Sequence[str]

    def encode(self, text: str) -> Int32[ndarray, " T"]:
        """Return the ids of a text, control tokens included; nothing is added. Raises MarkerError."""


class Rendered(NamedTuple):
    """A conversation as the model reads it. text: as the model reads it. tokens: its ids."""

    text: str
    tokens: Int32[ndarray, " T"]


class ChatFormat:
    """A template and an encoder."""

    def __init__(
        self, template: ChatTemplate, encoder: PromptEncoder, variables: Mapping[str, Any] | None = None
    ) -> None:
        """Find the control tokens that the template writes.

        variables: of the caller, whose texts forge no control token either. Raises ModelFormatError if the template
        fails.
        """
        self.template, self.encoder, self._given = template, encoder, dict(variables or {})
        try:
            written = template.render([Message("user", "Hello")], self._given)
        except SettingError:  # it wants other messages
            written = ""
        # Some checkpoints do not call their control tokens special: those that this template writes are.
        added = (text for text in encoder.added if text in written and text.strip())
        self._control = sorted({*encoder.special, *added} - {""}, key=len, reverse=True)
        self._punctuation = {character for text in self._control for character in _punctuation_of(text)}
        # The longest of those that begin at a character.
        self._begins = re.compile(f"(?=({'|'.join(map(re.escape, self._control)) or '(?!)'}))")

    def with_variables(self, variables: Mapping[str, Any]) -> ChatFormat:
        """Return the same template with variables of the caller."""
        return ChatFormat(self.template, self.encoder, variables)

    def encode(self, messages: Sequence[Message]) -> Rendered:
        """Return the conversation as the model reads it, with its tokens.

        Raises SettingError if the template refuses the messages, ModelFormatError if it fails; MarkerError.
        """
        if "developer" not in self.template.source:
            messages = with_system_role(messages)
        contents = [*(message.content for message in messages), *_texts_in(self._given)]
        short = next((text for text in self._control if len(text) == 1 and any(text in own for own in contents)), None)
        if short is not None:  # it cannot be cut
            raise SettingError(f"a message has {short!r}, which is a control token of the model; leave it out")
        stand_ins = _StandIns(self._punctuation, [self.template.source, *contents])

        def hidden(content: str) -> str:
            return _Content.of(stand_ins.hide(content), stand_ins)

        text = self.template.render(messages, self._given)
        marked = self.template.render(
            [Message(role, hidden(content)) for role, content in messages], _changed(self._given, hidden)
        )
        cuts = [0]
        if stand_ins.show(marked) != text and self._control_tokens(text) == self._control_tokens(marked):
            marked = text
        text = stand_ins.show(marked)
        for begin, end in self._spans(text):
            inside = next((i for i in range(begin, end) if stand_ins.are_in(marked[i])), None)
            if inside is not None:
                cuts.append(max(inside, begin + 1))
        parts = [text[begin:end] for begin, end in itertools.pairwise([*sorted(set(cuts)), len(text)])]
        tokens = [self.encoder.encode(part) for part in parts if part]
        return Rendered(text, np.concatenate([np.empty(0, np.int32), *tokens]))

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Give where control tokens begin and end, also those that overlap."""
        return (found.span(1) for found in self._begins.finditer(text))

    def _control_tokens(self, text: str) -> list[str]:
        return [text[begin:end] for begin, end in self._spans(text)]


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    """Return JSON with all texts changed, those of keys excepted."""
    if isinstance(value, dict):
        return {key: _changed(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_changed(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def _texts_in(value: Any) -> list[str]:
    texts: list[str] = []
    _changed(value, lambda text: texts.append(text) or text)  # type: ignore[func-returns-value]
    return texts


def _punctuation_of(token: str) -> Iterable[str]:
    """Return the characters of a control token for which stand-ins do: its first one if it is a word."""
    return {character for character in token if not (character.isalnum() or character.isspace())} or token[0]
