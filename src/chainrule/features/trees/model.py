"""TreeLanguageModel: a language model whose texts are trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.errors import SettingError
from chainrule.models.language_models import CausalModel

if TYPE_CHECKING:
    from chainrule.features.trees.draw_trees import TreeDrawings


class TreeLanguageModel(CausalModel):
    """P(tree), from the root down."""

    def attention(self, source: str, target: str | None = None) -> TreeDrawings:
        """The bits of each node of a tree in brackets, or of a file of trees. Raises SettingError, TextError."""
        from chainrule.features.trees.draw_trees import draw_trees

        if target is not None:
            raise SettingError(f"reads one tree; leave out the target, {target!r}")
        return draw_trees(self, source)
