"""The harder forms of made data: each rule written once more, by parsing what the sets hold."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.errors import SettingError
from chainrule.features.lectures.datasets.make import DATASETS, make_data
from chainrule.features.lectures.datasets.random import Random
from chainrule.features.lectures.datasets.scenes import COLOURS, PLACES, SHAPES, hard_scene, hard_shape
from chainrule.features.lectures.datasets.sentences import BAD, GOOD, INTRANSITIVE, NOUNS, TRANSITIVE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BELOW_TWENTY = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
LONGER = ("au lit", "en train de dormir", "en plein sommeil")
ARRIVING = ("en route", "en train de venir", "bientôt là")
FALLING = ("par terre", "en train de tomber", "en pleine chute")
WHERE = r"(?:a (\w+) (\w+) in front of )?a (\w+) (\w+) (on the left|in the middle|on the right)"
BY_RULE = [name for name in DATASETS if name not in ("text", "pictures", "captions", "speech")]


def lines_of(name: str, file: str, examples: int = 400) -> list[str]:
    files = make_data(name, examples, hard=True)  # type: ignore[arg-type]
    [content] = [made.content for made in files if made.name == file]
    return content.decode().splitlines()


@pytest.mark.parametrize("name", BY_RULE)
def test_a_seed_decides_the_files_and_no_example_is_in_two_of_them(name) -> None:
    first, again = (make_data(name, 200, 1, hard=True) for _ in range(2))
    assert first == again
    assert {file.content for file in first}.isdisjoint(file.content for file in make_data(name, 200, 1))
    header = name == "labels"
    train, test = (set(file.content.splitlines()[header:]) for file in (first[0], first[-1]))
    assert not train & test


def test_sizes_that_cannot_hold_the_task_are_refused() -> None:
    with pytest.raises(SettingError, match="examples is 199; the harder form needs 200 or more"):
        make_data("labels", 199, hard=True)
    with pytest.raises(SettingError, match="has no harder form; leave hard out"):
        make_data("text", hard=True)


def numbers(words: Sequence[str], forms: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether each word that is among the forms is plural, in order."""
    plural = {form: is_plural for pair in forms for is_plural, form in enumerate(pair)}
    return [bool(plural[word]) for word in words if word in plural]


def test_translations_agree_across_what_is_between_and_reasons_come_first() -> None:
    sources, targets = (lines_of("pairs", f"train.{language}", 2000) for language in ("en", "fr"))
    verbs = (*TRANSITIVE, *INTRANSITIVE)
    english, french = ([getattr(verb, side) for verb in verbs] for side in ("english", "french"))
    because = misled = 0
    sleeping = " ".join(targets)
    short = len(re.findall(r"\b(?:dort|dorment)\b", sleeping))
    longer = [len(re.findall(rf"\b(?:est|sont) {how}\b", sleeping)) for how in LONGER]
    assert short > 1.3 * max(longer)  # the likeliest translation
    assert sum(longer) > 1.1 * short  # does not begin with the likeliest word
    for source, long_target in zip(sources, targets, strict=True):
        target = long_target
        for verb, ways in {"dort": LONGER, "arrive": ARRIVING, "tombe": FALLING}.items():
            for plural, begin in (("", "est"), ("nt" if verb != "dort" else "", "sont")):
                form = "dorment" if (verb, begin) == ("dort", "sont") else f"{verb}{plural}"
                target = re.sub(rf"\b{begin} (?:{'|'.join(ways)})\b", form, target)
        clauses = source.split(" because ")
        parts = [target]
        if len(clauses) == 2:
            because += 1
            assert target.startswith("comme ")
            parts = target.removeprefix("comme ").split(" , ")[::-1]
        for clause, part in zip(clauses, parts, strict=True):
            words = clause.split()
            assert len(words) == len(part.split())
            subject, *others = numbers(words, [noun.english for noun in NOUNS])
            # nothing but a subject has a clause of its own, so that all verbs agree with the first noun
            assert set(numbers(words, english)) == set(numbers(part.split(), french)) == {subject}
            misled += subject not in others[:1] and " that " not in clause and len(others) > 1
    assert 0.4 < because / len(sources) < 0.6
    assert misled > 100


def opinion_of(clause: str) -> str:
    words = clause.split()
    [opinion] = [word for word in words if word in GOOD + BAD]
    denials = words.count("not") + words.count("nobody")
    return "positive" if (opinion in GOOD) != denials % 2 else "negative"


def test_reviews_turn_with_every_denial() -> None:
    rows = [line.split("\t") for line in lines_of("labels", "train.tsv")[1:]]
    for text, label in rows:
        first, *rest = text.removeprefix("although ").split(" , ")
        if text.startswith("although "):
            assert opinion_of(first) != opinion_of(rest[0]) == label, text
        elif not rest:
            assert opinion_of(first) == label, text
        elif rest[0].startswith("although "):
            assert label == opinion_of(first) != opinion_of(rest[0]), text
        else:
            joined, _, second = rest[0].partition(" ")
            assert opinion_of(second) == label, text
            assert (opinion_of(first) == label) == (joined == "and")
    assert 0.35 < np.mean([label == "positive" for _, label in rows]) < 0.65
    trees = [line.split(" ", 1)[0] for line in lines_of("trees", "train.txt")]
    assert set(trees) == {"(positive", "(negative"}


