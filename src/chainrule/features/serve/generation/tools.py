"""Functions that a conversation offers to a model: how the model is told, and how its calls are read.

The model is told in the system message, and answers by `<tool_call>` with a JSON object, as models of the Qwen, Hermes
and SmolLM families have learned; a grammar sees to it that any other model writes the same. So a call always parses,
names a function that was offered, and has arguments that fit its schema.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from chainrule.decoding.chat.messages import Role, text_of_content
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MARK, _TAIL = "<tool_call>", "}\n</tool_call>"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_TOOLS = 128


class Tool(NamedTuple):
    """A function. parameters: the JSON schema of its arguments, an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    @property
    def head(self) -> str:
        """What a call begins with, up to its arguments."""
        return f'{_MARK}\n{{"name": {json.dumps(self.name)}, "arguments": '


class ToolChoice(NamedTuple):
    """Which functions may be called, and whether one must be."""

    tools: Sequence[Tool]
    is_required: bool


def read_tools(tools: Any, choice: Any) -> ToolChoice:
    """Return the functions of a request, as OpenAI's interface has them. Raises SettingError."""
    if tools in (None, []):
        if choice in (None, "none", "auto"):
            return ToolChoice((), is_required=False)
        raise SettingError(f"tool_choice is {choice!r:.60}, but there are no tools; send some")
    if not isinstance(tools, list) or len(tools) > _MOST_TOOLS:
        raise SettingError(f"tools: expected a list of at most {_MOST_TOOLS} functions")
    offered = [_tool(tool, number) for number, tool in enumerate(tools, 1)]
    names = [tool.name for tool in offered]
    if len(set(names)) < len(names):
        raise SettingError("tools: two functions have the same name; rename one")
    if choice == "none":
        return ToolChoice((), is_required=False)
    if choice in (None, "auto", "required"):
        return ToolChoice(offered, is_required=choice == "required")
    match choice:
        case {"type": "function", "function": {"name": str(name)}} if name in names:
            return ToolChoice([offered[names.index(name)]], is_required=True)
    raise SettingError(
        f"tool_choice is {choice!r:.80}; expected none, auto, required, or "
        '{"type": "function", "function": {"name": ...}} with the name of a tool'
    )


def _tool(tool: Any, number: int) -> Tool:
    match tool:
        case {"type": "function", "function": {"name": str(name), **rest}} if _NAME.fullmatch(name):
            parameters = rest.get("parameters")
            if parameters is None:
                parameters = {"type": "object", "properties": {}, "additionalProperties": False}
            if isinstance(parameters, dict) and parameters.get("type", "object") == "object":
                return Tool(name, str(rest.get("description") or ""), parameters)
    raise SettingError(
        f"tools: number {number} is {json.dumps(tool)[:80]}; expected a function with a name of up to 64 letters, "
        "digits, _ and -, and its parameters, the JSON schema of an object"
    )


def call_grammar(choice: ToolChoice, *, several: bool, text: str = "/(?s:([^<]|<[^t]).*)/") -> str:
    """Return a grammar of Lark for an answer: calls, or also a text where none is required.

    several: more than one call. text: the right-hand side of the rule for such a text; by default any.
    """
    lines = ["start: calls" if choice.is_required else "start: text | calls"]
    lines += ['calls: call ("\\n" call)*' if several else "calls: call"]
    lines += [] if choice.is_required else [f"text: {text}"]
    lines.append("call: " + " | ".join(f"call{i}" for i in range(len(choice.tools))))
    for i, tool in enumerate(choice.tools):
        lines.append(f"call{i}: {json.dumps(tool.head)} args{i} {json.dumps(_TAIL)}")
        lines.append(f"args{i}: %json {json.dumps(tool.parameters)}")
    return "\n".join(lines) + "\n"


def messages_with_tools(messages: Sequence[Any], tools: Sequence[Tool]) -> list[Any]:
    """Return messages in which the system message describes the functions, and calls and their results are text."""
    written = [_as_text(message, number) for number, message in enumerate(messages, 1)]
    if not tools:
        return written
    described = _described(tools)
    first = written[0] if written and isinstance(written[0], dict) else {}
    if first.get("role") in ("system", "developer") and isinstance(first.get("content"), str):
        return [{**first, "content": f"{first['content']}\n\n{described}"}, *written[1:]]
    return [{"role": "system", "content": described}, *written]


