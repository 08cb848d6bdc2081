"""Data sets made by rule: each rule written once more, or read by the code that the set is for."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.errors import OutputError, SettingError
from chainrule.features.lectures.datasets.make import DATASETS, make_data
from chainrule.features.lectures.datasets.random import Random
from chainrule.features.lectures.datasets.scenes import COLOURS, GROUND, PLACES, SHAPES, shape
from chainrule.features.lectures.datasets.sentences import BAD, GOOD

if TYPE_CHECKING:
    from pathlib import Path

BY_RULE = [name for name in DATASETS if name not in ("text", "pictures", "captions", "speech")]


def lines_of(name: str, file: str, examples: int = 200) -> list[str]:
    [content] = [made.content for made in make_data(name, examples) if made.name == file]  # type: ignore[arg-type]
    return content.decode().splitlines()


@pytest.mark.parametrize("name", BY_RULE)
def test_a_seed_decides_the_files_and_no_example_is_in_two_of_them(name) -> None:
    first, again, other = (make_data(name, 100, seed) for seed in (1, 1, 2))
    assert first == again
    assert {file.content for file in first}.isdisjoint(file.content for file in other)
    header = name == "labels"
    assert all(file.content.count(b"\n") == file.examples + header for file in first)
    train, test = (set(lines_of(name, file.name)[header:]) for file in (first[0], first[-1]))
    assert not train & test


def test_numbers_are_the_same_on_every_machine() -> None:
    assert lines_of("dates", "train.tsv")[:2] == ["the 23rd of February 1984\t1984-02-23", "10. 5. 2076\t2076-05-10"]


def test_translations_agree() -> None:
    pairs = dict(zip(lines_of("pairs", "train.en", 4000), lines_of("pairs", "train.fr", 4000), strict=True))
    phrases = {
        "the black horses": "les chevaux noirs",
        "a white cow": "une vache blanche",
        "some grey boys": "des garçons gris",
        "the red cars": "les voitures rouges",
    }
    for english, french in phrases.items():
        found = [target for source, target in pairs.items() if source.startswith(f"{english} ")]
        assert found
        assert all(target.startswith(f"{french} ") for target in found)
    assert all(len(source.split()) == len(target.split()) for source, target in pairs.items())


def test_the_label_of_a_review_is_that_of_its_last_clause() -> None:
    rows = [line.split("\t") for line in lines_of("labels", "train.tsv")[1:]]
    for text, label in rows:
        clause = text.split(" was ")[1].split(" , but ")[-1].split()
        [word] = [word for word in clause if word in GOOD + BAD]
        assert label == ("positive" if (word in GOOD) != ("not" in clause) else "negative")
    assert 0.3 < np.mean([label == "positive" for _, label in rows]) < 0.7


def test_trees_are_read_as_such_with_a_label_for_each_node(tmp_path: Path) -> None:
    counts = chainrule.data("trees", tmp_path / "made", examples=50)
    assert counts == {
        str(tmp_path / "made" / f"{part}.txt"): n for part, n in (("train", 50), ("valid", 5), ("test", 5))
    }
    trees = chainrule.read_trees(tmp_path / "made" / "train.txt", "node")
    assert len(trees) == 50
    assert {label for tree in trees for label in tree.labels} == {"positive", "negative", "neutral"}
    assert all(tree.input.labels[tree.input.root] != "neutral" for tree in trees)


def test_a_minimal_pair_differs_in_one_word_and_is_not_among_the_training_sentences() -> None:
    train = set(lines_of("minimal-pairs", "train.txt"))
    pairs = [json.loads(line) for line in lines_of("minimal-pairs", "pairs.jsonl")]
    assert len({pair["UID"] for pair in pairs}) == 4
    for pair in pairs:
        good, bad = pair["sentence_good"].split(), pair["sentence_bad"].split()
        assert sum(a != b for a, b in zip(good, bad, strict=True)) == 1
        assert pair["sentence_good"] not in train


def test_agreement_is_with_the_first_noun() -> None:
    for line in lines_of("minimal-pairs", "train.txt"):
        words = line.split()
        verb = next((word for word in words if word in {"is", "was", "has", "are", "were", "have"}), None)
        if verb is not None:
            assert words[1].endswith("s") == (verb in {"are", "were", "have"}), line


def test_dates_are_what_the_calendar_says() -> None:
    formats = ("%d %B %Y", "%B %d, %Y", "%d. %m. %Y", "%b %d %Y", "%d/%m/%Y")
    for line in lines_of("dates", "train.tsv"):
        text, iso = line.split("\t")
        if text.startswith("the "):
            day, _, month, year = text.removeprefix("the ").split()
            text = f"{day[:-2]} {month} {year}"
            assert day[-2:] == {"1": "st", "21": "st", "31": "st", "2": "nd", "22": "nd", "3": "rd", "23": "rd"}.get(
                day[:-2], "th"
            )
        assert iso in {parsed for form in formats if (parsed := parsed_date(text, form))}


def parsed_date(text: str, form: str) -> str | None:
    try:
        return datetime.strptime(text, form).date().isoformat()
    except ValueError:
        return None


def test_shapes_cover_their_areas_and_are_read_by_class(tmp_path: Path) -> None:
    areas = {
        "circle": lambda side: np.pi * ((side - 1) / 2) ** 2,  # side: 2 radii and the pixel in the middle
        "square": lambda side: side**2,
        "triangle": lambda side: side**2 / 2,
    }
    for name, area in areas.items():
        for seed in range(5):
            picture = shape(Random(seed, name), name)
            colours, counts = np.unique(picture.reshape(-1, 3), axis=0, return_counts=True)
            assert len(colours) == 2
            is_shape = (picture != picture[0, 0]).any(axis=2)
            side = is_shape.any(axis=0).sum()
            assert is_shape.sum() == pytest.approx(area(side), rel=0.1)
            assert counts.sum() == 32 * 32
    counts_by_folder = chainrule.data("pictures", tmp_path, examples=20)
    assert counts_by_folder[str(tmp_path / "train" / "circle")] == 7
    assert {picture.labels[0] for picture in chainrule.read_pictures(tmp_path / "test")} == set(SHAPES)


def test_scenes_show_what_their_captions_say(tmp_path: Path) -> None:
    """From the pixels alone: colours, places and boxes; the area of each shape in its box tells the shape."""
    counts = chainrule.data("captions", tmp_path, examples=40)
    assert counts[str(tmp_path / "train.jsonl")] == counts[str(tmp_path / "train")] == 40
    captioned = chainrule.read_captions(tmp_path / "train.jsonl", with_boxes=True)
    paragraphs = chainrule.read_captions(tmp_path / "train-paragraphs.jsonl")
    for item, other in zip(captioned, paragraphs, strict=True):
        assert item.picture is not None
        assert item.boxes is not None
        pixels, parts, sentences = item.picture.pixels, [], []
        for place, columns in zip(PLACES, np.split(pixels, len(PLACES), 1), strict=True):
            rows, across = (columns != GROUND).any(2).nonzero()
            if not len(rows):
                continue
            left = PLACES.index(place) * 32 + across.min()
            box = [left, rows.min(), left + np.ptp(across) + 1, rows.max() + 1]
            side = np.ptp(rows) + 1
            filled = len(rows) / side**2
            shape = "square" if filled == 1 else "circle" if filled > 0.55 else "triangle"
            [colour] = [name for name, value in COLOURS.items() if (columns[rows[0], across[0]] == value).all()]
            number = len(parts)
            assert item.boxes.boxes[number].tolist() == box
            size = "small" if side < 16 else "large"
            assert item.boxes[number] == f"a {size} {colour} {shape}"
            parts.append(f"a {colour} {shape} {place}")
            sentences.append(f"{place} is a {size} {colour} {shape} .")
        assert item.captions[0].replace(" and ", " , ").split(" , ") == parts
        assert other.captions == (" ".join(sentences),)
        assert len(item.boxes) == len(parts)
    files = [make_data("captions", 40, seed) for seed in (0, 0, 1)]
    assert files[0] == files[1] != files[2]
    assert {file.content for file in files[0] if file.name.startswith("train/")}.isdisjoint(
        file.content for file in files[0] if file.name.startswith("test/")
    )


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="there is no data set 'cats'; expected one of text, pairs"):
        make_data("cats")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="examples is 3; expected 20 to 20,000"):
        make_data("pairs", 3)
    with pytest.raises(SettingError, match="leave the number of examples out"):
        make_data("text", 100)
    chainrule.data("dates", tmp_path, examples=20)
    with pytest.raises(OutputError, match="exists already; use overwrite=True"):
        chainrule.data("dates", tmp_path, examples=20)
    assert chainrule.data("dates", tmp_path, examples=20, seed=1, overwrite=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="this is a file; name a folder"):
        chainrule.data("dates", tmp_path / "file")
    with pytest.raises(OutputError, match=r"dates.txt: a data set is a folder; leave out .txt, or end the name with"):
        chainrule.data("dates", tmp_path / "dates.txt")
    assert chainrule.data("dates", f"{tmp_path}/dates.txt/", examples=20)


def test_the_text_is_cut_into_runs_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainrule.features.lectures.datasets.make.sample_lines", lambda: [str(i) for i in range(2000)])
    train, test = make_data("text")
    assert test.content.decode().split() == [*map(str, range(950, 1000)), *map(str, range(1950, 2000))]
    assert train.examples + test.examples == 2000


def test_what_is_asked_for_in_a_conversation_was_told() -> None:
    for line in lines_of("conversations", "train.jsonl"):
        told: dict[str, str] = {}
        messages = json.loads(line)["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2)
        for question, answer in zip(messages[::2], messages[1::2], strict=True):
            words, said = question["content"].split(), answer["content"].split()
            if words[:2] in (["my", "name"], ["i", "live"]):
                told["name" if "name" in words else "live"] = words[3]
            elif words[-1] == "?" and words[-2] in told:
                assert said[-2] == told.pop(words[-2])
        assert not told


def test_there_are_enough_different_conversations() -> None:
    assert len(set(make_data("conversations", 20_000)[0].content.splitlines())) == 20_000
