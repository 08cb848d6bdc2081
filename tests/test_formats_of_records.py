"""Whatever reads records reads the same from JSON lines, CSV, TSV and Parquet."""

from __future__ import annotations

import json
import wave
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest
from PIL import Image

from chainrule.errors import TextError
from chainrule.features.classify.labelled.pairs import read_labelled_pairs
from chainrule.features.classify.labelled.texts import read_labelled
from chainrule.features.preferences.answers import read_preferences
from chainrule.features.speech.sounds.transcripts import read_transcripts
from chainrule.features.trees.structures.graph_files import read_graphs
from chainrule.features.trees.structures.tree_files import read_trees
from chainrule.features.vision.pictures.boxes import read_boxes
from chainrule.features.vision.pictures.captions import read_captions
from chainrule.features.vision.pictures.labelled import read_pictures
from chainrule.text.corpus.records import read_table
from chainrule.text.parallel import pairs_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FLAT, NESTED = (".jsonl", ".csv", ".tsv", ".parquet"), (".jsonl", ".parquet")
READERS: dict[str, tuple[tuple[str, ...], Callable[[str], Any], list[dict[str, Any]]]] = {
    "labelled texts": (
        FLAT,
        lambda name: [(one.text, one.labels) for one in read_labelled(name)],
        [{"id": 1, "text": 'a "b", c', "label": "x"}, {"id": 2, "text": "d", "label": "y"}],
    ),
    "labelled pairs": (
        FLAT,
        lambda name: [(one.input, one.labels) for one in read_labelled_pairs(name, ratings=True)],
        [{"sentence1": "a, b", "sentence2": "c", "score": 3.5}, {"sentence1": "d", "sentence2": "e", "score": 2.5}],
    ),
    "pairs of texts": (
        FLAT,
        lambda name: [pairs_of([name], ("de", "en")).sources, pairs_of([name], ("de", "en")).targets],
        [{"en": "a dog", "n": 1, "de": "ein Hund"}, {"en": "it's", "n": 2, "de": "es ist"}],
    ),
    "preferences": (
        FLAT,
        lambda name: [one[:3] for one in read_preferences(name)],
        [{"prompt": "p", "chosen": "a, b", "rejected": "c"}],
    ),
    "documents": (
        FLAT,
        lambda name: [one.fields for one in read_table(name, ["text"])],
        [{"id": 7, "text": "a, b"}, {"id": 8, "text": "c"}],
    ),
    "captions": (
        FLAT,
        lambda name: [one.captions for one in read_captions(name, with_pictures=False)],
        [{"image": "1.png", "caption": "a, b"}, {"image": "1.png", "caption": "c"}],
    ),
    "pictures": (
        FLAT,
        lambda name: [(one.input.name, one.labels) for one in read_pictures(name)],
        [{"picture": "1.png", "label": "x"}, {"picture": "2.png", "label": "y"}],
    ),
    "transcripts": (
        FLAT,
        lambda name: [(one.text, one.frames.shape) for one in read_transcripts(name)],
        [{"path": "1.wav", "sentence": "a, b"}, {"path": "1.wav", "sentence": "c"}],
    ),
    "boxes": (
        NESTED,
        lambda name: [(one.input.name, repr(one.labels)) for one in read_boxes(name)],
        [{"image": "1.png", "boxes": [{"box": [0.0, 0.0, 3.0, 4.0], "label": "x"}]}],
    ),
    "trees": (
        NESTED,
        lambda name: [one.input.words for one in read_trees(name)],
        [{"words": ["a", "b"], "parents": [-1, 0], "label": "x"}],
    ),
    "graphs": (
        NESTED,
        lambda name: [(one.input.nodes, one.input.edges) for one in read_graphs(name)],
        [{"nodes": ["a", "b"], "edges": [[0, 1]], "label": "x"}],
    ),
    "labelled words": (
        NESTED,
        lambda name: [(one.text, one.labels) for one in read_labelled(name, "word")],
        [{"words": ["a", "b"], "labels": ["X", "Y"]}],
    ),
}


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", READERS)
def test_every_format_gives_the_same(name: str, tmp_path: Path) -> None:
    suffixes, read, rows = READERS[name]
    for number in (1, 2):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"{number}.png")
    with wave.open(str(tmp_path / "1.wav"), "wb") as sound:
        sound.setparams((1, 2, 16_000, 0, "NONE", ""))
        sound.writeframes((np.arange(8000) % 99).astype("<i2").tobytes())
    frame, found = pandas.DataFrame(rows), []
    for suffix in suffixes:
        path = tmp_path / f"a{suffix}"
        if suffix == ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        elif suffix == ".parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, sep="," if suffix == ".csv" else "\t", index=False)
        found.append(repr(read(str(path))))
    assert found == found[:1] * len(suffixes)


@pytest.mark.parametrize("name", [name for name, (suffixes, *_) in READERS.items() if suffixes == FLAT])
@pytest.mark.parametrize("suffix", FLAT)
def test_where_a_field_is_missing_those_that_exist_are_named(name: str, suffix: str, tmp_path: Path) -> None:
    if (name, suffix) == ("labelled pairs", ".tsv"):
        pytest.skip("three columns need no names, and a first row like the others is one of them")
    read, path = READERS[name][1], tmp_path / f"a{suffix}"
    frame = pandas.DataFrame([{"one": "a", "two": "b", "three": "c"}, {"one": "d", "two": "e", "three": "c"}])
    if suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="," if suffix == ".csv" else "\t", index=False)
    with pytest.raises(TextError) as refused:
        read(str(path))
    assert str(path) in str(refused.value)
    if (name, suffix) != ("pairs of texts", ".tsv"):  # where columns need no names
        assert "one" in str(refused.value)
