"""Why a form cannot be enforced, and where in it: what the library llguidance says, as one line.

The library numbers lines of the grammar that it is given, which for a schema and a regular expression is one of ours.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_LONGEST = 300  # characters of a reason
_MOST_TRIED = 200  # parts of a schema that are looked into for the place of an error
_PLACE = re.compile(r"^(?:at )?(\d+)\((\d+)\): ")
_AFTER_SHOWN = re.compile(r'\s*\(at ".*', re.DOTALL)  # what stands there, once more
_OF_GBNF = re.compile(r"^(?P<reason>.*?) at line (?P<line>\d+), .*", re.DOTALL)
_SHOWN_INDENT = 4  # before a regular expression, above the marks under its error

# Keywords of JSON Schema with schemas in them: one; several by name; several in a list.
_ONE = ("items", "additionalProperties")
_BY_NAME = ("$defs", "definitions", "properties", "patternProperties")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
# What the library says, and what that means.
_WORDS: tuple[tuple[str, str], ...] = (
    (r"oneOf constraints are not supported.*", "alternatives of oneOf that a text may fit at once; take anyOf"),
    (r"Unsatisfiable schema: (.*)", r"no JSON fits it, since \1"),
    (r"Unknown format: (.*)", r"the format \1 is not known; leave it out, or give a pattern"),
    (r"Pointer '(.*)' does not exist", r"$ref names #\1, which is not there"),
    (r"Resource '(.*?)' is not present.*", r"$ref names \1, another document; put what it holds under $defs"),
    (r"Invalid type: (.*)", r"there is no type \1"),
    (r"lookarounds not supported yet.*", "word boundaries and look-around are not supported"),
    (r"lexer error", "what stands there begins nothing; is a quote missing?"),
    (r"no start rule found", "there is no rule named start"),
    (r"Unknown common regex: (.*?);.*", r"there is no \1 to import"),
    (r'failed to parse "%json": (.*?) at line .*', r"%json: \1"),
    (r"Expected token (.*), found .*", r"expected \1"),
)


def refusal(name: str, value: Any, said: str, try_schema: Callable[[Mapping[str, Any]], str]) -> str:
    """Return the message for a form. name: of the option. value: the form. said: by the library.

    try_schema: what the library says of another schema, empty if nothing.
    """
    reason, place = _reason(said), ""
    if name == "json_schema":
        place = _place_in_schema(value, reason, try_schema)
    elif name == "regex":
        place = _place_in_regex(value, said)
    elif name == "grammar" and "::=" not in value:
        found = _PLACE.match(said)
        place = "" if found is None else f"line {int(found[1]) - 1}, column {found[2]}"
    return f"{name} cannot be enforced: {reason}{f' ({place})' if place else ''}"


def gbnf_refusal(said: str) -> str:
    """Return the message for a grammar of GBNF that the library cannot read."""
    found = _OF_GBNF.match(said)
    reason, line = (said, "") if found is None else (found["reason"], f" (line {found['line']})")
    return f"grammar is not one of GBNF: {_one_line(reason)}{line}"


def plain(said: str) -> str:
    """Return the library's message without its excerpts: for errors that have no place in a form."""
    return _reason(said)


def _reason(said: str) -> str:
    """Return the library's reason without places and excerpts, in plain words."""
    said = _PLACE.sub("", said).removeprefix("failed to compile JSON schema: ")
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["unknown reason"]
    line = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[0])
    line = _AFTER_SHOWN.sub("", re.sub(r'^invalid regex ".*?" \(in regex\): ', "", line))
    if keys := re.fullmatch(r"Unimplemented keys: \[(.*)\]", line):
        names = keys[1].replace('"', "").split(", ")
        are = "s are" if len(names) > 1 else " is"
        line = f"{' and '.join(names)}: keyword{are} not supported"
    for pattern, words in _WORDS:
        if (matched := re.fullmatch(pattern, line)) is not None:
            return _one_line(matched.expand(words))
    return _one_line(line)


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _place_in_regex(regex: str, said: str) -> str:
    """Return where the library's marks point to, as the number of a character; nothing if it shows another
    expression.
    """
    lines = said.splitlines()
    for shown, marks in pairwise(lines):
        if shown[_SHOWN_INDENT:] == regex and set(marks.strip()) == {"^"}:
            return f"character {marks.index('^') - _SHOWN_INDENT + 1}"
    return ""


def _place_in_schema(schema: Mapping[str, Any], reason: str, try_schema: Callable[[Mapping[str, Any]], str]) -> str:
    """Return the innermost part of a schema that by itself is refused for the same reason; nothing for the schema
    itself.
    """
    shared = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    place, node, tried = "#", schema, 0
    while True:
        for name, part in _parts(node):
            tried += 1
            if tried > _MOST_TRIED or not isinstance(part, dict):
                continue
            if _reason(try_schema({**shared, **part})) == reason:
                place, node = f"{place}/{name}", part
                break
        else:
            return "" if node is schema else place


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the schemas in a schema, by their places in it."""
    for name in _BY_NAME:
        if isinstance(parts := schema.get(name), dict):
            yield from ((f"{name}/{own}", part) for own, part in parts.items())
    for name in _ONE:
        if name in schema:
            yield name, schema[name]
    for name in _LISTED:
        if isinstance(parts := schema.get(name), list | tuple):
            yield from ((f"{name}/{number}", part) for number, part in enumerate(parts))
