"""Trees as texts of tokens, from the root down; where such a text stands; and files of trees as such a text.

( saw She -HEAD- ( man the -HEAD- ) )     a node with children: its head, then them; -HEAD- is where its word stands
( NP ( DT the ) ( NN man ) )              of constituents, the head is the label; a word without children has no bracket

Every token depends on what is above it and left of it in the tree, so this is the order of a top-down language model.
A ParserState says what may come next, and what is open. In a Treebank, a tree is a document: language models of trees
are trained and measured on it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.arguments import as_paths
from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.features.trees.structures.tree_files import ESCAPES, read_unlabelled
from chainrule.protocol import END
from chainrule.text.corpus.block import Block, byte_array
from chainrule.text.corpus.streams import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.features.trees.structures.tree import Tree
    from chainrule.text.corpus.corpus import Paths

OPEN, CLOSE, HEAD = "(", ")", "-HEAD-"


class Action(IntEnum):
    """What may come next in a text, so that it stays a tree."""

    BEGIN = 0  # a word, or ( and a node with children
    HEAD = 1  # the head of a node that was opened
    FIRST = 2  # a child: a node that was opened has one at least
    MORE = 3  # a child, or )
    COMPLETE = 4  # the end of the text


class OpenBracket(NamedTuple):
    """An open bracket: the state before it, its head's token (-1 if it comes next), and the bracket around it."""

    before: Any
    head: int
    around: OpenBracket | None


class ParserState(NamedTuple):
    """The state of a text. opened: the innermost open bracket."""

    turn: Action = Action.BEGIN
    opened: OpenBracket | None = None


class Brackets(NamedTuple):
    """The tokens of ( and )."""

    open: int
    close: int


def step(place: ParserState, token: int, before: Any, brackets: Brackets) -> tuple[ParserState, OpenBracket | None]:
    """Return the state after a token, and the bracket that it closes.

    before: the value that an opening bracket keeps for the text before it. A token that may not come next is read as a
    word.
    """
    turn, opened = place
    if token == END:
        return ParserState(), None
    if turn == Action.HEAD:
        assert opened is not None
        return ParserState(Action.FIRST, opened._replace(head=token)), None
    if token == brackets.open:
        return ParserState(Action.HEAD, OpenBracket(before, -1, opened)), None
    closed = opened if token == brackets.close else None
    around = opened if closed is None else closed.around
    return ParserState(Action.MORE if around else Action.COMPLETE, around), closed


class TreeSteps(NamedTuple):
    """A text as a network reads it: a state before it, then one after each token.

    tokens: the token read at each state, </s> first. before: the state that each continues from; -1 for none. heads: at
    a closing bracket, the head of its node, else -1. turns: what may come after each state. levels: how many states are
    before each.
    """

    tokens: Int64[ndarray, " states"]
    before: Int64[ndarray, " states"]
    heads: Int64[ndarray, " states"]
    turns: Int64[ndarray, " states"]
    levels: Int64[ndarray, " states"]


def tree_steps(tokens: Int32[ndarray, " T"], brackets: Brackets) -> TreeSteps:
    """Return the states of a text; a closing bracket continues from the state before the opening one, and reads its
    node's head.
    """
    states = len(tokens) + 1
    read = np.concatenate([[END], tokens]).astype(np.int64)
    before, heads = np.arange(-1, states - 1), np.full(states, -1)
    turns, levels = np.zeros(states, np.int64), np.zeros(states, np.int64)
    place = ParserState()
    for i, token in enumerate(tokens.tolist()):
        place, closed = step(place, token, i, brackets)
        if closed is not None:
            before[i + 1], heads[i + 1] = closed.before, closed.head
        elif token == END:
            before[i + 1] = -1
        turns[i + 1] = place.turn
        levels[i + 1] = 0 if before[i + 1] < 0 else levels[before[i + 1]] + 1
    return TreeSteps(read, before, heads, turns, levels)


