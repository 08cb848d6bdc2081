"""Mixes: the scarcest text whole, of the others what their shares say, each document once."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from samples import examples

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.text.corpus import mix, plain_text
from chainrule.text.corpus.corpus import Lines
from chainrule.text.corpus.mix import Ingredient, Mix
from chainrule.text.corpus.mix_kernels import choose
from chainrule.text.corpus.reading import Reading

fast = examples(0.8)


def text_of(name: str, documents: int, size: int = 20) -> bytes:
    return "".join(f"{name} {i} ".ljust(size - 1 + i % 3, ".") + "\n" for i in range(documents)).encode()


def file_of(folder: Path, name: str, documents: int, size: int = 20) -> str:
    (folder / name).write_bytes(text_of(name, documents, size))
    return str(folder / name)


def numbers(mixed: Mix) -> dict[str, list[int]]:
    """The documents of each file that have been drawn, by number."""
    found: dict[str, list[int]] = {}
    for block in mixed.blocks():
        for i, document in enumerate(block.documents(), 1):
            name, number, *_ = document.split(" ")
            assert block.locate(i).endswith(f"{name}, line {int(number) + 1}")
            found.setdefault(name, []).append(int(number))
    return found


@given(st.lists(st.integers(1, 50)), st.integers(0, 1500), st.integers(0, 9))
def test_the_kernel_chooses_as_a_plain_loop(sizes: list[int], wanted: int, seed: int) -> None:
    draws = np.random.default_rng(seed).random(len(sizes))
    chosen = np.empty(len(sizes), np.bool_)
    found = choose(np.array(sizes, np.int64), draws, wanted, sum(sizes), chosen)
    left, need, expected = sum(sizes), wanted, []
    for size, draw in zip(sizes, draws, strict=True):
        expected.append(draw * left < need)
        need, left = need - size * expected[-1], left - size
    assert chosen.tolist() == expected
    assert found == (need, left) == (need, 0)
    taken = sum(size for size, is_taken in zip(sizes, expected, strict=True) if is_taken)
    assert abs(taken - min(wanted, sum(sizes))) < max(sizes, default=1)


@fast
@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=4),
    st.lists(st.integers(1, 9), min_size=4, max_size=4),
    st.integers(0, 3),
)
@example([300, 30], [5, 5, 1, 1], 0)
def test_the_shares_come_true_and_no_document_comes_twice(
    tmp_path: Path, sizes: list[int], weights: list[int], seed: int
) -> None:
    weights = weights[: len(sizes)]
    shares = {
        file_of(tmp_path, f"{i}.txt", size): Fraction(weight, sum(weights))
        for i, (size, weight) in enumerate(zip(sizes, weights, strict=True))
    }
    mixed = Mix.of(shares, seed=seed)
    found = numbers(mixed)
    assert all(drawn == sorted(set(drawn)) for drawn in found.values())
    total = min(Path(name).stat().st_size / share for name, share in shares.items())
    for (name, share), part in zip(shares.items(), mixed.ingredients, strict=True):
        assert abs(part.bytes - total * share) < 30  # a document
        assert part.of_bytes == Path(name).stat().st_size
        assert part.documents == len(found.get(Path(name).name, []))
    assert any(part.documents == part.of_documents for part in mixed.ingredients)  # the scarcest


@fast
@given(st.integers(16, 3000), st.integers(16, 3000))
def test_the_same_documents_are_drawn_whatever_the_blocks(tmp_path: Path, size: int, turn: int) -> None:
    shares = {file_of(tmp_path, "a.txt", 100): "0.7", file_of(tmp_path, "b.txt", 400): "0.3"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_text, "BLOCK_BYTES", size)
        patch.setattr(mix, "TURN_BYTES", turn)
        found = numbers(Mix.of(shares, seed=5))
    assert found == numbers(Mix.of(shares, seed=5))


def test_a_seed_draws_the_same_documents_on_every_machine_and_another_one_others(tmp_path: Path) -> None:
    shares = {file_of(tmp_path, "a.txt", 8): 0.5, file_of(tmp_path, "b.txt", 40): 0.5}
    assert numbers(Mix.of(shares))["b.txt"] == [4, 7, 10, 11, 12, 18, 35, 38]  # once and for all
    assert numbers(Mix.of(shares, seed=1))["b.txt"] != numbers(Mix.of(shares))["b.txt"]


def test_every_document_is_as_likely_as_another(tmp_path: Path) -> None:
    shares = {file_of(tmp_path, "a.txt", 20): 0.5, file_of(tmp_path, "b.txt", 100): 0.5}
    counts = np.zeros(100)
    for seed in range(400):
        counts[numbers(Mix.of(shares, seed=seed))["b.txt"]] += 1
    assert counts.sum() == pytest.approx(400 * 20, rel=0.01)
    assert abs(counts - 80).max() < 5 * np.sqrt(400 * 0.2 * 0.8)


def test_texts_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mix, "TURN_BYTES", 200)
    shares = {file_of(tmp_path, "a.txt", 300): 0.75, file_of(tmp_path, "b.txt", 100): 0.25}
    taken = dict.fromkeys(shares, 0)
    for block in Mix.of(shares).blocks():
        taken[block.source] += block.text.size
        (_, many), (_, few) = taken.items()
        assert abs(many - 3 * few) < 4 * 230


def test_the_record_has_the_share_and_size_of_each_source(tmp_path: Path) -> None:
    names = file_of(tmp_path, "a.txt", 10), file_of(tmp_path, "b.txt", 100)
    (tmp_path / "b.txt").write_bytes(text_of("b.txt", 100) + b"\xff\n")
    model = chainrule.train(
        Mix.of({names[0]: 0.5, names[1]: 0.5}, seed=3, reading=Reading(encoding_errors="skip")),
        chainrule.UniformConfig(),
    )
    record = json.loads(json.dumps(model.record))
    assert record["mix"]["seed"] == 3
    assert [text["sources"] for text in record["mix"]["texts"]] == [[name] for name in names]
    assert [text["share"] for text in record["mix"]["texts"]] == ["1/2", "1/2"]
    assert [text["of_documents"] for text in record["mix"]["texts"]] == [10, 101]
    assert record["documents"] == sum(text["documents"] for text in record["mix"]["texts"])
    assert list(record["data"]) == list(names)
    assert record["repaired"] == {names[1]: 1}
    assert record["reading"]["encoding_errors"] == "skip"


def test_sources_of_every_kind_can_be_mixed_and_progress_reaches_the_whole() -> None:
    few, many = (Lines([f"{name} {i}" for i in range(n)], name) for name, n in (("few", 10), ("many", 90)))
    mixed = Mix([Ingredient(few, Fraction(1, 2)), Ingredient(many, Fraction(1, 2))])
    told: list[tuple[str, float, float | None]] = []
    lines = [line for block in mixed.blocks(lambda *args: told.append(args)) for line in block.documents()]
    assert {f"few {i}" for i in range(10)} < set(lines)
    assert told[-1][0] == "reading"
    assert told[-1][1] == pytest.approx(told[-1][2], abs=10)


@pytest.mark.parametrize(
    ("shares", "seed", "error", "told"),
    [
        ({"a.txt": 0.5, "b.txt": 0.4}, 0, SettingError, "add up to 0.9, expected 1"),
        ({"a.txt": 1}, -1, SettingError, "seed is -1; expected 0 or more"),
        ({"-": 0.5, "a.txt": 0.5}, 0, TextError, "standard input, -, cannot be mixed"),
        ({"no.txt": 1}, 0, TextError, "no.txt: there is no such file"),
        ({"empty.txt": 0.5, "a.txt": 0.5}, 0, TextError, "empty.txt: there is no text in it"),
    ],
)
def test_bad_shares_seeds_and_empty_files_are_errors(
    shares: dict[str, Any], seed: int, error: type[Exception], told: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file_of(tmp_path, "a.txt", 10)
    file_of(tmp_path, "b.txt", 10)
    file_of(tmp_path, "empty.txt", 0)
    with pytest.raises(error, match=told):
        list(Mix.of(shares, seed=seed).blocks())


def test_a_file_of_two_spellings_is_refused(tmp_path: Path) -> None:
    name = file_of(tmp_path, "a", 9)
    with pytest.raises(SettingError, match=r"the mix names .*/a twice, also as .*/[.]/a; each text has one share"):
        Mix.of({name: 0.5, f"{tmp_path}/./a": 0.5})


def test_a_text_too_short_for_its_share_is_repeated(tmp_path: Path) -> None:
    """Of 100 bytes, 60 come from a text of 25 (two whole readings and part of a third), 40 from one of 1,000."""
    short, long = tmp_path / "short", tmp_path / "long"
    short.write_text("".join(f"abc{i}\n" for i in range(5)))
    long.write_text("".join(f"x{i:03}\n" for i in range(200)))
    mixed = Mix.of({short: 0.6, long: 0.4}, size=100, seed=1)
    lines = [line for block in mixed.blocks() for line in block.documents()]
    counts = Counter(line for line in lines if line.startswith("abc"))
    assert sum(counts.values()) == 12  # of five bytes each
    assert set(counts.values()) == {2, 3}
    others = [line for line in lines if line.startswith("x")]
    assert len(others) == len(set(others)) == 8
    [first, second] = mixed.record["mix"]["texts"]
    assert (first["bytes"], first["of_bytes"], second["bytes"]) == (60, 25, 40)
    assert lines == [
        line for block in Mix.of({short: 0.6, long: 0.4}, size=100, seed=1).blocks() for line in block.documents()
    ]
    with pytest.raises(SettingError, match="size is 0; expected at least one byte"):
        Mix.of({short: 0.6, long: 0.4}, size=0)
