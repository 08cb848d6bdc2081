"""Spelling errors by kind, one in a sentence, mended by `chainrule correct` without options and by others.

    chainrule train ngram novels/train.txt -o lm/
    pip install symspellpy pyspellchecker
    python bench/error_kinds.py --model lm/ --counts novels/train.txt --text novels/test.txt --errors birkbeck.dat.gz

A kind's errors are misspellings of Birkbeck's that differ from their word in that way alone, each put into a sentence
of the text that has the word; lost apostrophes and spaces are made by rule. Up to 200 of a kind, drawn by seed 1; the
others have counts of the text that the model was trained on. symspellpy corrects whole sentences (lookup_compound) or
single words, whichever is better; the others correct single words. Unlike ours, they see where the error is.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from default_correction import corrected
from machine import circumstances
from misspellings import birkbeck_pairs, norvigs_choice, read

import chainrule
from chainrule.features.correct.correct import word_index

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST, _SHORTEST = 200, 4
_VOWELS = set("aeiouy")
_ENDINGS = (("ant", "ent"), ("able", "ible"), ("ance", "ence"), ("er", "or"), ("cal", "cle"), ("ary", "ery"))


class Case(NamedTuple):
    """A sentence with one error, written at its place, and what is meant there."""

    before: str
    written: str
    meant: str
    after: str


def kind_of(wrong: str, right: str) -> str | None:
    """The one way in which a misspelling differs from its word."""
    for pair in _ENDINGS:
        for one, other in (pair, pair[::-1]):
            if right.endswith(one) and wrong == right.removesuffix(one) + other:
                return "ending (-ant, -ent)"
    if len(wrong) == len(right):
        places = [i for i, (a, b) in enumerate(zip(wrong, right, strict=True)) if a != b]
        if len(places) == 1 and {wrong[places[0]], right[places[0]]} <= _VOWELS:
            return "another vowel"
        if len(places) == 1:
            return "another consonant"
        if len(places) == 2 and places[1] == places[0] + 1 and sorted(wrong) == sorted(right):
            return "letters swapped"
    if abs(len(wrong) - len(right)) == 1:
        longer, shorter = (wrong, right) if len(wrong) > len(right) else (right, wrong)
        place = next((i for i, (a, b) in enumerate(zip(longer, shorter, strict=False)) if a != b), len(shorter))
        if longer[:place] + longer[place + 1 :] == shorter:
            if place and longer[place] == longer[place - 1]:
                return "doubled, or no longer"
            return "a letter lost" if longer is right else "a letter too many"
    return None


def made_errors(sentences: list[str]) -> Iterator[tuple[str, Case]]:
    """Lost apostrophes, and lost spaces after frequent words."""
    for sentence in sentences:
        for match in re.finditer(r"\b([a-z]+)'(t|s|ll|re|ve|d)\b", sentence):
            if match[1] + match[2] not in {"its", "were", "well", "ill", "hell", "shell", "wed", "id", "lets"}:
                yield "apostrophe lost", Case(*_around(sentence, match, match[1] + match[2]))
        for match in re.finditer(r"\b(a|the|of|in|to|at|as) ([a-z]{3,})\b", sentence):
            yield "space lost", Case(*_around(sentence, match, match[1] + match[2]))


def _around(sentence: str, match: re.Match[str], written: str) -> tuple[str, str, str, str]:
    return sentence[: match.start()], written, match[0], sentence[match.end() :]


def cases_of(text: Path, errors: Path, known: set[str]) -> dict[str, list[Case]]:
    """The cases of each kind, drawn by a seed; at most one for a misspelling."""
    rng = random.Random(1)
    sentences = [line for line in read(text).splitlines() if 5 <= len(line.split()) <= 30]
    rng.shuffle(sentences)
    places: defaultdict[str, list[tuple[str, re.Match[str]]]] = defaultdict(list)
    for sentence in sentences:
        for match in re.finditer(r"(?<![\w'-])[a-z]+(?![\w'-])", sentence):
            places[match[0]].append((sentence, match))
    cases: defaultdict[str, list[Case]] = defaultdict(list)
    pairs = [pair for pair in set(birkbeck_pairs(errors)) if len(pair[1]) >= _SHORTEST and pair[0] not in known]
    for wrong, right in rng.sample(sorted(pairs), len(pairs)):
        kind = kind_of(wrong, right) if wrong.isalpha() and right in places else None
        if kind is not None and len(cases[kind]) < _MOST:
            cases[kind].append(Case(*_around(*rng.choice(places[right]), wrong)))
    made = list(made_errors(sentences[:5000]))
    for kind, case in rng.sample(made, len(made)):
        if len(cases[kind]) < _MOST and case.written not in known:
            cases[kind].append(case)
    return dict(sorted(cases.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--model", "--counts", "--text", "--errors"):
        parser.add_argument(name, type=Path, required=True)
    args = parser.parse_args()
    print(circumstances())
    from spellchecker import SpellChecker
    from symspellpy import SymSpell, Verbosity

    counts = Counter(re.findall(r"[a-z]+(?:'[a-z]+)?", read(args.counts).lower()))
    index = word_index(chainrule.load(args.model))
    symspell, checker = SymSpell(), SpellChecker(language=None)
    for word, count in counts.items():
        symspell.create_dictionary_entry(word, count)
    checker.word_frequency.load_json(dict(counts))
    cases = cases_of(args.text, args.errors, {word for word, count in counts.items() if count > 1})
    ours = iter(corrected(args.model, ["".join((c.before, c.written, c.after)) for row in cases.values() for c in row]))
    print(f"{'kind':24}{'errors':>8}{'chainrule':>11}{'Norvig':>9}{'symspellpy':>12}{'pyspellchecker':>16}")
    sums = Counter[str]()
    for kind, row in cases.items():
        near = index._near.within([case.written for case in row], [2] * len(row))
        right = Counter[str]()
        compound = 0
        for i, case in enumerate(row):
            text = next(ours)
            right["ours"] += text.startswith(case.before + case.meant) and text.endswith(case.meant + case.after)
            within_two = near.words[near.of(i)].tolist()
            right["norvig"] += norvigs_choice(case.written, counts, index, within_two) == case.meant
            found = symspell.lookup(case.written, Verbosity.TOP, max_edit_distance=2)
            right["symspell"] += bool(found) and found[0].term == case.meant
            compound += symspell.lookup_compound(case.written, max_edit_distance=2)[0].term == case.meant
            right["checker"] += checker.correction(case.written) == case.meant
        right["symspell"] = max(right["symspell"], compound)
        sums.update(right)
        sums["all"] += len(row)
        print(f"{kind:24}{len(row):8}" + _shares(right, len(row)), flush=True)
    print(f"{'all':24}{sums['all']:8}" + _shares(sums, sums["all"]))


def _shares(right: Counter[str], size: int) -> str:
    widths = {"ours": 11, "norvig": 9, "symspell": 12, "checker": 16}
    return "".join(f"{right[name] / size:{width}.1%}" for name, width in widths.items())


if __name__ == "__main__":
    main()
