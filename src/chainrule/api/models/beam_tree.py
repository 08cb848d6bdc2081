"""The tree of a beam search, as numbers, a drawing or a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.base.files import check_new_file, replace_file
from chainrule.errors import SettingError
from chainrule.protocol import END
from chainrule.report.beam_tree import compare_with_greedy, tree_json, tree_page, tree_svg

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from chainrule.decoding.beam import SearchTree
    from chainrule.text.tokenization.tokenizer import Tokenizer

_SUFFIXES = (".html", ".svg", ".json")


@dataclass(frozen=True)
class BeamTree:
    """All that a beam search considered for one text."""

    title: str
    prompt: str
    tree: SearchTree
    tokenizer: Tokenizer

    def __str__(self) -> str:
        """Where greedy search would have gone another way."""
        return compare_with_greedy(self.tree, self._name)

    def __repr__(self) -> str:
        return f"<BeamTree: {len(self.tree.nodes):,} hypotheses after {self.prompt!r}>"

    def _repr_html_(self) -> str:
        return tree_svg(self.title, self.prompt, self.tree, self._name)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes a page with a slider, .html, a drawing, .svg, or .json. Raises OutputError, SettingError."""
        target = Path(path)
        check_tree_file(target, overwrite=overwrite)
        with replace_file(target) as file:
            file.write(self._drawn(target.suffix.lower()).encode())

    def _drawn(self, suffix: str) -> str:
        if suffix == ".json":
            return tree_json(self.title, self.prompt, self.tree, self.tokenizer.vocabulary.token)
        if suffix == ".svg":
            return tree_svg(self.title, self.prompt, self.tree, self._name)
        return tree_page(self.title, self.prompt, self.tree, self._name, self._text)

    def _name(self, token: int) -> str:
        shown = self.tokenizer.shown([token])[0]
        return shown.strip() or shown

    def _text(self, tokens: Sequence[int]) -> str:
        ended = tokens[-1] == END
        text = self.tokenizer.decode(tokens[: len(tokens) - ended])
        return f"{text} </s>" if ended else text


def check_tree_file(path: Path, *, overwrite: bool) -> None:
    """Checks, before the search, that its tree may be written. Raises OutputError, SettingError."""
    check_new_file(path, overwrite=overwrite)
    if path.suffix.lower() not in _SUFFIXES:
        raise SettingError(f"{path}: the name of a tree's file ends in .json, .svg or .html")
