"""What workers do, without Spark: any cut of a text into tasks gives the counts of the local engine."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from frames import Frame

import chainrule
from chainrule.errors import EstimationError
from chainrule.features.spark import workers
from chainrule.features.spark.documents import Documents
from chainrule.features.spark.sections import Section, join_sections, sections
from chainrule.features.spark.training import _check_memory, _Text
from chainrule.features.spark.transport import (
    MESSAGES,
    ROW_BYTES,
    SORTED_BY,
    Message,
    batches_of,
    message_batches,
    messages_by_part,
    rows_of,
)
from chainrule.features.spark.workers import TokenizerParts, count_sections, learn_words, merged_parts
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.training import count_stream
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.text.tokenization.vocabulary import Vocabulary

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyarrow import RecordBatch

PARTS = TokenizerParts.of(Tokenizer.untrained(), grows=True, are_lines=True)


def batches(lines: Sequence[bytes | None], size: int = 7, start: int = 0) -> list[RecordBatch]:
    """As Spark sends the rows of one piece of file 1."""
    groups = [lines[i : i + size] for i in range(0, len(lines), size)]
    return [
        pa.record_batch(
            [
                pa.array(group, pa.binary()),
                pa.array([1] * len(group), pa.int64()),
                pa.array([start] * len(group), pa.int64()),
            ],
            names=["text", "source", "start"],
        )
        for group in groups
    ]


@pytest.mark.parametrize("begins", ["one", "all"])
@pytest.mark.parametrize("order", [1, 2, 5])
def test_any_cut_into_tasks_and_ranges_gives_the_counts_of_the_local_engine(
    order: int, begins: str, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_WAITING_NGRAMS", 300)  # some sections are added up while others are still to come
    lines = (fixtures / "train.txt").read_bytes().splitlines()
    config = NGramConfig(order=order, begins=begins)  # type: ignore[arg-type]
    learner = PARTS.tokenizer
    (row,) = (batch.to_pylist()[0] for batch in learn_words(batches(lines), PARTS))
    learner.vocabulary.absorb(Vocabulary(row["tokens"].split(b"\n")))
    stream = learner.encode(np.frombuffer(b"\n".join([*lines, b""]), np.uint8)).ids
    assert np.frombuffer(row["counts"], np.int64).tolist() == np.bincount(stream).tolist()
    expected = count_stream(stream, len(learner.vocabulary), config)

    known = TokenizerParts.of(learner, grows=False, are_lines=True)
    (row,) = (batch.to_pylist()[0] for batch in learn_words(batches(lines), known))
    assert np.frombuffer(row["counts"], np.int64).tolist() == np.bincount(stream).tolist()
    size = len(learner.vocabulary)
    bounds = [0, 1, 3, 4, 50, 51, size - 1, size]
    rng = np.random.default_rng(0)
    cuts = [0, *sorted(rng.integers(1, len(lines), 4).tolist()), len(lines)]
    rows = [
        row
        for first, last in itertools.pairwise(cuts)
        for row in rows_of(count_sections(batches(lines[first:last]), known, config, bounds, 100))
    ]
    rng.shuffle(rows)  # type: ignore[arg-type]
    by_part = batches_of(workers.PARTS, sorted(rows, key=lambda row: row[0]))
    merged = dict(merged_parts(by_part))
    assert list(merged) == [1, 2, 3, 4, 5, 6]  # nothing begins with <unk>
    parts = [Section.empty(1, order), *(section for section in merged.values() if isinstance(section, Section))]
    counts = join_sections(parts, stream.size * order)
    assert counts.level_sizes == expected.level_sizes
    for name in ("words", "begin", "suffixes", "counts"):
        assert np.array_equal(getattr(counts, name), getattr(expected, name)), name


def test_a_section_of_no_words_is_empty() -> None:
    counts = count_stream(np.array([3, 4, 2], np.int32), 6, NGramConfig(order=3))
    (last,) = sections(counts, [5, 6])
    empty = Section.empty(1, 3)
    assert last.pack() == empty.pack() == Section.unpack(empty.pack()).pack()


def test_messages_of_any_size_are_sent_in_small_rows() -> None:
    """Java holds rows as a whole: one of the hundred megabytes that begin with a comma was more than it had."""
    large = np.random.default_rng(0).bytes(5 * ROW_BYTES // 2)
    sent = [Message(3, "counts", 2, 3, large), Message(3, "counts", 1, 3, b""), Message(0, "lower", 2, 3, b"\x01\x02")]
    rows = [row for batch in message_batches(sent) for row in rows_of([batch])]
    assert [len(row[-1]) for row in rows] == [ROW_BYTES, ROW_BYTES, ROW_BYTES // 2, 0, 2]
    columns = [field.split()[0] for field in MESSAGES.split(", ")]
    in_order = sorted(rows, key=lambda row: [row[columns.index(name)] for name in SORTED_BY])
    received = {part: dict(kinds) for part, kinds in messages_by_part(batches_of(MESSAGES, in_order))}
    assert received == {0: {"lower": [sent[2]]}, 3: {"counts": [sent[1], sent[0]]}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"caf\xe9", "document 9: byte 0xe9 is not UTF-8; convert it to UTF-8 first"),
        (b"an </s> inside", "the text, document 9: </s> occurs in the text, but is a marker of the model"),
        (None, "a document is null; drop such rows first"),
    ],
)
def test_the_errors_of_texts_come_back_as_rows(line: bytes | None, message: str) -> None:
    texts = [b"a line"] * 8 + [line] + [b"a line"]
    (row,) = (batch.to_pylist()[0] for batch in learn_words(batches(texts, start=77), PARTS))
    assert message in row["error"]
    assert (row["source"], row["start"]) == (1, 77)


def test_carriage_returns_and_newlines_inside_documents() -> None:
    """Of files, CRLF ends lines; a row of a data frame may have several lines."""
    (row,) = (batch.to_pylist()[0] for batch in learn_words(batches([b"one two\r", b"", b"two"]), PARTS))
    assert row["tokens"].split() == [b"one", b"two"]
    assert np.frombuffer(row["counts"], np.int64).tolist() == [0, 0, 3, 1, 2]
    rows = TokenizerParts.of(Tokenizer.untrained(), grows=True, are_lines=False)
    (row,) = (batch.to_pylist()[0] for batch in learn_words(batches([b"one two\nthree", b"one"]), rows))
    assert np.frombuffer(row["counts"], np.int64).tolist()[2] == 2


def test_a_driver_without_memory_for_all_ngrams(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number is estimated from a sample, which is the whole text here, so that it is exact."""
    local = chainrule.train(fixtures / "train.txt", NGramConfig(order=3))
    lines = (fixtures / "train.txt").read_bytes().splitlines()
    frame = Frame("text binary, source long, start long", [[(line, 1, 0) for line in lines]], random.Random(0))
    stream = local.tokenizer.encode(np.frombuffer(b"\n".join([*lines, b""]), np.uint8)).ids
    documents = Documents(frame, {1: "train.txt"})  # type: ignore[arg-type]
    text = _Text(local.tokenizer, np.bincount(stream), (), documents, frame, [0], 1)  # type: ignore[arg-type]
    monkeypatch.setenv("CHAINRULE_MEMORY", "4M")
    _check_memory(text, 3, "")
    monkeypatch.setenv("CHAINRULE_MEMORY", "500K")
    ngrams = round(sum(local.record["ngrams"]), -3)
    assert 10_000 <= ngrams < 100_000  # which has two digits that count
    with pytest.raises(EstimationError, match=f"about {ngrams:,} n-grams on Spark's driver needs .*; set shards;"):
        _check_memory(text, 3, "set shards")
