"""Checks that a run may resume from a checkpoint: settings and texts must be the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import OutputError, SettingError
from chainrule.training.settings_differences import differences

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.training.checkpoint import Checkpoints, OpenedCheckpoint
    from chainrule.training.options import TrainingRun


def open_checkpoint(checkpoints: Checkpoints | None, run: TrainingRun) -> OpenedCheckpoint | None:
    """The checkpoint to resume from; None for a new run. Raises OutputError if neither is allowed; ModelFormatError."""
    if checkpoints is None or not checkpoints.exist():
        return None
    if run.resume:
        return checkpoints.open()
    if not run.overwrite:
        raise OutputError(
            f"{run.folder}: an unfinished run is there; continue it with resume=True, or start over with overwrite=True"
        )
    return None


def check_same(folder: Path | None, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raises SettingError that names the differences between two runs' settings of network, training and text."""
    families = [settings.get("text", {}).get("family") for settings in (before, now)]
    if families[0] != families[1]:
        raise SettingError(
            f"{folder}: the checkpoint is of family {families[0]}, not {families[1]}; choose another folder"
        )
    different = [text for part in ("network", "training") for text in differences(before.get(part, {}), now[part])]
    different += text_differences(before.get("text", {}), now["text"])
    if different:
        raise SettingError(
            f"{folder}: cannot resume with other settings: {'; '.join(different)}. Set them as before, or start over "
            "with overwrite=True in place of resume=True"
        )


def text_differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The differences between the texts of two runs: their settings first, then their contents."""
    digested = ("ids", "tokens", "vocabulary", "validation", "validation_tokens")
    different = differences(
        {name: value for name, value in before.items() if name not in digested},
        {name: value for name, value in now.items() if name not in digested},
    )
    if not different and before.get("ids") != now["ids"]:
        different.append(f"the text has changed ({before.get('tokens', 0):,} tokens, now {now['tokens']:,})")
    if not different and before.get("validation") != now["validation"]:
        was, becomes = (f"{text.get('validation_tokens') or 0:,}" for text in (before, now))
        different.append(f"the validation text has changed ({was} tokens, now {becomes})")
    return different
