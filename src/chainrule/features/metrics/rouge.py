"""ROUGE (summaries, captions), METEOR without synonyms, and CIDEr-D.

ROUGE-1, ROUGE-2 and ROUGE-L: Lin, ROUGE: A Package for Automatic Evaluation of Summaries, 2004. Two conventions share
the name ROUGE-L. That of summaries is F1 of one reference; of several, the best (as the package rouge-score). That of
captions is F with beta 1.2 of the best precision and the best recall, which may come from different references (as
pycocoevalcap).

METEOR with exact matches and matches of stems: no synonyms, no paraphrases, no Java. Banerjee and Lavie, METEOR: An
Automatic Metric for MT Evaluation with Improved Correlation with Human Judgments, 2005; the formula and its weights as
in Lavie and Agarwal 2007. Figures equal those of nltk's `meteor_score` given a WordNet without synonyms and the same
stemmer (Snowball's English, Porter 2001). They are lower than those of METEOR 1.5, which papers on captions report: it
also matches synonyms and paraphrases, weighs function words less, and has other weights.

CIDEr-D: cosines of tf-idf vectors of n-grams, clipped, with a penalty for length. Vedantam, Zitnick and Parikh, CIDEr:
Consensus-based Image Description Evaluation, 2015, section 5; figures equal those of pycocoevalcap on the same tokens.
An n-gram weighs log(pictures / pictures that have it in a reference), so a score depends on the other pictures of the
corpus, and is 0 for a single one.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    Match = tuple[int, int]  # positions in the text and in the reference
    NGram = tuple[str, ...]
    Vector = dict[NGram, float]  # the weights of the n-grams of one order

BETA = 1.2  # of captions: how much recall weighs against precision


def summary_rouge(words: list[str], references: Sequence[list[str]]) -> tuple[float, float, float]:
    """Return F1 of 0 .. 1 of ROUGE-1, ROUGE-2 and ROUGE-L, each with the reference that gives most."""
    rows = [
        (
            _f1(_overlap(words, reference), len(words), len(reference)),
            _f1(_overlap([*pairwise(words)], [*pairwise(reference)]), len(words) - 1, len(reference) - 1),
            _f1(longest_common_subsequence(words, reference), len(words), len(reference)),
        )
        for reference in references
    ]
    first, second, longest = map(max, zip(*rows, strict=True))
    return first, second, longest


def caption_rouge_l(words: list[str], references: Sequence[list[str]]) -> float:
    """Return ROUGE-L of 0 .. 1 of a caption: (1 + beta^2) P R / (R + beta^2 P)."""
    if not words:
        return 0.0
    lengths = [longest_common_subsequence(words, reference) for reference in references]
    precision = max(lengths) / len(words)
    recall = max(
        length / len(reference) if reference else 0.0 for length, reference in zip(lengths, references, strict=True)
    )
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision) if precision else 0.0


def longest_common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence, by a row of bits (Hyyro, Bit-Parallel LCS-length Computation
    Revisited, 2004).

    Bit i of the row is 0 where the length grows at item i of the first sequence.
    """
    places: dict[Hashable, int] = {}
    for i, item in enumerate(first):
        places[item] = places.get(item, 0) | 1 << i
    every = (1 << len(first)) - 1
    row = every
    for item in second:
        matches = row & places.get(item, 0)
        row = (row + matches | row - matches) & every
    return len(first) - row.bit_count()


def _overlap(items: Sequence[Hashable], others: Sequence[Hashable]) -> int:
    return (Counter(items) & Counter(others)).total()


def _f1(matches: int, size: int, reference_size: int) -> float:
    return 2 * matches / (size + reference_size) if matches else 0.0


RECALL_WEIGHT = 0.9
PENALTY, PENALTY_EXPONENT = 0.5, 3


def check_stemmer() -> None:
    """Raise SettingError if snowballstemmer is not installed."""
    if find_spec("snowballstemmer") is None:
        raise SettingError("METEOR needs the package snowballstemmer: pip install 'chainrule[bleu]'")


