"""Reads and writes a learned channel as a JSON file: its rules, and how it was learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.applications.channel.channel import Channel, Rule
from chainrule.applications.channel.confusions import CONFUSIONS, channel_named
from chainrule.base.files import replace_file
from chainrule.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from os import PathLike

    from chainrule.applications.channel.confusions import Confusions

_VERSION = 1
_EXPECTED = "a channel written by chainrule train channel"


def write_channel(channel: Channel, path: Path, record: dict[str, Any]) -> None:
    """Raises OutputError."""
    rules = [[rule.source, rule.observed, rule.prob] for rule in channel.rules]
    content = {"chainrule_channel": _VERSION, "name": channel.name, "record": record, "rules": rules}
    with replace_file(path) as file:
        file.write(json.dumps(content, ensure_ascii=False, indent=0).encode() + b"\n")


def read_channel(path: Path) -> Channel:
    """Raises ModelFormatError, which names the file and the rule."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be read: {error.strerror}; expected {_EXPECTED}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"{path}: is not JSON ({error}); expected {_EXPECTED}") from None
    if not isinstance(content, dict) or content.get("chainrule_channel") != _VERSION:
        raise ModelFormatError(f"{path}: is not a channel of version {_VERSION}; expected {_EXPECTED}")
    name, rules = content.get("name"), content.get("rules")
    if not isinstance(name, str) or not isinstance(rules, list) or not rules:
        raise ModelFormatError(f"{path}: name or rules are missing; expected {_EXPECTED}")
    try:
        return Channel(name, [_rule(rule, path, i) for i, rule in enumerate(rules)])
    except SettingError as error:
        raise ModelFormatError(f"{path}: {error}") from None


def channel_of(channel: Confusions | Channel | PathLike[str], rate: float) -> Channel:
    """A channel by the name of a ready-made one, or from its file, or itself.

    rate: of errors at a character, of a ready-made one. Raises SettingError, ModelFormatError.
    """
    if isinstance(channel, Channel):
        return channel
    if isinstance(channel, str) and channel in CONFUSIONS:
        return channel_named(channel, rate)
    if isinstance(channel, str) and not Path(channel).exists():
        raise SettingError(
            f"there is no channel called {channel!r}, nor a file; expected {', '.join(CONFUSIONS)} or a file"
        )
    return read_channel(Path(channel))


def _rule(rule: Any, path: Path, i: int) -> Rule:
    match rule:
        case [str(source), str(observed), float(prob)] if source:
            return Rule(source, observed, prob)
    raise ModelFormatError(f"{path}: rule {i + 1} is {str(rule)[:80]}; expected [meant, observed, probability]")
