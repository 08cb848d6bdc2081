"""The tree of a beam search, as numbers, a drawing or a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.base.files import check_new_file, replace_file
from chainrule.errors import SettingError
from chainrule.report.beam_tree import compare_with_greedy, tree_json, tree_page, tree_svg

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from chainrule.decoding.search_tree import SearchTree

_DRAWN = {".html": tree_page, ".svg": tree_svg, ".json": tree_json}


@dataclass(frozen=True)
class BeamTree:
    """All that a beam search considered for one text. name: of a token."""

    title: str
    prompt: str
    tree: SearchTree
    name: Callable[[int], str]

    def __str__(self) -> str:
        """Where greedy search would have gone another way."""
        return compare_with_greedy(self.tree, self.name)

    def __repr__(self) -> str:
        return f"<BeamTree: {len(self.tree.nodes):,} hypotheses after {self.prompt!r}>"

    def _repr_html_(self) -> str:
        return tree_svg(self.title, self.prompt, self.tree, self.name)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes a page with a slider, .html, a drawing, .svg, or .json. Raises OutputError, SettingError."""
        target = Path(path)
        check_tree_file(target, overwrite=overwrite)
        with replace_file(target) as file:
            file.write(_DRAWN[target.suffix.lower()](self.title, self.prompt, self.tree, self.name).encode())


def check_tree_file(path: Path, *, overwrite: bool) -> None:
    """Checks, before the search, that its tree may be written. Raises OutputError, SettingError."""
    check_new_file(path, overwrite=overwrite)
    if path.suffix.lower() not in _DRAWN:
        raise SettingError(f"{path}: the name of a tree's file ends in .json, .svg or .html")
