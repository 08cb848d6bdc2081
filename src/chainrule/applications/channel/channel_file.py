"""Reads and writes a learned channel as a JSON file: its rules, and how it was learned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.applications.channel.channel import Channel, Rule
from chainrule.applications.channel.confusions import CONFUSIONS, channel_named
from chainrule.applications.channel.json_file import read_object, write_object
from chainrule.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from os import PathLike

    from chainrule.applications.channel.confusions import Confusions

_KIND = "chainrule_channel"
_EXPECTED = "a channel written by chainrule train channel"


def write_channel(channel: Channel, path: Path, record: dict[str, Any]) -> None:
    """Raises OutputError."""
    rules = [[rule.source, rule.observed, rule.prob] for rule in channel.rules]
    write_object(path, _KIND, {"name": channel.name, "record": record, "rules": rules})


def read_channel(path: Path) -> Channel:
    """Raises ModelFormatError, which names the file and the rule."""
    content = read_object(path, _KIND, _EXPECTED)
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
