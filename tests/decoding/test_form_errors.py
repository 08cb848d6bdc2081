"""What is refused of a form is one line of ours, which says where in the schema, expression or grammar it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

import chainrule
from chainrule.decoding.config import Limits
from chainrule.decoding.form import form_of
from chainrule.errors import SettingError

_ITEMS = {"type": "object", "properties": {"a": {"type": "array", "items": {"uniqueItems": True}}}}
_SHARED = {"$defs": {"b": {"type": "string", "format": "odd"}}, "properties": {"c": {"$ref": "#/$defs/b"}}}
_CHOICE = {"anyOf": [{"type": "string"}, {"type": "string", "minLength": 5, "maxLength": 1}], "type": "object"}


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"json_schema": {"not": {}}}, "json_schema cannot be enforced: not: keyword is not supported"),
        (
            {"json_schema": {"if": {}, "then": {}}},
            "json_schema cannot be enforced: if and then: keywords are not supported",
        ),
        (
            {"json_schema": _ITEMS},
            "json_schema cannot be enforced: uniqueItems: keyword is not supported (#/properties/a/items)",
        ),
        (
            {"json_schema": {"type": "array", "items": {"type": "nothing"}}},
            "json_schema cannot be enforced: there is no type nothing (#/items)",
        ),
        (
            {"json_schema": _SHARED},
            "json_schema cannot be enforced: the format odd is not known; leave it out, or give a pattern (#/$defs/b)",
        ),
        (
            {"json_schema": {"properties": {"a": {"$ref": "#/$defs/x"}}}},
            "json_schema cannot be enforced: $ref names #/$defs/x, which is not there (#/properties/a)",
        ),
        (
            {"json_schema": {"$ref": "http://x.org/a.json"}},
            "json_schema cannot be enforced: $ref names http://x.org/a.json, another document; put what it holds under "
            "$defs",
        ),
        (
            {"json_schema": {"type": "integer", "minimum": 5, "maximum": 1}},
            "json_schema cannot be enforced: no JSON fits it, since minimum (5) is greater than maximum (1)",
        ),
        (
            {"json_schema": {"prefixItems": [{"type": "string"}, {"type": "string", "pattern": "a(b"}]}},
            "json_schema cannot be enforced: unclosed group (#/prefixItems/1)",
        ),
        (
            {"json_schema": {"oneOf": [{"type": "string"}, {"type": "string", "minLength": 1}]}},
            "json_schema cannot be enforced: alternatives of oneOf that a text may fit at once; take anyOf",
        ),
        ({"regex": "(?<x>a)\\1"}, "regex cannot be enforced: backreferences are not supported (character 8)"),
        ({"regex": "\\b"}, "regex cannot be enforced: word boundaries and look-around are not supported"),
        ({"grammar": "start: a\na: b"}, 'grammar cannot be enforced: unknown name: "b" (line 2, column 4)'),
        (
            {"grammar": 'start: "a'},
            "grammar cannot be enforced: nothing in this form begins so; is a quote missing? (line 1, column 10)",
        ),
        ({"grammar": 'a: "a"'}, "grammar cannot be enforced: there is no rule named start"),
        ({"grammar": "start: /a(/"}, "grammar cannot be enforced: unclosed group (line 1, column 8)"),
        ({"grammar": "%import x\nstart: x"}, "grammar cannot be enforced: there is no x to import (line 1, column 1)"),
        ({"grammar": "root ::= foo"}, "grammar is not one of GBNF: Rule 'foo' not found"),
        ({"grammar": 'root ::= "a" )'}, None),
        ({"json_schema": {"properties": {"a": {"enum": 3}}}}, "enum must be an array"),
    ],
)
def test_an_error_says_where_it_is(limits: dict[str, Any], message: str | None) -> None:
    model = chainrule.train(chainrule.Lines(["abc"] * 5), chainrule.NGramConfig(order=2), tokenizer="byte")
    with pytest.raises(SettingError) as raised:
        form_of(Limits(**limits), model.tokenizer, "")
    found = str(raised.value)
    assert "\n" not in found
    assert "guidance" not in found
    assert "compile" not in found
    if message is not None:
        assert message == found or message in found


def test_a_schema_of_thousands_of_parts_is_refused_soon() -> None:
    """The place is looked for in some hundred of them."""
    properties = {f"p{number}": {"type": "string"} for number in range(3000)} | {"last": {"not": {}}}
    model = chainrule.train(chainrule.Lines(["abc"] * 5), chainrule.NGramConfig(order=2), tokenizer="byte")
    with pytest.raises(SettingError, match="not: keyword is not supported"):
        form_of(Limits(json_schema=json.loads(json.dumps({"properties": properties}))), model.tokenizer, "")
