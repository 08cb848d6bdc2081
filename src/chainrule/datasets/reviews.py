"""Reviews with the opinion of each phrase, as trees: good and bad words, turned by `not`, and outweighed after `but`.

A bag of words cannot tell `good , but not funny` from `not good , but funny`; whoever reads in order can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chainrule.datasets.chance import Chance

POSITIVE, NEGATIVE, NEUTRAL = "positive", "negative", "neutral"
GOOD = ("good", "great", "funny", "moving", "clever", "beautiful")
BAD = ("bad", "dull", "silly", "slow", "weak", "ugly")
_ARTICLES, _THINGS = ("the", "this"), ("film", "movie", "book", "story", "play", "plot")
_DEGREES = ("very", "really", "rather")


class Node(NamedTuple):
    """A phrase with its label: of a word, or of the phrases that it consists of."""

    label: str
    word: str = ""
    children: tuple[Node, ...] = ()

    def text(self) -> str:
        return self.word or " ".join(child.text() for child in self.children)

    def brackets(self) -> str:
        """As a treebank writes it: (positive (neutral very) (positive good))."""
        return f"({self.label} {self.word or ' '.join(child.brackets() for child in self.children)})"


def review(chance: Chance) -> Node:
    """A random review; the label of the whole is positive or negative."""
    subject = _joined(NEUTRAL, _neutral(chance.choice(_ARTICLES)), _neutral(chance.choice(_THINGS)))
    opinion = _opinion(chance)
    if chance.below(2):
        later = _opinion(chance)
        opinion = _joined(later.label, opinion, _neutral(","), _neutral("but"), later)
    return _joined(opinion.label, subject, _joined(opinion.label, _neutral("was"), opinion))


def _opinion(chance: Chance) -> Node:
    is_good = chance.below(2) == 0
    opinion = Node(POSITIVE if is_good else NEGATIVE, chance.choice(GOOD if is_good else BAD))
    if chance.below(2):
        opinion = _joined(opinion.label, _neutral(chance.choice(_DEGREES)), opinion)
    if chance.below(2):
        opposite = NEGATIVE if opinion.label == POSITIVE else POSITIVE
        opinion = _joined(opposite, _neutral("not"), opinion)
    return opinion


def _neutral(word: str) -> Node:
    return Node(NEUTRAL, word)


def _joined(label: str, *children: Node) -> Node:
    return Node(label, "", children)
