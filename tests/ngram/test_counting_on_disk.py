"""Texts larger than memory: counted in runs on disk, the model is the same, to the byte."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import END, random_documents, stream_of

import chainrule
from chainrule.base import scratch
from chainrule.errors import EstimationError, OutputError, SettingError
from chainrule.ngram.config import DiskPlan
from chainrule.ngram.counting import count as memory_estimate
from chainrule.ngram.counting import external as merge
from chainrule.ngram.counting import external as runs
from chainrule.ngram.counting.count import count_ngrams
from chainrule.ngram.counting.external import count_in_runs
from chainrule.ngram.estimation import estimates as build_table
from chainrule.ngram.trie import table as tables
from chainrule.ngram.trie.query_kernels import fill_slots, slot_of

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.ngram.counting.counts import Counts

DOCUMENTS = random_documents(6, 40, 120, 30)
TEXTS = [" ".join(f"w{word}" for word in document) for document in DOCUMENTS]
LINES = chainrule.Lines(TEXTS)


@pytest.fixture
def small_parts(monkeypatch) -> None:
    """So that a text of a few hundred words has many runs, chunks and parts."""
    monkeypatch.setattr(runs, "BASE_BYTES", 0)
    monkeypatch.setattr(runs, "_MIN_TOKENS", 100)
    monkeypatch.setattr(merge, "_MIN_CHUNK", 7)
    monkeypatch.setattr(build_table, "_PART", 64)
    monkeypatch.setattr(tables, "_PART", 50)
    monkeypatch.setattr(scratch.parts_released, "__defaults__", (60,))


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The folder of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def on_disk(stream: np.ndarray, vocabulary_size: int, order: int, run_tokens: int) -> Counts:
    plan = DiskPlan(stream.size, run_tokens, memory=2000, bytes=0, folder="")
    return count_in_runs(stream, vocabulary_size, order, plan)


def check_equal(actual: Counts, expected: Counts) -> None:
    assert actual.level_sizes == expected.level_sizes
    for name in ("words", "begin", "suffixes", "counts"):
        assert getattr(actual, name).dtype == getattr(expected, name).dtype
        assert getattr(actual, name).tolist() == getattr(expected, name).tolist()


@given(seed=st.integers(0, 10**9), vocabulary=st.integers(4, 60), order=st.integers(1, 6), run=st.integers(30, 400))
def test_counts_of_runs_are_those_of_the_whole(seed: int, vocabulary: int, order: int, run: int) -> None:
    stream = stream_of(random_documents(seed, vocabulary, 60, 10))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "_MIN_CHUNK", 5)
        check_equal(on_disk(stream, vocabulary, order, run), count_ngrams(stream, vocabulary, order))


def test_texts_that_share_no_word_are_merged() -> None:
    """Then every chunk has the n-grams of one run, and the largest run is no measure of the others."""
    stream = stream_of([[3, 4, 3], [3, 4]] * 20 + [[5, 6, 5, 7]] * 30 + [[8]] * 3)
    check_equal(on_disk(stream, 9, 4, 60), count_ngrams(stream, 9, 4))


def test_node_numbers_are_wide_only_where_there_are_too_many_for_32_bits(monkeypatch) -> None:
    """How many nodes there could be is known before it is known how many there are."""
    monkeypatch.setattr(runs, "_index_type", lambda *sizes: np.int64)
    stream = stream_of(DOCUMENTS)
    check_equal(on_disk(stream, 40, 4, 300), count_ngrams(stream, 40, 4))
    monkeypatch.setattr(merge, "narrowest", lambda limit: np.int64)
    wide = on_disk(stream, 40, 4, 300)
    assert wide.begin.dtype == wide.suffixes.dtype == np.int64
    assert wide.suffixes.tolist() == count_ngrams(stream, 40, 4).suffixes.tolist()


class Setting(NamedTuple):
    smoothing: Any = "modified-kneser-ney"
    order: int = 5
    others: dict[str, Any] = {}  # noqa: RUF012


@pytest.mark.spread(6)
@pytest.mark.parametrize(
    "setting",
    [
        Setting(),
        Setting(others={"prune": (0, 0, 1)}),
        Setting(others={"prune": (0, 1, 1, 2)}),
        Setting(others={"begins": "all"}, order=4),
        Setting(others={"kenlm_compatible": True}, order=3),
        Setting("kneser-ney", others={"prune": (0, 2)}),
        Setting("absolute", 3),
        Setting("witten-bell", 4, {"prune": (0, 1)}),
        Setting("jelinek-mercer", 3, {"weights": (0.1, 0.2, 0.3, 0.4)}),
        Setting("lidstone", 3),
        Setting("maximum-likelihood", 2),
        Setting("stupid-backoff"),
    ],
    ids=str,
)
def test_a_model_of_little_memory_has_the_same_bytes(setting: Setting, small_parts, folder) -> None:
    config = chainrule.NGramConfig(smoothing=setting.smoothing, order=setting.order, **setting.others)
    plans: list[DiskPlan] = []
    arrays, records = [], []
    for memory in (None, 40_000):
        model = chainrule.train(LINES, config, tokenizer="whitespace", memory=memory, on_plan=plans.append)
        model.save(folder / "lm", overwrite=True)
        arrays.append([path.name for path in (folder / "lm").glob("arrays-*")])  # named by their content
        records.append({name: model.record[name] for name in ("ngrams", "ngrams_counted", "discounts", "tokens")})
        shutil.rmtree(folder / "lm")
    assert arrays[0] == arrays[1]
    assert records[0] == records[1]
    assert len(plans) == 1
    assert plans[0].run_tokens < 1200
    assert not list(folder.iterdir())


@pytest.mark.thorough
def test_a_count_file_of_little_memory_has_the_same_bytes(small_parts, folder) -> None:
    plans: list[DiskPlan] = []
    chainrule.count_text(LINES, folder / "whole", order=4)
    chainrule.count_text(LINES, folder / "runs", order=4, memory="50K", on_plan=plans.append)
    assert plans
    assert (folder / "runs").read_bytes() == (folder / "whole").read_bytes()


def test_where_memory_would_not_do_the_disk_is_used_unasked(small_parts, tmp_path, monkeypatch) -> None:
    (tmp_path / "text").write_text("".join(line + "\n" for line in TEXTS))
    chainrule.train(tmp_path / "text").save(tmp_path / "whole")
    plans: list[DiskPlan] = []
    monkeypatch.setenv("CHAINRULE_MEMORY", "60K")
    model = chainrule.train(tmp_path / "text", on_plan=plans.append)
    assert f"on disk, with about {plans[0].bytes / 1000:.1f} kB of temporary files in" in str(plans[0])
    monkeypatch.delenv("CHAINRULE_MEMORY")
    model.save(tmp_path / "runs")
    names = [{path.name for path in (tmp_path / name).glob("arrays-*")} for name in ("whole", "runs")]
    assert names[0] == names[1]


def test_how_large_the_temporary_files_will_be_is_rather_too_much(folder, small_parts, monkeypatch) -> None:
    chance = np.random.default_rng(4)
    stream = np.append(np.minimum(chance.zipf(1.3, 100_000), 5000) + 1, END).astype(np.int32)
    stream[::20] = END
    monkeypatch.setattr(memory_estimate, "SAMPLE", 20_000)
    plan = runs.plan_runs(stream, 5002, 4, 2_000_000)
    written: list[int] = []
    for name in ("append", "reserve"):
        method = getattr(scratch.GrowingArray, name)

        def watched(self: Any, given: Any, method: Any = method) -> None:
            before = self.size
            method(self, given)
            written.append((self.size - before) * self.dtype.itemsize)

        monkeypatch.setattr(scratch.GrowingArray, name, watched)
    counts = count_in_runs(stream, 5002, 4, plan)
    assert plan.run_tokens < stream.size // 2
    assert sum(written) <= plan.bytes <= 4 * sum(written)
    assert counts.level_sizes == count_ngrams(stream, 5002, 4).level_sizes


@pytest.mark.parametrize("span", [1200, 2500, 10_000])
def test_an_index_filled_in_parts_is_that_of_one_pass(span: int) -> None:
    """Also where nodes that find no slot at the end go on at the beginning."""
    chance = np.random.default_rng(7)
    wrapped = False
    for _ in range(6):
        runs_of = chance.integers(17, 400, 40)  # contexts 1 to 40, each with a long run of children
        begin = np.concatenate([[1], 41 + np.concatenate([[0], np.cumsum(runs_of)])]).astype(np.int32)
        words = np.concatenate([[0], np.arange(40), *(np.arange(size) * 3 for size in runs_of)]).astype(np.int32)
        size = int(runs_of.sum() * 1.1)  # fuller than an index ever is, so that there are long searches
        expected, actual = np.zeros(size, np.int32), np.zeros(size, np.int32)
        is_filled = fill_slots(words, begin, expected)
        parts = [(1, 9), (9, 30), (30, begin.size - 1)]
        assert tables._fill_on_disk(words, begin, actual, span, parts) == is_filled
        if is_filled:
            assert actual.tolist() == expected.tolist()
            wrapped |= bool(expected[0] > 0 and slot_of(*_child(begin, words, expected[0]), size) > size // 2)
    assert wrapped


def _child(begin: np.ndarray, words: np.ndarray, node: int) -> tuple[int, int]:
    return int(np.searchsorted(begin, node, side="right")) - 1, int(words[node])


def test_too_small_a_disk_is_refused_before_anything_is_counted(small_parts, folder, monkeypatch) -> None:
    usage = shutil.disk_usage(folder)._replace(free=30_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    tasks: list[str] = []
    with pytest.raises(
        OutputError,
        match=r"tokens needs about [1-9][0-9.,]* [kM]B for temporary files, and [0-9.,]+ (bytes|kB|MB) are free; name",
    ):
        chainrule.train(LINES, memory=60_000, progress=lambda task, done, total: tasks.append(task))
    assert "counting n-grams" not in tasks


def test_a_disk_that_gets_full_is_an_error_that_leaves_nothing(small_parts, folder, monkeypatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(
        OutputError, match=r"no room for a temporary file of [1-9]\S* (bytes|kB|MB): No space left on device"
    ):
        chainrule.train(LINES, memory=60_000)
    assert not list(folder.iterdir())


def test_an_interrupt_leaves_nothing(small_parts, folder) -> None:
    def interrupt(task: str, done: float, total: float | None) -> None:
        if task == merge.MERGING and done > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chainrule.train(LINES, memory=60_000, progress=interrupt)
    assert not list(folder.iterdir())


def test_a_folder_of_temporary_files_that_is_not_there_is_refused(small_parts, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    with pytest.raises(SettingError, match=r"TMPDIR is .*none, where no file can be written; name another folder"):
        chainrule.train(LINES, memory=60_000)


def test_a_document_longer_than_a_run_is_refused(small_parts, folder) -> None:
    stream = np.append(np.full(5000, 3, np.int32), END).astype(np.int32)
    with pytest.raises(EstimationError, match="a document has more than 50 tokens, too many to be counted in runs of"):
        on_disk(stream, 4, 3, 100)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"memory": "much"}, "memory is 'much'; expected a number of bytes, such as 8G"),
        ({"memory": 0}, "memory is 0; expected a number of bytes above 0"),
        ({"memory": "1G", "tune": LINES}, "tuning needs all counts in memory"),
        ({"memory": "1G", "config": chainrule.NGramConfig(smoothing="good-turing")}, "good-turing needs all counts"),
        ({"memory": "1G", "config": chainrule.NGramConfig(smoothing="jelinek-mercer")}, "jelinek-mercer needs all"),
        ({"memory": "1G", "config": chainrule.CacheConfig()}, "only the counting of n-grams can be limited"),
    ],
    ids=str,
)
def test_what_memory_cannot_be_limited_for_is_refused_before_the_text_is_read(
    settings: dict[str, Any], message: str
) -> None:
    read: list[str] = []
    with pytest.raises(SettingError, match=message):
        chainrule.train(LINES, progress=lambda task, done, total: read.append(task), **settings)
    assert not read


def test_less_memory_than_the_program_itself_needs_is_refused() -> None:
    with pytest.raises(EstimationError, match=r"needs at least 2\d\dM of memory, even on disk, and may use 100M"):
        chainrule.train(chainrule.Lines(["a b"] * 300_000), memory="100M")
