"""What `chainrule mix --dynamic` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.cli.shared.options import Flags, given_settings
from chainrule.cli.shared.parts import Part
from chainrule.errors import SettingError
from chainrule.models.config import LearningOptions

if TYPE_CHECKING:
    from collections.abc import Sequence


def _learning(flags: Any, models: Sequence[Any], *, names: Sequence[str], **_: Any) -> list[Any]:
    """Return the models, of which the networks learn as they read. Raises SettingError if there are none."""
    from chainrule.models.language_models import CausalNetwork

    if not any(isinstance(model, CausalNetwork) for model in models):
        raise SettingError(f"dynamic is for networks, and {', '.join(names)} is none; leave it out")
    learning = {name: value for name, value in given_settings(flags).items() if name != "dynamic"}
    return [model.dynamic(**learning) if isinstance(model, CausalNetwork) else model for model in models]


MIX = Part(Flags[LearningOptions], _learning)