def meteor(words: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return METEOR of 0 .. 1 of a text, with the reference that gives most. Words are lower-cased.

    Raises SettingError if snowballstemmer is not installed.
    """
    lowered = [word.lower() for word in words]
    return max(_meteor(lowered, [word.lower() for word in reference]) for reference in references)


def _meteor(words: list[str], reference: list[str]) -> float:
    """Return the harmonic mean of precision and recall, weighted 1 to 9, less a penalty for matches out of sequence."""
    matches = _align(words, reference)
    if not matches:
        return 0.0
    precision, recall = len(matches) / len(words), len(matches) / len(reference)
    mean = precision * recall / (RECALL_WEIGHT * precision + (1 - RECALL_WEIGHT) * recall)
    return mean * (1 - PENALTY * (_chunks(matches) / len(matches)) ** PENALTY_EXPONENT)


def _align(words: list[str], reference: list[str]) -> list[Match]:
    """Return equal words first, then equal stems; from the last word to the first, each with the last free one."""
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
    """Return the number of runs of matches that are adjacent on both sides."""
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


ORDERS = (1, 2, 3, 4)
SIGMA = 6.0  # of the penalty for a difference in length
SCALE = 10.0


def cider_d(captions: Sequence[list[str]], references: Sequence[Sequence[list[str]]]) -> Float64[ndarray, " captions"]:
    """Return CIDEr-D of each caption, 0 .. 10; that of the corpus is the mean."""
    pictures_with = Counter(ngram for several in references for ngram in frozenset().union(*map(_all_ngrams, several)))
    pictures = len(references)

    def vectors(words: list[str]) -> list[Vector]:
        return [
            {ngram: count * math.log(pictures / max(pictures_with[ngram], 1)) for ngram, count in counts.items()}
            for counts in (Counter(_ngrams(words, order)) for order in ORDERS)
        ]

    scores = np.zeros(len(captions))
    for i, (words, several) in enumerate(zip(captions, references, strict=True)):
        caption = vectors(words)
        scores[i] = np.mean(
            [_length_penalty(words, reference) * _similarity(caption, vectors(reference)) for reference in several]
        )
    return SCALE * scores


def _all_ngrams(words: list[str]) -> set[NGram]:
    return {ngram for order in ORDERS for ngram in _ngrams(words, order)}


def _ngrams(words: list[str], order: int) -> Iterator[NGram]:
    return zip(*(words[i:] for i in range(order)), strict=False)


def _length_penalty(caption: list[str], reference: list[str]) -> float:
    """Return a Gaussian of the difference in length, counted in bigrams as the authors' code does."""
    difference = max(len(caption) - 1, 0) - max(len(reference) - 1, 0)
    return math.exp(-(difference**2) / (2 * SIGMA**2))


def _similarity(caption: list[Vector], reference: list[Vector]) -> float:
    """Return the mean over the orders of the cosine, the caption's weights clipped to the reference's."""
    return math.fsum(map(_clipped_cosine, caption, reference)) / len(ORDERS)


def _clipped_cosine(caption: Vector, reference: Vector) -> float:
    product = math.fsum(
        min(weight, reference[ngram]) * reference[ngram] for ngram, weight in caption.items() if ngram in reference
    )
    return product / (math.hypot(*caption.values()) * math.hypot(*reference.values())) if product else 0.0


_LETTERS_AND_DIGITS = re.compile(r"[^\W_]+")
_CLITIC = re.compile(r"(?<=\w)(?=(?:n't|'(?:s|d|m|re|ve|ll))\b)")
_CAPTION_WORD = re.compile(r"n't\b|'\w+|\d+(?:[.,]\d+)+|[^\W_]+(?:-[^\W_]+)*")


def rouge_words(text: str) -> list[str]:
    """Return the runs of letters and digits in lower case; those of rouge-score if all letters are ASCII."""
    return _LETTERS_AND_DIGITS.findall(text.lower())


def caption_words(text: str) -> list[str]:
    """Return words in lower case without punctuation; clitics are separate words: don't is do n't, man's is man 's.

    Modelled on the Penn Treebank tokenizer, which scores of captions usually use, but not a copy of it.
    """
    return _CAPTION_WORD.findall(_CLITIC.sub(" ", text.lower().replace("\u2019", "'")))
