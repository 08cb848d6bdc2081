"""Whether a sentence of people about a scene of NLVR is true of it, for sentences of the commonest forms.

    python bench/nlvr_sentences.py IMAGES/nlvr

prints how many sentences of the corpus have one of these forms, and how often the verdict is that of the corpus.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Thing = dict[str, Any]
Test = Callable[[Sequence[Thing]], bool]  # of the objects of a box

NUMBERS = {word: i for i, word in enumerate(("no", "one", "two", "three", "four", "five", "six", "seven", "eight"))}
NUMBERS |= {"a": 1, "an": 1} | {str(i): i for i in range(1, 10)}
COLOURS, SHAPES = ("yellow", "black", "blue"), ("square", "circle", "triangle")
ANY = ("item", "object", "shape", "figure", "thing")
BLOCK = ("block", "blick")
GROUP = ("tower", "box")

_NUMBER = rf"(?:{'|'.join(sorted(NUMBERS, key=len, reverse=True))})"
_COUNT = rf"(?P<{{0}}how>exactly|only|at least|at most|just)? ?(?P<{{0}}many>{_NUMBER})?"
_COLOUR = rf"(?P<{{0}}colour>{'|'.join(COLOURS)})?"
_NOUN = rf"(?P<{{0}}noun>{'|'.join((*SHAPES, *ANY, *BLOCK))})s?"
_THINGS = f"{_COUNT} ?{_COLOUR} ?{_NOUN}"
_TOUCHING = r"(?:that is |that are |are |is )?(?:closely )?touching (?:the|a|an|any)? ?"
_PLACE = (
    r"(?: (?:at|as|in|on) (?:the|its) (?P<{0}place>top|base|bottom)(?: of (?:a|the|its) tower)?"
    rf"|(?P<{{0}}wall> {_TOUCHING}(?:wall|edge|box edge|side)s?)|(?P<{{0}}corner> {_TOUCHING}(?:box )?corners?))?"
)
_BE = r"(?:there (?:is|are) )?"
_GROUPS = rf"{_COUNT} ?(?P<gcolour>{'|'.join(COLOURS)})? ?(?P<group>tower|box)(?:e?s)?"
_HAS = r"(?:with|that has|that have|that contains?|which has|has|have|contains?|containing)"
FORMS = {
    "things": re.compile(f"{_BE}{_THINGS.format('t')}{_PLACE.format('t')}"),
    "groups": re.compile(
        f"{_BE}{_GROUPS.format('g')}(?: {_HAS} {_THINGS.format('t')}{_PLACE.format('t')}(?: in it)?)?"
    ),
    "only": re.compile(
        rf"{_BE}{_GROUPS.format('g')} {_HAS} (?:items of )?only (?P<first>{'|'.join(COLOURS)})"
        rf"(?: and (?P<second>{'|'.join(COLOURS)}))?(?: {_NOUN.format('t')}| colou?rs?)"
    ),
    "above": re.compile(
        rf"{_BE}(?:{_GROUPS.format('g')} {_HAS} )?an? (?P<upper>{'|'.join(COLOURS)}) (?:{'|'.join(BLOCK)}) "
        rf"(?:over|above|on top of) an? (?P<lower>{'|'.join(COLOURS)}) (?:{'|'.join(BLOCK)})s?"
    ),
    "every": re.compile(
        r"(?:each|every|all)(?: the)?(?: 3| three)? (?P<group>tower|box|grey box)(?:e?s)? "
        rf"{_HAS} {_THINGS.format('t')}{_PLACE.format('t')}"
    ),
    "in every": re.compile(rf"{_BE}{_THINGS.format('t')}{_PLACE.format('t')} in (?:each|every) (?P<group>tower|box)"),
}


def is_true(sentence: str, objects: Sequence[Thing]) -> bool | None:
    """Whether it is true of the scene; None where it has none of these forms."""
    text = re.sub(r"[.,]", " ", sentence.lower())
    text = " ".join(re.sub(r"\b(?:a ?t|t|a) ?least\b", "at least", text).split())
    boxes = [[one for one in objects if one["box"] == box] for box in range(3)]
    for form, pattern in FORMS.items():
        match = pattern.fullmatch(text)
        if match is None:
            continue
        parts = match.groupdict()
        if form == "only":
            wanted = sorted({parts["first"], parts["second"]} - {None}, key=str)
            fitting = sum(sorted({one["colour"] for one in box}) == wanted for box in boxes)
            return is_count(fitting, parts["ghow"], parts["gmany"])
        if form == "above":
            fitting = sum(has_above(box, parts["upper"], parts["lower"]) for box in boxes)
            return is_count(fitting, parts["ghow"], parts["gmany"])
        things = counter(parts)
        if form == "things":
            return things(objects)
        groups = [box for box in boxes if parts["group"] != "tower" or box]
        if form == "groups":
            inner: Test = things if parts["tnoun"] else lambda _: True
            colour = parts["gcolour"]
            fitting = sum(inner(box) and all(one["colour"] == colour for one in box if colour) for box in groups)
            return is_count(fitting, parts["ghow"], parts["gmany"])
        return all(things(box) for box in groups)
    return None


def counter(parts: dict[str, str | None]) -> Test:
    """Whether there are so many of the things that a sentence names."""

    def test(objects: Sequence[Thing]) -> bool:
        count = sum(is_meant(one, parts, objects) for one in objects)
        return is_count(count, parts["thow"], parts["tmany"])

    return test


def is_meant(one: Thing, parts: dict[str, str | None], objects: Sequence[Thing]) -> bool:
    if parts["tcolour"] and one["colour"] != parts["tcolour"]:
        return False
    if parts["tnoun"] in SHAPES and one["shape"] != parts["tnoun"]:
        return False
    if parts["tplace"]:
        own = [other["y"] for other in objects if other["box"] == one["box"]]
        return one["y"] == (min(own) if parts["tplace"] == "top" else max(own))
    sides = [one["x"] <= 0, one["y"] <= 0, one["x"] + one["size"] >= 100, one["y"] + one["size"] >= 100]
    if parts["twall"]:
        return any(sides)
    return (sides[0] or sides[2]) and (sides[1] or sides[3]) if parts["tcorner"] else True


def has_above(box: Sequence[Thing], upper: str | None, lower: str | None) -> bool:
    """Whether a block of a tower stands on one of another colour."""
    tower = sorted(box, key=lambda one: one["y"])
    return any((a["colour"], b["colour"]) == (upper, lower) for a, b in itertools.pairwise(tower))


def is_count(count: int, how: str | None, many: str | None) -> bool:
    """Without a word such as "exactly", one is at least one, and more are just so many."""
    wanted = NUMBERS.get(many or "a", 1)
    if how == "at least" or (how is None and (many in (None, "a", "an"))):
        return count >= wanted
    if how == "at most":
        return count <= wanted
    return count == wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for part in ("train", "valid"):
        with gzip.open(parser.parse_args().folder / f"{part}.jsonl.gz", "rt", encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
        verdicts = [(is_true(one["sentence"], one["objects"]), one["label"], one["sentence"]) for one in records]
        told = [(own, label) for own, label, _ in verdicts if own is not None]
        right = sum(own == label for own, label in told)
        print(f"{part}: {len(told):,} of {len(records):,} sentences have these forms; {right / len(told):.2%} right")


if __name__ == "__main__":
    main()
