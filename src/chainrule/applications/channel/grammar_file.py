"""A learned channel of grammar as a JSON file: its rules, and how it was learned."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from chainrule.applications.channel.grammar import GrammarChannel, WordRule
from chainrule.base.files import replace_file
from chainrule.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = 1
_WHAT = "a channel written by chainrule train channel --grammar"


def write_grammar(channel: GrammarChannel, path: Path, record: dict[str, Any]) -> None:
    """Raises OutputError."""
    content = {
        "chainrule_grammar": _VERSION,
        "name": channel.name,
        "record": record,
        "inflected": channel.inflected,
        "uncapitalised": channel.uncapitalised,
        "rules": [list(rule) for rule in channel.rules],
    }
    with replace_file(path) as file:
        file.write(json.dumps(content, ensure_ascii=False, indent=0).encode() + b"\n")


def read_grammar(path: Path) -> GrammarChannel:
    """Raises ModelFormatError, which names the file and the rule."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be read: {error.strerror}; expected {_WHAT}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"{path}: no JSON ({error}); expected {_WHAT}") from None
    if not isinstance(content, dict) or content.get("chainrule_grammar") != _VERSION:
        raise ModelFormatError(f"{path}: no channel of grammar of version {_VERSION}; expected {_WHAT}")
    rules, shares = content.get("rules"), [content.get("inflected"), content.get("uncapitalised")]
    if not isinstance(rules, list) or not all(type(share) in (int, float) for share in shares):
        raise ModelFormatError(f"{path}: rules, inflected or uncapitalised are missing; expected {_WHAT}")
    try:
        return GrammarChannel(
            str(content.get("name")),
            tuple(_rule(rule, path, i) for i, rule in enumerate(rules)),
            *(float(share) for share in shares if share is not None),
        )
    except SettingError as error:
        raise ModelFormatError(f"{path}: {error}") from None


def _rule(rule: Any, path: Path, i: int) -> WordRule:
    match rule:
        case [str(meant), str(written), float(prob)]:
            return WordRule(meant, written, prob)
    raise ModelFormatError(f"{path}: rule {i + 1} is {str(rule)[:80]}; expected [meant, written, probability]")
