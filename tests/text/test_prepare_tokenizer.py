"""Which tokens a model gets to know: by count, by size, from a list."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.protocol import END, UNKNOWN
from chainrule.text.corpus.corpus import Lines
from chainrule.text.tokenization.config import TokenizerConfig
from chainrule.verbs.training.stream import train_speller

MARKERS = [b"<unk>", b"<s>", b"</s>"]
lines = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=6).map(" ".join), min_size=1, max_size=6)


def whitespace(**settings: object) -> TokenizerConfig:
    return TokenizerConfig(kind="whitespace", **settings)  # type: ignore[arg-type]


@given(lines, st.integers(1, 4), st.integers(4, 9) | st.none())
def test_the_most_frequent_words_are_kept_in_the_order_in_which_they_came(
    text: list[str], min_count: int, size: int | None
) -> None:
    tokenizer, stream, left_out, *_ = tokenize_source(
        Lines(text), whitespace(min_count=min_count, vocabulary_size=size)
    )
    words = [line.split() for line in text]
    counts = Counter(word for line in words for word in line)
    first = list(counts)
    kept = [word for word, count in counts.most_common() if count >= min_count][: None if size is None else size - 3]
    known = sorted(kept, key=first.index)
    assert tokenizer.vocabulary.tokens() == MARKERS + [word.encode() for word in known]
    expected = [[*(known.index(w) + 3 if w in known else UNKNOWN for w in line), END] for line in words]
    assert stream.dtype == np.int32
    assert list(left_out) == [word.encode() for word in first if word not in known]
    assert stream.tolist() == [token for line in expected for token in line]
    assert tokenizer.encode_texts(text).ids.tolist() == stream.tolist()


def test_a_list_of_tokens_is_known_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes("\ufeffthe\r\n<unk>\n\ncat\nthe\n</s>\nDOG".encode())
    tokenizer, stream, left_out, *_ = tokenize_source(Lines(["the dog", "a cat"]), whitespace(vocabulary=path))
    assert tokenizer.vocabulary.tokens() == [*MARKERS, b"the", b"cat", b"DOG"]
    assert stream.tolist() == [3, UNKNOWN, END, UNKNOWN, 4, END]
    assert left_out == [b"dog", b"a"]
    lowered, *_ = tokenize_source(Lines(["the dog"]), whitespace(vocabulary=path, normalise=("lower",)))
    assert lowered.vocabulary.tokens()[3:] == [b"the", b"cat", b"dog"]


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"a\nb c\n", "words.txt, line 2: a token has no space"), (b"\n\n<s>\n", "there is no token in it")],
)
def test_a_malformed_word_list_is_an_error(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "words.txt").write_bytes(data)
    with pytest.raises(TextError, match=message):
        tokenize_source(Lines(["a"]), whitespace(vocabulary=tmp_path / "words.txt"))


def test_the_unknown_word_is_counted_as_any_other() -> None:
    """What is left out and what is written <unk> in the text give one model."""
    text = ["a b a c", "d a b", "b e a", "a a b f", "a b c"]
    written = [" ".join(w if w in "ab" else "<unk>" for w in line.split()) for line in text]
    config = chainrule.NGramConfig(order=3)
    limited = chainrule.train(Lines(text), config, tokenizer=whitespace(vocabulary_size=5))
    marked = chainrule.train(Lines(written), config, tokenizer="whitespace", markers="keep")
    assert limited.tokenizer.vocabulary.tokens() == marked.tokenizer.vocabulary.tokens()
    assert limited.score(text).tolist() == marked.score(written).tolist()
    unigrams = chainrule.train(Lines(text), chainrule.NGramConfig(order=1), tokenizer=whitespace(vocabulary_size=5))
    shares = dict(unigrams.next(top=9))
    assert sum(shares.values()) == pytest.approx(1, abs=1e-6)
    assert shares["<unk>"] > 0.15  # 5 of 21 predictions, less what is discounted


def test_the_speller_learns_from_the_words_that_were_left_out() -> None:
    text = Lines(["the cat sat on the mat", "the cat saw xyzzy xyzzx"])
    model = chainrule.train(text, chainrule.UniformConfig(), tokenizer=whitespace(min_count=2))
    tokenizer, stream, *_ = tokenize_source(text, whitespace(min_count=2))
    ignorant = train_speller(tokenizer, stream, chainrule.UniformConfig())
    assert model.speller.log_prob(b"xyzzz") > ignorant.log_prob(b"xyzzz") + 3


def test_the_record_has_the_settings_of_the_tokenizer(tmp_path: Path) -> None:
    model = chainrule.train(Lines(["a b a"]), chainrule.UniformConfig(), tokenizer=whitespace(min_count=2))
    assert model.record["tokenizer"] == {"kind": "whitespace", "min_count": 2}
    model.save(tmp_path / "lm")
    assert chainrule.load(tmp_path / "lm").record["tokenizer"] == {"kind": "whitespace", "min_count": 2}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_count": 0}, "min_count is 0"),
        ({"vocabulary_size": 3}, "vocabulary_size is 3"),
        ({"vocabulary": "x", "min_count": 2}, "the vocabulary is that of the file"),
        ({"kind": "byte", "min_count": 2}, "byte has a vocabulary of its own"),
        ({"kind": "bpe", "vocabulary": "x"}, "bpe has a vocabulary of its own"),
        ({"kind": "x/tokenizer.json", "vocabulary_size": 500}, "leave out vocabulary_size"),
        ({"normalise": ("nfd",)}, "no normalisation called 'nfd'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        TokenizerConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("words", "no tokenizer called 'words'; choose one of word, whitespace, character, byte, bpe"),
        ("./words", "there is no such file"),
        ("tokenizer.json", "there is no such file"),
        ("/dev/zero", "/dev/zero: is no regular file; expected a tokenizer.json or a model folder"),
    ],
)
def test_an_unknown_tokenizer_is_an_error(kind: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        tokenize_source(Lines(["a"]), kind)


def test_pieces_cannot_be_learned_from_what_can_be_read_only_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for source in ("-", tmp_path / "pipe"):
        with pytest.raises(TextError, match="can be read only once, but bpe reads its text twice"):
            tokenize_source(chainrule.Corpus.of(source), "bpe")


def test_the_tokenizer_of_a_model_normalises_in_its_own_way(tmp_path: Path) -> None:
    config = TokenizerConfig(kind="word", normalise=("lower",))
    chainrule.train(Lines(["A b"]), chainrule.UniformConfig(), tokenizer=config).save(tmp_path / "lm")
    with pytest.raises(SettingError, match="normalisation of its own"):
        tokenize_source(Lines(["a"]), TokenizerConfig(kind=tmp_path / "lm", normalise=("nfc",)))
    reused, stream, *_ = tokenize_source(Lines(["B c A"]), TokenizerConfig(kind=tmp_path / "lm"))
    assert stream.tolist() == [4, UNKNOWN, 3, END]
    assert reused.normaliser.steps == ("lower",)


@pytest.mark.parametrize("kind", ["whitespace", "character"])
def test_a_saved_tokenizer_leaves_out_the_same_words_as_when_it_was_learned(kind: str, tmp_path: Path) -> None:
    """So that all models of one vocabulary and text spell alike, and their bits per byte can be compared."""
    text = ["b b b a a c", "rare words a b", "other rares c c b"]
    first = chainrule.train(Lines(text), tokenizer=TokenizerConfig(kind=kind, vocabulary_size=6))
    first.save(tmp_path / "lm")
    for config in (chainrule.NGramConfig(order=1), chainrule.UniformConfig()):
        second = chainrule.train(Lines(text), config, tokenizer=str(tmp_path / "lm"))
        assert second.tokenizer.vocabulary.tokens() == first.tokenizer.vocabulary.tokens()
        arrays = first.speller.arrays(), second.speller.arrays()
        assert arrays[0].keys() == arrays[1].keys()
        assert all(np.array_equal(arrays[0][name], arrays[1][name]) for name in arrays[0])
    before = chainrule.load(tmp_path / "lm").tokenizer
    elsewhere = tokenize_source(Lines(["new words", "a new b"]), str(tmp_path / "lm"))
    assert elsewhere.tokenizer.vocabulary.tokens() == before.vocabulary.tokens()
    assert elsewhere.stream.tolist() == before.encode_texts(["new words", "a new b"]).ids.tolist()
    if kind == "whitespace":
        assert list(elsewhere.left_out) == [b"new", b"words"]
