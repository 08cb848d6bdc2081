"""What `chainrule mix --dynamic` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.cli.shared.options import Flags, given_settings
from chainrule.cli.shared.parts import Part
from chainrule.features.dynamic.family import LEARNS
from chainrule.models.config import LearningOptions

if TYPE_CHECKING:
    from collections.abc import Sequence


def _learning(flags: Any, models: Sequence[Any], *, names: Sequence[str], **_: Any) -> list[Any]:
    """Return the models, of which the networks learn as they read. Raises SettingError if there are none."""
    from chainrule.features.context.wrapped import networks_among

    are_networks = networks_among(models, names, LEARNS)
    learning = {name: value for name, value in given_settings(flags).items() if name != "dynamic"}
    return [model.dynamic(**learning) if own else model for model, own in zip(models, are_networks, strict=True)]


MIX = Part(Flags[LearningOptions], _learning)
