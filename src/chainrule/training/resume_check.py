"""Whether a run may go on from a checkpoint: settings and texts that must be equal."""

from __future__ import annotations

from typing import Any

# No number of the model depends on these, so that a run may go on with others.
WITHOUT_EFFECT = frozenset({"save_every", "tensorboard"})


def differences(before: dict[str, object], now: dict[str, object]) -> list[str]:
    """What two runs' settings differ in, in words, but for what has no effect."""
    names = [name for name in {**before, **now} if name not in WITHOUT_EFFECT]
    return [
        f"{name} was {before.get(name)} and is {now.get(name)}" for name in names if before.get(name) != now.get(name)
    ]


def text_differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The same for what two runs know of their texts, whose ids and sizes say more than their digests do."""
    digested = ("ids", "tokens", "vocabulary", "validation", "validation_tokens")
    found = differences(
        {name: value for name, value in before.items() if name not in digested},
        {name: value for name, value in now.items() if name not in digested},
    )
    if not found and before.get("ids") != now["ids"]:
        found.append(f"the text is another one ({before.get('tokens', 0):,} tokens, now {now['tokens']:,})")
    if not found and before.get("validation") != now["validation"]:
        was, becomes = (f"{each.get('validation_tokens') or 0:,}" for each in (before, now))
        found.append(f"the text to validate on is another one ({was} tokens, now {becomes})")
    return found
