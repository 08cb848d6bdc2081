"""Files of trees as a text, a tree a document: what a language model of trees is trained and measured on."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chainrule.base.progress import Progress, silent
from chainrule.structures.read_trees import read_unlabelled
from chainrule.structures.tree_text import tree_text
from chainrule.text.block import Block, byte_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.text.corpus import Paths


@dataclass
class Treebank:
    """A Source of trees, in brackets, CoNLL-U or JSON lines; see `tree_text` for what each becomes.

    good:  chainrule.train(chainrule.Treebank.of("train.conllu"), chainrule.TreeConfig(), tokenizer="whitespace")
    """

    sources: tuple[str, ...]
    digests: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, sources: Paths) -> Treebank:
        """The trees of some files."""
        if isinstance(sources, str | os.PathLike):
            sources = [sources]
        return cls(tuple(os.fspath(source) for source in sources))

    @property
    def files(self) -> tuple[tuple[str, ...], ...]:
        """The files of each source: itself."""
        return tuple((name,) for name in self.sources)

    @property
    def record(self) -> dict[str, Any]:
        """As `Source.record`."""
        return {"data": dict(self.digests), "reading": {"document": "tree"}}

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """As `Source.blocks`, one for each file. Raises TextError where a tree cannot be read, or a file has none."""
        for done, name in enumerate(self.sources):
            progress(task, done, len(self.sources))
            text = "".join(tree_text(tree) + "\n" for tree in read_unlabelled(name)).encode("utf-8", "replace")
            self.digests[name] = hashlib.sha256(text).hexdigest()
            yield Block(byte_array(text), name, 1, unit="tree")

    def blocks_as_they_come(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """As `blocks`."""
        return self.blocks(progress, task)
