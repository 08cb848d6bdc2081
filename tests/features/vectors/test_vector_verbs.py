"""The verbs of word vectors: train, count --window, nearest, analogy, odd, evaluate, map, convert."""

from __future__ import annotations

import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from chainrule.cli.main import run


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A text, and the vectors of its words."""
    folder = tmp_path_factory.mktemp("vectors")
    rng = np.random.default_rng(4)
    lines = [" ".join(f"word{(start + k) % 30}" for k in range(8)) for start in rng.integers(0, 30, 200)]
    (folder / "corpus.txt").write_text("\n".join(lines) + "\n")
    paths = str(folder / "corpus.txt"), "-o", str(folder / "words")
    with redirect_stdout(StringIO()) as out:
        status = run(["train", "vectors", *paths, "--dimensions", "12", "--epochs", "30", "--sample", "0"])
    assert (status, out.getvalue().splitlines()[0]) == (
        0,
        f"{folder / 'words'}: 30 words, 12 dimensions; 1,600 tokens in 200 documents, 0.00% unknown",
    )
    return folder


@pytest.fixture
def corpus(learned, tmp_path):
    return Path(shutil.copy(learned / "corpus.txt", tmp_path))


@pytest.fixture
def words(learned, corpus):
    return Path(shutil.copytree(learned / "words", corpus.with_name("words")))


def test_from_a_text_to_all_that_vectors_tell(corpus, words, chainrule) -> None:
    assert sorted(path.suffix for path in words.iterdir()) == [".json", ".md", ".safetensors"]
    assert len(chainrule("nearest", words, "word3", "--top", 4).lines) == 4
    assert chainrule("nearest", words, "word3", "--contexts", "--top", 1, "--json").json["probability"] < 1
    assert len(chainrule("analogy", words, "word1", "word2", "word11", "--top", 2).lines) == 2
    assert len(chainrule("odd", words, "word1", "word2", "word3", "word20").lines) == 4
    assert "vectors" in chainrule("info", words).out
    assert chainrule("verify", words).status == 0
    pairs, questions = corpus.with_name("pairs.txt"), corpus.with_name("questions.txt")
    pairs.write_text("word1 word2 9\nword1 word15 1\nword5 word6 8\nword5 nothing 3\n")
    questions.write_text(": steps\nword1 word2 word3 word4\n: gram1\nword1 word2 word3 unknown\n")
    result = chainrule("evaluate", words, "--similarity", pairs, "--analogies", questions, "--json").json
    assert (result["similarity"][0]["pairs"], result["similarity"][0]["of"]) == (3, 4)
    assert [one["section"] for one in result["analogies"]] == ["steps", "gram1", "all of grammar", "all"]
    shown = chainrule("evaluate", words, "--similarity", pairs, "--analogies", questions)
    assert "3 of 4" in shown.out
    assert shown.status == 0
    page = corpus.with_name("map.html")
    assert chainrule("map", words, "-o", page, "--words", 20).out == f"{page}: 20 words\n"
    assert page.read_text().count("<circle") == 20
    assert "http" not in page.read_text().replace("http-equiv", "")
    for name in ("words.vec", "words.txt", "words.bin"):
        assert chainrule("convert", words, corpus.with_name(name)).status == 0
        assert chainrule("convert", corpus.with_name(name), corpus.with_name(f"{name}-again")).status == 0
        assert chainrule("nearest", corpus.with_name(name), "word3").out == chainrule("nearest", words, "word3").out


def test_words_that_stand_together(tmp_path, chainrule) -> None:
    (tmp_path / "text.txt").write_text("we like deep nets\nwe like nets\n")
    options = "--window", 1, "--weighting", "flat", "--vocabulary-min-count", 1
    result = chainrule("count", tmp_path / "text.txt", "-o", tmp_path / "pairs.tsv", *options)
    assert result.out == f"{tmp_path / 'pairs.tsv'}: 8 pairs of 4 words, at most 1 apart\n"
    assert (tmp_path / "pairs.tsv").read_text().splitlines()[:2] == ["we\tlike\t2", "like\twe\t2"]
    assert chainrule("count", tmp_path / "text.txt", "-o", tmp_path / "pairs.bin", *options).status == 0
    records = np.fromfile(tmp_path / "pairs.bin", np.dtype([("i", "<i4"), ("j", "<i4"), ("x", "<f8")]))
    assert records.tolist()[:2] == [(1, 2, 2.0), (2, 1, 2.0)]  # GloVe numbers words from 1
    assert (tmp_path / "pairs.vocab.txt").read_text().splitlines()[0] == "we 2"
    trained = chainrule("train", "vectors", "--counts", tmp_path / "pairs.bin", "-o", tmp_path / "glove", "--epochs", 2)
    assert (trained.status, trained.lines[0]) == (
        0,
        f"{tmp_path / 'glove'}: 4 words, 100 dimensions; 8 co-occurrences",
    )
    assert chainrule("nearest", tmp_path / "glove", "deep", "--top", 1).status == 0
    assert (
        "no TEXTS"
        in chainrule(
            "train", "vectors", tmp_path / "text.txt", "--counts", tmp_path / "pairs.bin", "-o", tmp_path / "other"
        ).error
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("nearest", "WORDS", "unheard"), "'unheard' has no vector: it is not one of the 30 words"),
        (("nearest", "WORDS", "word1", "--layer", "1"), "only --top, --restrict, --contexts, --json and --output"),
        (("analogy", "WORDS", "word1", "word2", "unheard"), "'unheard' has no vector"),
        (("odd", "WORDS", "word1", "word2"), "the words are word1, word2; expected three or more"),
        (("evaluate", "WORDS", "--restrict", "5"), "give similarity, a set of pairs, or analogies, or both"),
        (("evaluate", "WORDS", "--similarity", "nowhere.txt"), "nowhere.txt"),
        (("score", "WORDS", "CORPUS"), "compares words: nearest, analogy, odd, map and evaluate take it"),
        (("evaluate", "WORDS"), "words holds word vectors; measure them with --similarity or --analogies"),
        (("evaluate", "WORDS", "--similarity", "few.txt", "--restrict", "5"), "--restrict is for analogies"),
        (("evaluate", "WORDS", "--analogies", "few.txt", "--unknown", "zero"), "--unknown is for similarity"),
        (("evaluate", "WORDS", "--similarity", "nan.txt"), "nan.txt, line 1: 'word1 word2 nan' is not a pair"),
        (("convert", "WORDS", "words.arpa"), "words.arpa: its ending names no format of word vectors; expected .vec, "),
        (("convert", "WORDS", "words.xyz"), "words.xyz: its ending names no format"),
        (("convert", "WORDS", "foreign", "--overwrite"), "foreign: its config.json is of another program"),
        (
            ("train", "vectors", "CORPUS", "-o", "new", "--method", "glove", "--negatives", "7"),
            "--negatives is for skip",
        ),
        (
            ("train", "vectors", "CORPUS", "-o", "new", "--loss", "softmax", "--negatives", "7"),
            "--negatives is for skip",
        ),
        (("train", "vectors", "CORPUS", "-o", "new", "--method", "cbow", "--x-max", "3"), "--x-max is for the method"),
        (("train", "vectors", "CORPUS", "-o", "new", "--buckets", "5"), "--buckets is for subwords; leave it out"),
        (("train", "vectors", "CORPUS", "-o", "WORDS"), "there is a model already"),
        (("train", "vectors", "CORPUS", "-o", "new", "--window", "0"), "--window is 0"),
        (("map", "WORDS", "-o", "map.png"), "must end in .html"),
        (("map", "two.vec", "-o", "map.html", "--method", "tsne"), "a map needs three words or more"),
        (("nearest", "unequal.vec", "a"), "unequal.vec: line 2 has 1 number after its word; expected 2"),
        (("count", "CORPUS", "-o", "pairs.tsv", "--window", "2", "--vocabulary-min-count", "9999"), "no word that is"),
        (("count", "CORPUS", "-o", "pairs.tsv", "--window", "2", "--order", "2"), "choose one"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(corpus, words, chainrule, monkeypatch, command, message) -> None:
    monkeypatch.chdir(corpus.parent)
    corpus.with_name("two.vec").write_text("a 1 2\nb 1 2\n")
    corpus.with_name("unequal.vec").write_text("a 1 2\nb 1\n")
    corpus.with_name("few.txt").write_text("word1 word2 3\n")
    corpus.with_name("nan.txt").write_text("word1 word2 nan\nword1 word3 4\n")
    corpus.with_name("foreign").mkdir()
    corpus.with_name("foreign").joinpath("config.json").write_text('{"a": 1}')
    places = {"WORDS": "words", "CORPUS": "corpus.txt"}
    assert message in chainrule(*(places.get(part, part) for part in command)).error


def test_neither_file_of_co_occurrences_replaces_another(corpus, chainrule) -> None:
    pairs, vocabulary = corpus.with_name("pairs.bin"), corpus.with_name("pairs.vocab.txt")
    vocabulary.write_text("precious")
    command = "count", corpus, "-o", pairs, "--window", 3
    assert f"{vocabulary}: exists already" in chainrule(*command).error
    assert (vocabulary.read_text(), pairs.exists()) == ("precious", False)
    shown = chainrule(*command, "--overwrite").lines
    assert [line.partition(":")[0] for line in shown] == [str(pairs), str(vocabulary)]


def test_a_tokenizer_or_vocabulary_without_a_least_count(corpus, words, chainrule) -> None:
    listed, new = corpus.with_name("listed.txt"), corpus.with_name("new")
    listed.write_text("word3\nword7\nword9\n")
    command = "train", "vectors", corpus, "-o", new, "--epochs", 1
    assert f"{new}: 3 words" in chainrule(*command, "--vocabulary", listed).out
    assert "nowhere.txt" in chainrule(*command, "--vocabulary", "nowhere.txt", "--overwrite").error
    assert "splits words into subwords" in chainrule(*command, "--tokenizer", "bpe", "--overwrite").error
    assert "no tokenizer called 'foo'" in chainrule(*command, "--tokenizer", "foo", "--overwrite").error
    several = chainrule(*command, "--vocabulary", listed, "--vocabulary-min-count", 3, "--overwrite").error
    assert "leave out --vocabulary-min-count and --vocabulary-size" in several
    corpus.write_text("a b c\n")
    assert "a lower --vocabulary-min-count" in chainrule(*command, "--overwrite").error


def test_a_run_that_has_ended_is_resumed_only_with_its_text_and_settings(corpus, words, chainrule) -> None:
    command = "train", "vectors", corpus, "-o", words, "--epochs", 30, "--sample", 0, "--resume", "--dimensions"
    assert "the run has ended; " in chainrule(*command, 12).err
    assert "dimensions was 12 and is 13. Use --overwrite" in chainrule(*command, 13).error
    assert (
        "the tokenizer's --vocabulary-min-count was 5 and is 2"
        in chainrule(*command, 12, "--vocabulary-min-count", 2).error
    )
    corpus.write_text(corpus.read_text() + "word1 word9\n")
    assert "the text differs" in chainrule(*command, 12).error


def test_a_correlation_that_is_not_defined_is_explained(corpus, words, chainrule) -> None:
    pairs = corpus.with_name("equal.txt")
    pairs.write_text("word1 word2 5\nword1 word3 5\nword1 word4 5\n")
    assert (
        "equal: no correlation; expected three known pairs or more"
        in chainrule("evaluate", words, "--similarity", pairs).out
    )
    pairs.write_text("word1 word2 9\nword1 word3 8\nword1 word15 1\nword3 word19 2\n")
    assert " to " in chainrule("evaluate", words, "--similarity", pairs).out


def test_info_of_a_file_of_vectors_names_the_verbs(chainrule, tmp_path: Path) -> None:
    (tmp_path / "few.vec").write_text("2 3\nking 1 2 3\nqueen 3 2 1\n")
    shown = chainrule("info", tmp_path / "few.vec").out
    assert "family      vectors" in shown
    assert "verbs       nearest, analogy, odd, map, evaluate" in shown
    (tmp_path / "few.txt").write_text("so it goes\n")
    assert "a model is a folder" in chainrule("info", tmp_path / "few.txt").err


def test_words_of_a_file_that_are_left_out_are_noted(chainrule, tmp_path: Path) -> None:
    path = tmp_path / "odd.vec"
    path.write_bytes(b"a 1 2\nb 1 3\nNew York 3 4\na 3 4\n. . . 3 5\na 0 1\ncaf\xe9 2 1\n")
    notes = [
        f"note: {path}: left out 2 rows of repeated words, such as 'a'; the first row of each is kept",
        f"note: {path}: left out 2 words with white space or a zero byte inside, such as 'New York'",
        f"note: {path}: 1 word not in UTF-8, such as 'caf\ufffd'; wrong bytes are shown as U+FFFD",
    ]
    similar = chainrule("nearest", path, "b", "--top", "9")
    assert similar.err.splitlines() == notes
    # Cosines with (1, 3): of a, (1, 2), 7 / sqrt(10 * 5); of caf\xe9, (2, 1), 5 / sqrt(10 * 5).
    assert similar.out.splitlines() == ["0.9899\ta", "0.7071\tcaf\ufffd"]
    assert chainrule("info", path).err.splitlines() == notes
    assert chainrule("analogy", path, "a", "b", "a").err.splitlines() == notes
    converted = chainrule("convert", path, tmp_path / "new.vec")
    assert converted.err.splitlines() == notes
    assert (tmp_path / "new.vec").read_bytes() == b"3 2\na 1.0 2.0\nb 1.0 3.0\ncaf\xe9 2.0 1.0\n"
    assert chainrule("nearest", tmp_path / "new.vec", "b").err.splitlines() == [notes[2].replace("odd", "new")]
