"""How settings differ."""

from __future__ import annotations

# The model does not depend on these, so a resumed run may change them.
WITHOUT_EFFECT = frozenset({"save_every", "tensorboard", "recompute", "shard"})


def differences(before: dict[str, object], now: dict[str, object]) -> list[str]:
    """The differences between two runs' settings, in words, except for settings without effect."""
    names = [name for name in {**before, **now} if name not in WITHOUT_EFFECT]
    return [
        f"{name} was {_shown(before.get(name))} and is {_shown(now.get(name))}"
        for name in names
        if _as_json(before.get(name)) != _as_json(now.get(name))
    ]


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)


def _as_json(value: object) -> object:
    """Tuples as the lists that they are in a record."""
    if isinstance(value, dict):
        return {key: _as_json(own) for key, own in value.items()}
    return [_as_json(own) for own in value] if isinstance(value, tuple | list) else value
