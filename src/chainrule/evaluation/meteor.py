"""METEOR with exact matches and matches of stems: no synonyms, no paraphrases, no Java.

Banerjee and Lavie, METEOR: An Automatic Metric for MT Evaluation with Improved Correlation with Human Judgments, 2005;
the formula and its weights as in Lavie and Agarwal 2007. Figures equal those of nltk's `meteor_score` given a WordNet
without synonyms and the same stemmer (Snowball's English, Porter 2001). They are lower than those of METEOR 1.5, which
papers on captions report: it also matches synonyms and paraphrases, weighs function words less, and has other weights.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Match = tuple[int, int]  # positions in the text and in the reference

RECALL_WEIGHT = 0.9
PENALTY, PENALTY_EXPONENT = 0.5, 3


def check_stemmer() -> None:
    """Raises SettingError if snowballstemmer is not installed."""
    if find_spec("snowballstemmer") is None:
        raise SettingError("METEOR needs the package snowballstemmer: pip install 'chainrule[bleu]'")


def meteor(words: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """METEOR of 0 .. 1 of a text, with the reference that gives most. Words are lower-cased.

    Raises SettingError if snowballstemmer is not installed.
    """
    lowered = [word.lower() for word in words]
    return max(_meteor(lowered, [word.lower() for word in reference]) for reference in references)


def _meteor(words: list[str], reference: list[str]) -> float:
    """The harmonic mean of precision and recall, weighted 1 to 9, less a penalty for matches out of sequence."""
    matches = _align(words, reference)
    if not matches:
        return 0.0
    precision, recall = len(matches) / len(words), len(matches) / len(reference)
    mean = precision * recall / (RECALL_WEIGHT * precision + (1 - RECALL_WEIGHT) * recall)
    return mean * (1 - PENALTY * (_chunks(matches) / len(matches)) ** PENALTY_EXPONENT)


def _align(words: list[str], reference: list[str]) -> list[Match]:
    """Equal words first, then equal stems; from the last word to the first, each with the last free one."""
    matches: list[Match] = []
    left, right = list(range(len(words))), list(range(len(reference)))
    keys: tuple[Callable[[str], str], ...] = (str, _stem)
    for key in keys:
        places = defaultdict[str, list[int]](list)
        for j in right:
            places[key(reference[j])].append(j)
        matches += [(i, places[key(words[i])].pop()) for i in reversed(left) if places[key(words[i])]]
        left = sorted(set(left).difference(i for i, _ in matches))
        right = sorted(set(right).difference(j for _, j in matches))
    return sorted(matches)


def _chunks(matches: list[Match]) -> int:
    """The number of runs of matches that are adjacent on both sides."""
    starts = set(matches).difference((i + 1, j + 1) for i, j in matches)
    return len(starts)


@cache
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@cache
def _stemmer() -> Any:
    check_stemmer()
    import snowballstemmer

    return snowballstemmer.stemmer("english")