def check_is_tree(tokens: Int32[ndarray, " T"], steps: TreeSteps, brackets: Brackets, place: str) -> None:
    """Raise TextError where tokens are no tree."""
    turns = steps.turns[:-1]
    is_open, is_close = tokens == brackets.open, tokens == brackets.close
    odd = (is_close & (turns != Action.MORE)) | (is_open & (turns == Action.HEAD)) | (turns == Action.COMPLETE)
    if odd.any():
        at = int(np.flatnonzero(odd)[0])
        found = "(" if is_open[at] else ")" if is_close[at] else "a word"
        expected = {Action.HEAD: "a head", Action.COMPLETE: "the end of the text"}.get(
            Action(int(turns[at])), "a child"
        )
        raise TextError(f"{place}: token {at + 1} is {found}; expected {expected}: every text is one tree, in brackets")
    if steps.turns[-1] != Action.COMPLETE:
        raise TextError(f"{place}: the tree is not complete; a bracket is left open")


class TreeToken(NamedTuple):
    """A token of a tree's text, the node that it belongs to, and whether it is that node's word or label."""

    text: str
    node: int
    is_word: bool


def tree_tokens(tree: Tree) -> list[TreeToken]:
    """Return a tree from the root down; of words with children, -HEAD- stands at their place."""
    tokens: list[TreeToken] = []
    todo: list[TreeToken | int] = [tree.root]
    while todo:
        here = todo.pop()
        if isinstance(here, TreeToken):
            tokens.append(here)
            continue
        children, word = tree.children[here], tree.words[here]
        if not children:
            tokens.append(TreeToken(_symbol(word), here, is_word=True))
            continue
        ordered: list[TreeToken | int] = [*children]
        if word is not None:
            ordered.insert(sum(child < here for child in children), TreeToken(HEAD, here, is_word=False))
        head = tree.labels[here] if word is None else word
        tokens += [TreeToken(OPEN, here, is_word=False), TreeToken(_symbol(head), here, is_word=True)]
        todo += [TreeToken(CLOSE, here, is_word=False), *reversed(ordered)]
    return tokens


def tree_text(tree: Tree) -> str:
    """Return the tokens of a tree, with single spaces between."""
    return " ".join(token.text for token in tree_tokens(tree))


def words_of(tokens: Sequence[str]) -> list[str]:
    """Return the tokens of a text that are neither brackets nor marks of places."""
    return [token for token in tokens if token not in (OPEN, CLOSE, HEAD)]


def _symbol(word: str | None) -> str:
    """Return a word or label as one token, which is no bracket."""
    if not word:
        return "_"
    return ESCAPES.get(word, word).replace(" ", "\u00a0")


@dataclass
class Treebank:
    """A Source of trees, in brackets, CoNLL-U or JSON lines; see `tree_text` for what each becomes.

    good:  chainrule.train(chainrule.Treebank.of("train.conllu"), chainrule.TreeConfig(), tokenizer="whitespace")
    """

    sources: tuple[str, ...]
    digests: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, sources: Paths) -> Treebank:
        """Return the trees of some files."""
        return cls(tuple(as_paths(sources)))

    @property
    def files(self) -> tuple[tuple[str, ...], ...]:
        """The files of each source: itself."""
        return tuple((name,) for name in self.sources)

    @property
    def paths(self) -> list[str]:
        """Its files, without standard input."""
        return [name for name in self.sources if name != STANDARD_INPUT]

    @property
    def record(self) -> dict[str, Any]:
        """As `Source.record`."""
        return {"data": dict(self.digests), "reading": {"document": "tree"}}

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """Yield blocks as `Source.blocks` does, one for each file.

        Raises TextError where a tree cannot be read, or a file has none.
        """
        for done, name in enumerate(self.sources):
            progress(task, done, len(self.sources))
            text = "".join(tree_text(tree) + "\n" for tree in read_unlabelled(name)).encode("utf-8", "replace")
            self.digests[name] = hashlib.sha256(text).hexdigest()
            yield Block(byte_array(text), name, 1, unit="tree")

    def blocks_as_they_come(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """Return the blocks of `blocks`."""
        return self.blocks(progress, task)
