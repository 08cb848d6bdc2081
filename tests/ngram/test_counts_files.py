"""Count files: written as SRILM does, read back, summed, and refused where they cannot be."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import BEGIN, END, naive_counts

import chainrule
from chainrule.errors import EstimationError, SettingError, TextError
from chainrule.ngram.counting import files as counts_reading
from chainrule.ngram.counting import files as counts_writing
from chainrule.ngram.counting.files import read_counts
from chainrule.text.corpus.corpus import Lines
from chainrule.verbs.training.counts import count_text, train_counts

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.ngram.counting.counts import Counts
    from chainrule.text.tokenization.vocabulary import Vocabulary


def lines_of(path: Path) -> Counter[str]:
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    return Counter({words: int(number) for words, number in rows})


def grams_of(counts: Counts, vocabulary: Vocabulary) -> dict[str, int]:
    """The n-grams that were seen, spelled by walking down the trie."""
    grams: list[tuple[int, ...]] = [()] * counts.words.size
    for context in range(counts.begin.size - 1):
        for node in range(counts.begin[context], counts.begin[context + 1]):
            grams[node] = (*grams[context], int(counts.words[node]))
    for node in range(1, counts.words.size):
        suffix = grams[node][1:]
        assert grams[counts.suffixes[node]] == suffix
    return {
        " ".join(vocabulary.token(word) for word in gram): int(count)
        for gram, count in zip(grams[1:], counts.counts[1:].tolist(), strict=True)
        if count
    }


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=6), min_size=1, max_size=8), st.integers(1, 4))
def test_what_is_written_is_what_a_naive_count_finds(tmp_path_factory, documents: list[list[str]], order: int) -> None:
    path = tmp_path_factory.mktemp("counts") / "counts.txt"
    count_text(Lines([" ".join(d) for d in documents]), path, order=order, tokenizer="whitespace")
    ids = [[ord(word) - ord("a") + 3 for word in document] for document in documents]
    names = {BEGIN: "<s>", END: "</s>", **{3 + i: word for i, word in enumerate("abcde")}}
    expected = {
        " ".join(names[word] for word in gram): count
        for level in naive_counts(ids, order)
        for gram, count in level.items()
    }
    assert lines_of(path) == {**expected, "<s>": len(documents)}
    counts, vocabulary, _ = read_counts([str(path)])
    assert grams_of(counts, vocabulary) == expected


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst", ".xz", ".bz2"])
def test_counts_of_two_halves_are_those_of_the_whole(fixtures: Path, tmp_path: Path, suffix: str, monkeypatch) -> None:
    monkeypatch.setattr(counts_reading, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(counts_writing, "_BATCH", 1 << 10)
    text = (fixtures / "train.txt").read_text().splitlines()
    parts = {"whole": text, "first": text[:500], "second": text[500:]}
    for name, part in parts.items():
        count_text(Lines(part), tmp_path / f"{name}{suffix}", order=3)
    paths = {name: str(tmp_path / f"{name}{suffix}") for name in parts}
    whole, vocabulary, digests = read_counts([paths["whole"]], 3)
    merged, other, _ = read_counts([paths["first"], paths["second"]], 3)
    assert list(digests) == [paths["whole"]]
    assert grams_of(merged, other) == grams_of(whole, vocabulary)
    assert merged.level_sizes == whole.level_sizes


@pytest.mark.parametrize("smoothing", ["modified-kneser-ney", "good-turing", "witten-bell", "stupid-backoff"])
def test_a_model_of_counts_is_the_model_of_the_text(fixtures: Path, tmp_path: Path, smoothing) -> None:
    count_text(fixtures / "train.txt", tmp_path / "counts.gz", order=3)
    config = chainrule.NGramConfig(order=3, smoothing=smoothing)
    model = train_counts([tmp_path / "counts.gz"], config)
    expected = chainrule.train(fixtures / "train.txt", config)
    actual, wanted = (each.evaluate(fixtures / "heldout.txt") for each in (model, expected))
    assert actual.log_prob == pytest.approx(wanted.log_prob, rel=1e-6)
    assert actual.bits_per_byte == pytest.approx(wanted.bits_per_byte, rel=1e-6)
    for name in ("tokens", "documents", "unknown_tokens", "ngrams", "unseen_types"):
        assert model.record[name] == expected.record[name]
    model.save(tmp_path / "lm")
    assert chainrule.load(tmp_path / "lm").evaluate(fixtures / "heldout.txt").log_prob == actual.log_prob


def test_counts_in_any_order_of_lines_with_longer_n_grams_are_read(tmp_path: Path) -> None:
    lines = ["<s> a b\t2", "a b </s>\t1", "a b\t3", "<s> a\t2", "", "b </s>\t1", "  a 3", "b\t3\r", "</s>\t1", "<s>\t2"]
    (tmp_path / "c").write_text("\n".join(lines))
    counts, vocabulary, _ = read_counts([str(tmp_path / "c")], 2)
    expected = {"a": 3, "b": 3, "</s>": 1, "<s> a": 2, "a b": 3, "b </s>": 1}
    assert grams_of(counts, vocabulary) == expected
    counts, vocabulary, _ = read_counts([str(tmp_path / "c")])
    assert counts.order == 3


def test_a_tokenizers_alphabet_is_known_beforehand(tmp_path: Path) -> None:
    count_text(Lines(["ab", "ba"]), tmp_path / "c", order=3, tokenizer="byte")
    model = train_counts([tmp_path / "c"], chainrule.NGramConfig(order=3), tokenizer="byte")
    assert model.tokenizer.spells_everything
    assert np.isfinite(model.score(["zz"])).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\t1\nb\n", "line 2: 'b': expected words and then a count"),
        ("a\t1\nb c d\n", "line 2: 'b c d': expected words and then a count"),
        ("a\t1.5\n", r"line 1: 'a\\t1.5': expected words and then a count"),
        ("a\t1e3\n", "expected words and then a count"),
        ("a\t1\n\nb\t-2\n", r"line 3: 'b\\t-2': a count cannot be negative"),
        ("a\t99999999999999999999999\n", "line 1: .* a count can be at most 9,007,199,254,740,992"),
        ("7\n", "line 1: '7': there is a count without words"),
        (f"{'a ' * 25}1\n", "line 1: .*expected at most 24 words"),
        ("a\t1\nb\t1\na <s>\t1\n", "line 3: 'a <s>.*<s> can only be the first word"),
        ("a\t1\n</s> a\t1\n", "line 2: .*</s> only the last"),
        ("a\t1\na b\t1\n", "line 2: 'a b' has a count, but its part 'b' has none; 1-grams are missing"),
        ("a\t2\nb\t2\nc\t2\na b\t2\na b c\t1\n", "line 5: 'a b c' has a count, but its part 'b c' has none"),
        ("a\t2\nb\t2\nc\t2\nb c\t2\na b c\t1\n", "line 5: 'a b c' has a count, but its part 'a b' has none"),
        ("a\t2\nb\t2\na b\t3\n", "line 3: 'a b' has a count of 3, and its context 'a' a lower one"),
        ("\n\n", "there are no counts in it"),
        ("", "there are no counts in it"),
        ("a\t1\n\xff\t2\n", "line 2: .*not UTF-8"),
    ],
)
def test_what_is_wrong_is_reported_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.txt").write_bytes(text.encode("latin-1"))
    with pytest.raises(TextError, match=message):
        read_counts([str(tmp_path / "c.txt")])


def test_sums_that_overflow_are_reported(tmp_path: Path) -> None:
    (tmp_path / "c").write_text(f"a\t{2**53}\n" * 600)
    with pytest.raises(TextError, match="add up to"):
        read_counts([str(tmp_path / "c")])


def test_an_order_that_is_not_there_is_reported(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a\t2\n</s>\t1\na </s>\t1\n")
    with pytest.raises(TextError, match="there are no 3-grams in it, only 2-grams and shorter; set order=2"):
        read_counts([str(tmp_path / "c")], 3)


def test_a_line_without_an_end_is_reported(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(counts_reading, "BLOCK_BYTES", 100)
    (tmp_path / "c").write_text("a" * 250 + "\t1\n")
    with pytest.raises(TextError, match="line 1: the line has more than 100 bytes"):
        read_counts([str(tmp_path / "c")])


def test_what_counts_cannot_give_is_reported(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a\t2\n</s>\t1\na </s>\t1\n")
    config = chainrule.NGramConfig(order=2, smoothing="absolute")
    with pytest.raises(SettingError, match="limit it when you count the text"):
        train_counts([tmp_path / "c"], config, tokenizer=chainrule.TokenizerConfig(vocabulary_size=5))
    with pytest.raises(EstimationError, match="not one word in common"):
        train_counts([tmp_path / "c"], config, tune=Lines(["x y"]))
    with pytest.raises(SettingError, match="a model with begins='all' needs the text itself"):
        train_counts([tmp_path / "c"], chainrule.NGramConfig(order=3, begins="all"))
    tuned = train_counts([tmp_path / "c"], config, tune=Lines(["a", "a a"]))
    assert tuned.record["tuned_on_tokens"] == 5
