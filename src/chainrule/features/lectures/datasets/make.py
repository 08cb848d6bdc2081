"""The data sets by name: each is a function that gives the files of a folder."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from chainrule.errors import SettingError
from chainrule.features.lectures.datasets import hard as harder
from chainrule.features.lectures.datasets import sentences as easy
from chainrule.features.lectures.datasets.random import Random
from chainrule.features.lectures.datasets.scenes import (
    SHAPES,
    Scene,
    caption,
    draw_scene,
    hard_scene,
    hard_shape,
    paragraph,
    scene,
    shape,
)
from chainrule.features.lectures.datasets.tones import RATE, spoken, spoken_sentence
from chainrule.features.speech.sounds.sound import encode_wav
from chainrule.features.vision.pictures.codec import encode_png
from chainrule.text.corpus.sample import sample_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from chainrule.features.lectures.datasets import Name

T = TypeVar("T")

FEWEST, MOST = 20, 20_000
_HELD_OUT = 10  # for this many examples to train on, one more for validation and one for testing
_PAIRS_OF_A_SET = 50
_OTHERS = 10  # sentences for a language model, for each that is said
FEWEST_HARD = 200


class File(NamedTuple):
    """A file of a data set. name: within the folder. examples: how many it holds."""

    name: str
    content: bytes
    examples: int


def make_data(name: Name, examples: int | None = None, seed: int = 0, *, hard: bool = False) -> list[File]:
    """Return the files of a data set.

    examples: how many to train on; by default as many as the set usually has. hard: in the harder form, of at least
    `FEWEST_HARD` examples. The text is Python's own documentation, whole, so that it takes neither number nor seed.
    Raises SettingError.
    """
    if name not in DATASETS:
        raise SettingError(f"there is no data set {name!r}; expected one of {', '.join(DATASETS)}")
    dataset = DATASETS[name]
    if dataset.examples is None:
        if examples is not None:
            raise SettingError("the text is Python's documentation, of a given size; leave the number of examples out")
        if hard:
            raise SettingError("the text is Python's documentation, which has no harder form; leave hard out")
        return dataset.make(Random(seed, name), 0, hard=False)
    wanted = dataset.examples if examples is None else examples
    if not FEWEST <= wanted <= MOST:
        raise SettingError(f"examples is {wanted}; expected {FEWEST} to {MOST:,}")
    if hard and wanted < FEWEST_HARD:
        raise SettingError(
            f"examples is {wanted}; the harder form needs {FEWEST_HARD} or more, so that there is enough to learn from "
            "and to tell models apart by"
        )
    return dataset.make(Random(seed, f"{name}, hard" if hard else name), wanted, hard=hard)


def _text(chance: Random, examples: int, *, hard: bool) -> list[File]:
    lines = sample_lines()
    runs = [lines[i : i + 50] for i in range(0, len(lines), 50)]  # a line's neighbours stay with it
    test = [line for i, run in enumerate(runs) if i % 20 == 19 for line in run]
    train = [line for i, run in enumerate(runs) if i % 20 != 19 for line in run]
    return [_lines("train.txt", train), _lines("test.txt", test)]


def _pairs(chance: Random, examples: int, *, hard: bool) -> list[File]:
    return [
        _lines(f"{part}.{language}", [getattr(phrase, field) for phrase in phrases])
        for part, phrases in _parts(lambda: (harder if hard else easy).sentence(chance), examples)
        for language, field in (("en", "english"), ("fr", "french"))
    ]


def _labels(chance: Random, examples: int, *, hard: bool) -> list[File]:
    return [
        File(f"{part}.tsv", _content(["text\tlabel", *(f"{tree.text()}\t{tree.label}" for tree in trees)]), len(trees))
        for part, trees in _parts(lambda: (harder if hard else easy).review(chance), examples)
    ]


def _trees(chance: Random, examples: int, *, hard: bool) -> list[File]:
    return [
        _lines(f"{part}.txt", [tree.brackets() for tree in trees])
        for part, trees in _parts(lambda: (harder if hard else easy).review(chance), examples)
    ]


def _pictures(chance: Random, examples: int, *, hard: bool) -> list[File]:
    return [
        File(f"{part}/{name}/{i + 1}.png", encode_png((hard_shape if hard else shape)(chance, name)), 1)
        for part, count in _sizes(examples).items()
        for name in SHAPES
        for i in range(-(-count // len(SHAPES)))
    ]


def _captions(chance: Random, examples: int, *, hard: bool) -> list[File]:
    """Return scenes, and for each part two files with a line for each scene: with captions, and with paragraphs."""
    files = []
    for part, scenes in _parts(lambda: (hard_scene if hard else scene)(chance), examples):
        images = [f"{part}/{i}.png" for i in range(1, len(scenes) + 1)]
        for name, write in ((part, caption), (f"{part}-paragraphs", paragraph)):
            lines = [_line_of(image, write(own), own) for image, own in zip(images, scenes, strict=True)]
            files.append(_lines(f"{name}.jsonl", lines))
        files += [File(image, encode_png(draw_scene(own)), 1) for image, own in zip(images, scenes, strict=True)]
    return files


def _line_of(image: str, text: str, things: Scene) -> str:
    boxes = [{"box": thing.box, "label": thing.shape, "phrase": thing.phrase} for thing in things]
    return json.dumps({"image": image, "captions": [text], "boxes": boxes})


def _minimal_pairs(chance: Random, examples: int, *, hard: bool) -> list[File]:
    """Return sentences to train on, and pairs; no sentence of a pair is among the former."""
    each = min(_PAIRS_OF_A_SET, examples // _HELD_OUT)
    tested, learned = list(easy.TESTED), list(easy.LEARNED)
    if hard:
        tested = [partial(harder.agreement, is_misleading=True)]
        learned += 4 * [partial(harder.agreement, is_misleading=False)]
        each *= 4  # as many pairs as in the usual form
    pairs = [pair for make in tested for pair in _distinct(partial(make, chance), each)]
    held_out = {pair.good for pair in pairs}
    lines: list[str] = []
    while len(lines) < examples:
        good = chance.choice(learned)(chance).good
        if good not in held_out:
            lines.append(good)
    records = [{"sentence_good": pair.good, "sentence_bad": pair.bad, "UID": pair.set} for pair in pairs]
    return [_lines("train.txt", lines), _lines("pairs.jsonl", [json.dumps(record) for record in records])]


def _dates(chance: Random, examples: int, *, hard: bool) -> list[File]:
    return [
        _lines(f"{part}.tsv", [f"{text}\t{iso}" for text, iso in dates])
        for part, dates in _parts(lambda: (harder if hard else easy).written_date(chance), examples)
    ]


def _conversations(chance: Random, examples: int, *, hard: bool) -> list[File]:
    return [
        _lines(f"{part}.jsonl", lines)
        for part, lines in _parts(lambda: (harder if hard else easy).conversation(chance), examples)
    ]


def _speech(chance: Random, examples: int, *, hard: bool) -> list[File]:
    """Return, for each part, sounds and their transcripts; and other sentences, for a language model."""
    files: list[File] = []
    said: set[str] = set()
    for part, texts in _parts(lambda: spoken_sentence(chance), examples):
        said |= set(texts)
        sounds = [f"{part}/{i}.wav" for i in range(1, len(texts) + 1)]
        files.append(_lines(f"{part}.tsv", [f"{sound}\t{text}" for sound, text in zip(sounds, texts, strict=True)]))
        files += [
            File(sound, encode_wav(spoken(text, chance, hard=hard), RATE), 1)
            for sound, text in zip(sounds, texts, strict=True)
        ]
    others: list[str] = []
    while len(others) < _OTHERS * examples:
        if (text := spoken_sentence(chance)) not in said:
            others.append(text)
    return [*files, _lines("text.txt", others)]


def _parts(make: Callable[[], T], examples: int) -> Iterator[tuple[str, Sequence[T]]]:
    """Yield training, validation and test examples, none of them twice."""
    sizes = _sizes(examples)
    drawn = _distinct(make, sum(sizes.values()))
    for part, size in sizes.items():
        yield part, drawn[:size]
        drawn = drawn[size:]


def _sizes(examples: int) -> dict[str, int]:
    return {"train": examples, "valid": examples // _HELD_OUT, "test": examples // _HELD_OUT}


def _distinct(make: Callable[[], T], count: int) -> list[T]:
    distinct: dict[T, None] = {}
    while len(distinct) < count:
        distinct[make()] = None
    return list(distinct)


def _lines(name: str, lines: Sequence[str]) -> File:
    return File(name, _content(lines), len(lines))


def _content(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


class MakeFiles(Protocol):
    """A function that makes the files of a data set."""

    def __call__(self, chance: Random, examples: int, *, hard: bool) -> list[File]:
        """Return the files of a data set, as `make_data` does."""


class Dataset(NamedTuple):
    """A data set.

    make: a function of a generator, a number of training examples and hard that makes its files. examples: the usual
    number; None where it is fixed.
    """

    make: MakeFiles
    examples: int | None


DATASETS: dict[str, Dataset] = {
    "text": Dataset(_text, None),
    "pairs": Dataset(_pairs, 4000),
    "labels": Dataset(_labels, 2000),
    "trees": Dataset(_trees, 2000),
    "pictures": Dataset(_pictures, 600),
    "captions": Dataset(_captions, 600),
    "minimal-pairs": Dataset(_minimal_pairs, 2000),
    "dates": Dataset(_dates, 4000),
    "conversations": Dataset(_conversations, 2000),
    "speech": Dataset(_speech, 400),
}
