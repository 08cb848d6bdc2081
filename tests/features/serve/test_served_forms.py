"""Answers in the form that a request asks for: response_format, our own fields, and calls of tools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_chat_templates import TEMPLATES, Talker
from test_served_chat import chunks, record

from chainrule.errors import SettingError
from chainrule.features.serve.bodies import ApiError
from chainrule.features.serve.config import ServerLimits
from chainrule.features.serve.generation.tools import (
    CallReader,
    Tool,
    call_grammar,
    joined_calls,
    messages_with_tools,
    read_tools,
)
from chainrule.features.serve.models import ServedModel

if TYPE_CHECKING:
    from collections.abc import Iterator

TALK = [{"role": "user", "content": "the cat sat"}]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": ["the", "cat"]}, "b": {"type": "boolean"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "It.", "parameters": SCHEMA}} for name in ("f", "gg")
]
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedModel]:
    model: Any = Talker(TEMPLATES["chatml"], tmp_path_factory.mktemp("talker") / "model", context=2000).ours
    served = ServedModel("talker", model, "fp", ServerLimits())
    yield served
    served.scheduler.close()


def fits(text: str) -> bool:
    value = json.loads(text)
    return set(value) == {"a", "b"} and value["a"] in ("the", "cat") and type(value["b"]) is bool


def test_an_answer_has_the_schema_of_response_format(served: ServedModel) -> None:
    for seed in range(3):
        answer = record(served, messages=TALK, response_format=JSON_SCHEMA, max_tokens=300, seed=seed)["choices"][0]
        assert answer["finish_reason"] == "length" or fits(answer["message"]["content"])
        cut = record(served, messages=TALK, response_format=JSON_SCHEMA, max_tokens=1, seed=seed)["choices"][0]
        assert cut["finish_reason"] == "length"
    whole = record(served, messages=TALK, response_format=JSON_SCHEMA, max_tokens=300, seed=1)
    pieces = chunks(served, messages=TALK, response_format=JSON_SCHEMA, max_tokens=300, seed=1)
    streamed = "".join(piece["choices"][0]["delta"].get("content") or "" for piece in pieces)
    assert streamed == whole["choices"][0]["message"]["content"]


def test_own_fields_name_a_form(served: ServedModel) -> None:
    for field in ({"choices": ["the cat", "sat"]}, {"regex": "the cat|sat"}, {"grammar": 'start: "the cat" | "sat"'}):
        answer = record(served, messages=TALK, **field, max_tokens=50, seed=2)["choices"][0]
        assert answer["message"]["content"] in ("the cat", "sat")
        assert answer["finish_reason"] == "stop"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "gg"}}], ids=str)
def test_a_required_call_names_a_tool_and_fits_its_schema(served: ServedModel, choice: Any) -> None:
    body = {"messages": TALK, "tools": TOOLS, "tool_choice": choice, "max_tokens": 400, "seed": 1}
    [answer] = record(served, **body)["choices"]
    assert answer["finish_reason"] == "tool_calls"
    assert answer["message"]["content"] is None
    [call] = answer["message"]["tool_calls"]
    assert call["function"]["name"] in ("f", "gg") if choice == "required" else call["function"]["name"] == "gg"
    assert fits(call["function"]["arguments"])
    pieces = chunks(served, **body)
    parts = [part for piece in pieces for part in piece["choices"][0]["delta"].get("tool_calls", [])]
    [streamed] = joined_calls(parts)
    assert streamed["function"] == call["function"]
    assert pieces[-1]["choices"][0]["finish_reason"] == "tool_calls"
    follow = [*TALK, {**answer["message"]}, {"role": "tool", "tool_call_id": call["id"], "content": "sat"}]
    assert record(served, messages=follow, max_tokens=3, seed=1)["choices"][0]["message"]["content"] is not None


def test_a_tool_that_may_be_called_need_not_be(served: ServedModel) -> None:
    for seed in range(3):
        answer = record(served, messages=TALK, tools=TOOLS, max_tokens=400, seed=seed)["choices"][0]
        calls = answer["message"].get("tool_calls")
        assert (answer["finish_reason"] == "tool_calls") <= bool(calls)
        assert bool(calls) == (answer["message"]["content"] is None)
    plain = record(served, messages=TALK, max_tokens=5, seed=1)
    none = record(served, messages=TALK, tools=TOOLS, tool_choice="none", max_tokens=5, seed=1)
    assert none["choices"] == plain["choices"]


def test_a_form_beside_tools_is_that_of_answers_that_are_no_calls(served: ServedModel) -> None:
    """Both kinds of answers come: an answer without a call has the schema, a call fits its own."""
    for first in "<{":
        bias = {str(served.tokenizer.vocabulary.tokens().index(first.encode())): 100}
        body = {"messages": TALK, "tools": TOOLS, "max_tokens": 400, "seed": 1, "logit_bias": bias}
        answer = record(served, **body, response_format=JSON_SCHEMA)["choices"][0]
        calls = answer["message"].get("tool_calls")
        assert bool(calls) == (first == "<")
        assert fits(calls[0]["function"]["arguments"] if calls else answer["message"]["content"])
    body = {"messages": TALK, "tools": TOOLS, "max_tokens": 400, "seed": 1}
    required = record(served, **body, tool_choice="required", response_format=JSON_SCHEMA)["choices"][0]
    assert fits(required["message"]["tool_calls"][0]["function"]["arguments"])
    for form in ({"choices": ["the", "cat"]}, {"regex": "the|cat"}):
        answer = record(served, **body, **form)["choices"][0]["message"]
        assert answer.get("tool_calls") or answer["content"] in ("the", "cat")


def test_a_tool_may_have_null_for_parameters() -> None:
    [tool], _ = read_tools([{"type": "function", "function": {"name": "f", "parameters": None}}], None)
    assert tool.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a" * 65, "schema": {}}}},
            "response_format",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"not": {}}}}},
            "response_format",
        ),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": JSON_SCHEMA, "regex": "a"}, "response_format"),
        ({"tools": TOOLS, "grammar": 'start: "a"'}, "grammar"),
        ({"regex": "("}, "regex"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools"),
        ({"tools": [*TOOLS, *TOOLS]}, "tools"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "h"}}}, "tool_choice"),
        ({"choices": []}, "choices"),
        ({"tools": [{"type": "function", "function": {"name": "a", "parameters": []}}]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "a", "parameters": {"not": {}}}}]}, "tools"),
        ({"functions": [{"name": "a"}]}, "functions"),
    ],
    ids=str,
)
def test_what_cannot_be_enforced_is_refused(served: ServedModel, body: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as refused:
        record(served, messages=TALK, **body)
    assert (refused.value.status, refused.value.param) == (400, param)


@given(st.lists(st.integers(1, 9)), st.sampled_from(["call", "text", "cut", "two", "<table>"]))
def test_calls_are_read_alike_however_the_text_arrives(sizes: list[int], kind: str) -> None:
    tool = Tool("f", "", {})
    call = f'{tool.head}{{"a": "}} x", "b": true}}}}\n</tool_call>'
    text = {"call": call, "text": "hello", "cut": call[:60], "two": f"{call}\n{call}", "<table>": "<table> x"}[kind]
    whole = CallReader([tool])
    content, parts = whole.feed(text, is_last=True)
    reader, pieces, written, rest = CallReader([tool]), [], "", text
    for size in sizes:
        some, new = reader.feed(rest[:size], is_last=False)
        written, rest, pieces = written + some, rest[size:], pieces + new
    some, new = reader.feed(rest, is_last=True)
    calls = [one["function"] for one in joined_calls(parts)]
    assert (written + some, [one["function"] for one in joined_calls(pieces + new)]) == (content, calls)
    if kind == "call":  # cut anywhere after its arguments, it has no more than these
        for end in range(text.index("true}") + 5, len(text)):
            one = CallReader([tool])
            _, own = one.feed(text[:end], is_last=True)
            assert [call["function"]["arguments"] for call in joined_calls(own)] == [calls[0]["arguments"]]
        for end in range(1, len("<tool_call>")):
            assert CallReader([tool]).feed(text[:end], is_last=True) == ("", [])
    assert whole.calls == {"call": 1, "text": 0, "cut": 1, "two": 2, "<table>": 0}[kind]
    if kind in ("call", "two"):
        assert calls[0] == {"name": "f", "arguments": '{"a": "} x", "b": true}'}


def test_messages_are_told_of_tools() -> None:
    tools = read_tools(TOOLS, None).tools
    [system, user] = messages_with_tools(TALK, tools)
    assert user == TALK[0]
    assert system["role"] == "system"
    assert '"name": "gg"' in system["content"]
    [joined, _] = messages_with_tools([{"role": "system", "content": "Be brief."}, *TALK], tools)
    assert joined["content"].startswith("Be brief.\n\n")
    assert call_grammar(read_tools(TOOLS, "required"), several=True).count("%json") == 2
    with pytest.raises(SettingError, match="is not a tool call"):
        messages_with_tools([{"role": "assistant", "tool_calls": [{}]}], tools)
