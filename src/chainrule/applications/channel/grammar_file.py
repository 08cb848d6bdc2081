"""A learned channel of grammar as a JSON file: its rules, and how it was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.applications.channel.grammar import GrammarChannel, WordRule
from chainrule.applications.channel.json_file import read_object, write_object
from chainrule.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from pathlib import Path

_GRAMMAR_KIND = "chainrule_grammar"
_EXPECTED_GRAMMAR = "a channel written by chainrule train channel --grammar"


def write_grammar(channel: GrammarChannel, path: Path, record: dict[str, Any]) -> None:
    """Raises OutputError."""
    content = {
        "name": channel.name,
        "record": record,
        "inflected": channel.inflected,
        "uncapitalised": channel.uncapitalised,
        "rules": [list(rule) for rule in channel.rules],
    }
    write_object(path, _GRAMMAR_KIND, content)


def read_grammar(path: Path) -> GrammarChannel:
    """Raises ModelFormatError, which names the file and the rule."""
    content = read_object(path, _GRAMMAR_KIND, _EXPECTED_GRAMMAR)
    rules, shares = content.get("rules"), [content.get("inflected"), content.get("uncapitalised")]
    if not isinstance(rules, list) or not all(type(share) in (int, float) for share in shares):
        raise ModelFormatError(f"{path}: rules, inflected or uncapitalised are missing; expected {_EXPECTED_GRAMMAR}")
    try:
        return GrammarChannel(
            str(content.get("name")),
            tuple(_word_rule(rule, path, i) for i, rule in enumerate(rules)),
            *(float(share) for share in shares if share is not None),
        )
    except (SettingError, OverflowError) as error:
        raise ModelFormatError(f"{path}: {error}") from None


def _word_rule(rule: Any, path: Path, i: int) -> WordRule:
    match rule:
        case [str(meant), str(written), float(prob)]:
            return WordRule(meant, written, prob)
    raise ModelFormatError(f"{path}: rule {i + 1} is {str(rule)[:80]}; expected [meant, written, probability]")
