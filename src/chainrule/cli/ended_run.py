"""A run that has ended and is asked for again with --resume: is it the same one?"""

from __future__ import annotations

from dataclasses import asdict
from json import dumps, loads
from typing import TYPE_CHECKING, Any

from chainrule.cli.screen import note, print_json, progress
from chainrule.errors import SettingError
from chainrule.training.resume_check import differences

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chainrule.text.corpus import Source
    from chainrule.text.tokenizer_config import TokenizerConfig


def say_that_it_has_ended(
    output: Path,
    family: str,
    network: dict[str, Any] | None,
    training: dict[str, Any],
    others: Callable[[dict[str, Any]], list[str]],
    *,
    json: bool,
) -> None:
    """Of a folder with a model, whose run would be gone on with.

    network: its settings now; None: `others` compares them. training: what is said of it. others: in words, what else
    differs from a model's record.
    Raises SettingError where the model came about otherwise, ModelFormatError where it is none.
    """
    from chainrule.storage.config_json import read_config
    from chainrule.training.folder import is_first_process

    entry = read_config(output)
    if entry.family != family:
        found = [f"family was {entry.family} and is {family}"]
    else:
        before = entry.record.get("training", {})
        said = {name: value for name, value in training.items() if name != "device"}  # the record has the one in use
        found = [] if network is None else differences(entry.settings.get("network", {}), network)
        found += differences({name: before.get(name) for name in said}, said)
        found += others(entry.record)
    if found:
        raise SettingError(
            f"{output}: the run has ended, with other settings: {'; '.join(found)}. Say --overwrite in place of "
            "--resume to replace its model, or choose another folder"
        )
    if is_first_process():
        note(f"the run has ended: {entry.record.get('steps', 0):,} steps; {output} is its model")
        if json:
            print_json({**entry.record, "model": str(output)})


def text_differences(before: dict[str, Any], source: Source, tokenizer: TokenizerConfig) -> list[str]:
    """What a model's text and tokenizer, by its record, differ in from those given, in words."""
    from chainrule.text.tokenizer_config import TokenizerConfig

    tokenizers = asdict(TokenizerConfig()) | before.get("tokenizer", {}), asdict(tokenizer)
    was, becomes = (loads(dumps(each)) for each in tokenizers)
    found = [f"the tokenizer's {each}" for each in differences(was, becomes)]
    with progress() as told:
        for _ in source.blocks(told, "comparing the text"):
            pass
    now = loads(dumps(source.record))
    for part in ("reading", "mix"):
        found += differences(before.get(part, {}), now.get(part, {}))
    return found + data_differences(before, now)


def data_differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Whether two records are of other files, whatever their names."""
    was, becomes = (list(each.get("data", {}).values()) for each in (before, loads(dumps(now))))
    return [] if was == becomes else ["the text is another one"]
