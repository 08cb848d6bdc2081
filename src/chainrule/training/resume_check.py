"""Whether a run may go on from a checkpoint: settings and texts must be equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import OutputError, SettingError

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.training.checkpoint import Checkpoints, Opened
    from chainrule.training.options import TrainingRun

# No number of the model depends on these, so that a run may go on with others.
WITHOUT_EFFECT = frozenset({"save_every", "tensorboard"})


def open_checkpoint(checkpoints: Checkpoints | None, run: TrainingRun) -> Opened | None:
    """What a run goes on from; None where it begins. Raises OutputError where it may do neither; ModelFormatError."""
    if checkpoints is None or not checkpoints.exist():
        return None
    if run.resume:
        return checkpoints.open()
    if not run.overwrite:
        raise OutputError(
            f"{run.folder}: there is an unfinished run; use resume=True to go on with it, or overwrite=True to "
            "begin anew"
        )
    return None


def check_same(folder: Path | None, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raises SettingError that names what differs in two runs' settings of network, training and text."""
    families = [settings.get("text", {}).get("family") for settings in (before, now)]
    if families[0] != families[1]:
        raise SettingError(
            f"{folder}: the checkpoint is of family {families[0]}, not {families[1]}; choose another folder"
        )
    different = [text for part in ("network", "training") for text in differences(before.get(part, {}), now[part])]
    different += text_differences(before.get("text", {}), now["text"])
    if different:
        raise SettingError(
            f"{folder}: cannot go on with other settings: {'; '.join(different)}. Say them as before, or begin anew "
            "with overwrite=True in place of resume=True"
        )


def differences(before: dict[str, object], now: dict[str, object]) -> list[str]:
    """What two runs' settings differ in, in words, but for what has no effect."""
    names = [name for name in {**before, **now} if name not in WITHOUT_EFFECT]
    return [
        f"{name} was {before.get(name)} and is {now.get(name)}" for name in names if before.get(name) != now.get(name)
    ]


def text_differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The same for what two runs know of their texts, whose ids and sizes say more than their digests do."""
    digested = ("ids", "tokens", "vocabulary", "validation", "validation_tokens")
    different = differences(
        {name: value for name, value in before.items() if name not in digested},
        {name: value for name, value in now.items() if name not in digested},
    )
    if not different and before.get("ids") != now["ids"]:
        different.append(f"the text is another one ({before.get('tokens', 0):,} tokens, now {now['tokens']:,})")
    if not different and before.get("validation") != now["validation"]:
        was, becomes = (f"{text.get('validation_tokens') or 0:,}" for text in (before, now))
        different.append(f"the text to validate on is another one ({was} tokens, now {becomes})")
    return different