def test_verbs_agree_with_the_first_noun_and_all_others_mislead() -> None:
    verbs = {"is": 0, "was": 0, "has": 0, "are": 1, "were": 1, "have": 1}
    train = set(lines_of("minimal-pairs", "train.txt"))
    pairs = [json.loads(line) for line in lines_of("minimal-pairs", "pairs.jsonl")]
    assert len(pairs) == 160
    for pair in pairs:
        assert pair["sentence_good"] not in train
        nouns = [noun.endswith("s") for noun in re.findall(r"the (\w+)", pair["sentence_good"])]
        assert len(nouns) in (3, 4, 5)
        assert set(nouns[1:]) == {not nouns[0]}
        for sentence, is_right in ((pair["sentence_good"], True), (pair["sentence_bad"], False)):
            [verb] = [verbs[word] for word in sentence.split() if word in verbs]
            assert (verb == nouns[0]) == is_right


def test_dates_in_words_are_what_the_calendar_says() -> None:
    values = {word: i for i, word in enumerate(BELOW_TWENTY, 1)} | {word: 10 * i for i, word in enumerate(TENS, 2)}
    ordinals = {"first": 1, "second": 2, "third": 3, "fifth": 5, "eighth": 8, "ninth": 9, "twelfth": 12}
    ordinals |= {"twentieth": 20, "thirtieth": 30} | {f"{word}th": value for word, value in values.items()}
    for line in lines_of("dates", "train.tsv"):
        text, iso = line.split("\t")
        month = next(month for month in MONTHS if month in text)
        before, _, after = text.partition(month)
        if before:
            day_word, year_words = before.removeprefix("the ").removesuffix(" of "), after.strip()
        else:
            day_word, year_words = after.removeprefix(" the ").split(" , ")
        day = sum(ordinals.get(word) or values[word] for word in day_word.split("-"))
        words = year_words.replace(" and ", " ").split()
        if words[:2] == ["two", "thousand"]:
            century, words = 20, words[2:]
        else:
            century = sum(values[word] for word in words[0].split("-"))
            words = words[2:] if words[1:2] == ["hundred"] else words[1:]
        rest = sum(values[part] for word in words for part in word.split("-"))
        assert date(100 * century + rest, MONTHS.index(month) + 1, day).isoformat() == iso


def test_answers_combine_two_turns() -> None:
    for line in lines_of("conversations", "train.jsonl"):
        told = [message["content"].split() for message in json.loads(line)["messages"]]
        name_of = {words[3]: words[0] for words in told if words[1:3] == ["is", "my"]}
        town_of = {words[0]: words[3] for words in told if words[1:3] == ["lives", "in"]}
        asked = [i for i, words in enumerate(told) if words[0] == "where"]
        assert len(asked) == 2
        assert len(name_of) == len(town_of) == 3
        for i in asked:
            relation = told[i][3]
            name = name_of[relation]
            assert " ".join(told[i + 1]) == f"your {relation} {name} lives in {town_of[name]} ."


def test_a_picture_is_of_the_shape_in_front(tmp_path: Path) -> None:
    counts = chainrule.data("pictures", tmp_path, examples=200, hard=True)
    assert counts[str(tmp_path / "train" / "circle")] == 67
    for seed in range(10):
        picture = hard_shape(Random(seed, "test"), "square").astype(int)
        assert picture.shape == (32, 32, 3)
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 100  # noise
    assert {picture.labels[0] for picture in chainrule.read_pictures(tmp_path / "test")} == set(SHAPES)


def test_what_is_in_front_covers_what_is_behind(tmp_path: Path) -> None:
    chainrule.data("captions", tmp_path, examples=200, hard=True)
    overlaps = 0
    for item in chainrule.read_captions(tmp_path / "train.jsonl", with_boxes=True):
        assert item.picture is not None
        pixels = item.picture.pixels.astype(int)
        for part in re.split(r" , | and ", item.captions[0]):
            match = re.fullmatch(
                r"(?:a (\w+) (\w+) in front of )?a (\w+) (\w+) (on the left|in the middle|on the right)", part
            )
            assert match
            colour, _, other, _, place = match.groups()
            own = pixels[:, 32 * PLACES.index(place) : 32 * PLACES.index(place) + 32]
            is_behind = (own == COLOURS[other]).all(2)
            assert is_behind.sum() > 20
            if colour is not None:
                overlaps += 1
                is_front = (own == COLOURS[colour]).all(2)
                assert 20 < is_front.sum() <= 13 * 13
                rows, columns = is_front.nonzero()
                around = own[max(0, rows.min() - 1) : rows.max() + 2, max(0, columns.min() - 1) : columns.max() + 2]
                assert (around == COLOURS[other]).all(2).any()  # they touch
    assert overlaps > 150
    assert max(len(hard_scene(Random(seed, "test"))) for seed in range(20)) > 3
