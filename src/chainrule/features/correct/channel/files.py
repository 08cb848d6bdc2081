"""JSON files of learned channels, of characters or of grammar: their rules, and how they were learned.

A field says of which kind and version a file is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.base.files import parse_json, read_file, replace_file
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.correct.channel.character_channel import CONFUSIONS, Channel, Rule, channel_named
from chainrule.features.correct.channel.english import english_channel
from chainrule.features.correct.channel.ready import CHANNELS, ENGLISH
from chainrule.features.correct.channel.word_channel import WordChannel, WordRule

if TYPE_CHECKING:
    from os import PathLike

    from chainrule.features.correct.channel.ready import ReadyChannel

_VERSION = 1


def write_object(path: Path, kind: str, content: dict[str, Any]) -> None:
    """Write an object of a kind, as JSON. Raises OutputError."""
    with replace_file(path) as file:
        file.write(json.dumps({kind: _VERSION, **content}, ensure_ascii=False, indent=0).encode() + b"\n")


def read_object(path: Path, kind: str, expected: str) -> dict[str, Any]:
    """Return the content of a file that `write_object` wrote.

    expected: what the file should be, for messages. Raises ModelFormatError, which names the file.
    """
    try:
        content = parse_json(read_file(path))
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be read: {error.strerror}; expected {expected}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"{path}: is not JSON ({error}); expected {expected}") from None
    if not isinstance(content, dict) or content.get(kind) != _VERSION:
        raise ModelFormatError(f"{path}: has no field {kind!r} with the value {_VERSION}; expected {expected}")
    return content


_KIND = "chainrule_channel"
_EXPECTED = "a channel written by chainrule train channel"


def write_channel(channel: Channel, path: Path, record: dict[str, Any]) -> None:
    """Write a channel to a file. Raises OutputError."""
    rules = [[rule.source, rule.observed, rule.prob] for rule in channel.rules]
    write_object(path, _KIND, {"name": channel.name, "record": record, "rules": rules})


def read_channel(path: Path) -> Channel:
    """Return the channel in a file. Raises ModelFormatError, which names the file and the rule."""
    content = read_object(path, _KIND, _EXPECTED)
    name, rules = content.get("name"), content.get("rules")
    if not isinstance(name, str) or not isinstance(rules, list) or not rules:
        raise ModelFormatError(f"{path}: name or rules are missing; expected {_EXPECTED}")
    try:
        return Channel(name, [_rule(rule, path, i) for i, rule in enumerate(rules)])
    except SettingError as error:
        raise ModelFormatError(f"{path}: {error}") from None


def channel_of(channel: ReadyChannel | Channel | PathLike[str], rate: float) -> Channel:
    """Return a channel by the name of a ready-made one, or from its file, or itself.

    rate: for a ready-made channel, the probability of an error at a character. Raises SettingError, ModelFormatError.
    """
    if isinstance(channel, Channel):
        return channel
    if isinstance(channel, str) and channel in CONFUSIONS:
        return channel_named(channel, rate)
    if channel == ENGLISH:
        return english_channel()
    if isinstance(channel, str) and not Path(channel).exists():
        raise SettingError(
            f"there is no channel called {channel!r}, nor a file; expected {', '.join(CHANNELS)} or a file"
        )
    return read_channel(Path(channel))


def _rule(rule: Any, path: Path, i: int) -> Rule:
    match rule:
        case [str(source), str(observed), float(prob)] if source:
            return Rule(source, observed, prob)
    raise ModelFormatError(f"{path}: rule {i + 1} is {str(rule)[:80]}; expected [meant, observed, probability]")


_GRAMMAR_KIND = "chainrule_grammar"
_EXPECTED_GRAMMAR = "a channel written by chainrule train channel --grammar"


def write_grammar(channel: WordChannel, path: Path, record: dict[str, Any]) -> None:
    """Write a channel of grammar to a file. Raises OutputError."""
    content = {
        "name": channel.name,
        "record": record,
        "inflected": channel.inflected,
        "uncapitalised": channel.uncapitalised,
        "rules": [list(rule) for rule in channel.rules],
    }
    write_object(path, _GRAMMAR_KIND, content)


def read_grammar(path: Path) -> WordChannel:
    """Return the channel of grammar in a file. Raises ModelFormatError, which names the file and the rule."""
    content = read_object(path, _GRAMMAR_KIND, _EXPECTED_GRAMMAR)
    rules, shares = content.get("rules"), [content.get("inflected"), content.get("uncapitalised")]
    if not isinstance(rules, list) or not all(type(share) in (int, float) for share in shares):
        raise ModelFormatError(f"{path}: rules, inflected or uncapitalised are missing; expected {_EXPECTED_GRAMMAR}")
    try:
        return WordChannel(
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