def _described(tools: Sequence[Tool]) -> str:
    rows = "\n".join(json.dumps({"type": "function", "function": tool._asdict()}) for tool in tools)
    return (
        f"You can call these functions:\n<tools>\n{rows}\n</tools>\n\nTo call one, answer with its name and its "
        f'arguments:\n{_MARK}\n{{"name": "...", "arguments": {{...{_TAIL.replace("}", "}}", 1)}'
    )


def _as_text(message: Any, number: int) -> Any:
    """Return a message with calls, or the result of one, as a message with content alone, which is a text."""
    if isinstance(message, dict) and isinstance(message.get("content"), list):
        message = {**message, "content": text_of_content(message["content"], f"message {number}")}
    match message:
        case {"role": "assistant", "tool_calls": [*calls], **rest}:
            said = [str(rest.get("content") or ""), *(_call_text(call) for call in calls)]
            return {"role": "assistant", "content": "\n".join(text for text in said if text)}
        case {"role": "tool", "content": str(content)}:
            return {"role": "user", "content": f"<tool_response>\n{content}\n</tool_response>"}
        case {"role": "tool"}:
            raise SettingError(f"message {number} is a tool's; expected its content, a text or a list of parts")
        case {"role": str(role)} if role not in (roles := (*get_args(Role), "tool")):
            raise SettingError(f"message {number} has the role {role!r:.40}; expected one of {', '.join(roles)}")
    return message


def _call_text(call: Any) -> str:
    match call:
        case {"function": {"name": str(name), "arguments": str(arguments)}}:
            return f"{Tool(name, '', {}).head}{arguments}{_TAIL}"
    raise SettingError(f"{json.dumps(call)[:80]} is not a tool call; expected its function, with name and arguments")


class CallReader:
    """Reads the calls of an answer that grows."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._heads = {tool.head: tool.name for tool in tools}
        self._text = self._given = ""  # what has not been given yet, and the arguments that have
        self._place = "begin" if tools else "text"
        self.calls = 0

    def feed(self, text: str, *, is_last: bool) -> tuple[str, list[dict[str, Any]]]:
        """Return the content and the parts of calls that more text brings, as chunks of a stream have them."""
        self._text += text
        parts: list[dict[str, Any]] = []
        while True:
            if self._place == "begin":
                if len(self._text) < len(_MARK) and _MARK.startswith(self._text):
                    return "", parts
                self._place = "head" if self._text.startswith(_MARK) else "text"
            if self._place == "text":
                content, self._text = self._text, ""
                return content, parts
            if self._place == "head":
                self._text = self._text.lstrip("\n")
                head = next((head for head in self._heads if self._text.startswith(head)), None)
                if head is None:
                    return "", parts
                function = {"name": self._heads[head], "arguments": ""}
                identity = f"call_{uuid.uuid4().hex[:24]}"
                parts.append({"index": self.calls, "id": identity, "type": "function", "function": function})
                self._text, self._place, self._given = self._text[len(head) :], "arguments", ""
                self.calls += 1
            end = self._text.find(_TAIL)  # in JSON, a newline and < never follow } but here
            kept = end if end >= 0 else max(0, len(self._text) - len(_TAIL) + 1)
            if end < 0 and is_last:  # cut: the arguments as far as they go, without what comes after them
                self._text = self._text[: _end_of_json(self._given + self._text) - len(self._given)]
                kept = len(self._text)
            if kept > 0:
                self._given += self._text[:kept]
                parts.append({"index": self.calls - 1, "function": {"arguments": self._text[:kept]}})
            if end < 0:
                self._text = self._text[kept:]
                return "", parts
            self._text, self._place = self._text[end + len(_TAIL) :], "head"


def _end_of_json(text: str) -> int:
    """Return where the value that a text begins with ends; the text's end if it does not."""
    try:
        return json.JSONDecoder().raw_decode(text)[1]
    except ValueError:
        return len(text)


def joined_calls(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the calls as a whole answer has them, from the parts of a stream."""
    calls: list[dict[str, Any]] = []
    for part in parts:
        if "id" in part:
            calls.append({"id": part["id"], "type": "function", "function": dict(part["function"])})
        else:
            calls[-1]["function"]["arguments"] += part["function"]["arguments"]
    return calls
