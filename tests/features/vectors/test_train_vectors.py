"""Word vectors from a text to a folder and every file; the same on any number of threads and after an interruption."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
import torch
from samples import sampled

import chainrule
from chainrule import VectorsConfig
from chainrule.base.threads import set_threads
from chainrule.errors import ChainruleError, EstimationError, SettingError, TextError
from chainrule.features.vectors import train as training
from chainrule.features.vectors.model import load_vectors

METHODS = {
    "skip-gram": {},
    "tree": {"loss": "hierarchical"},
    "softmax": {"loss": "softmax"},
    "cbow": {"method": "cbow"},
    "subwords": {"subwords": "3-4", "buckets": 500},
    "cbow with subwords": {"method": "cbow", "subwords": "2-3", "buckets": 500},
    "glove": {"method": "glove", "window": 4},
}


def text(words: int = 40, lines: int = 300) -> chainrule.Lines:
    """Words in a ring, each near its neighbours."""
    rng = np.random.default_rng(4)
    starts = rng.integers(0, words, lines)
    return chainrule.Lines(" ".join(f"w{(start + k) % words}é" for k in range(9)) for start in starts)


def trained(source=None, *, threads: int | None = None, **settings):
    usual = {"dimensions": 18, "epochs": 2} | ({} if settings.get("method") == "glove" else {"sample": 0.0})
    config = VectorsConfig(**(usual | settings))
    set_threads(threads)
    try:
        return chainrule.train_vectors(source or text(), config, tokenizer="whitespace", progress=False)
    finally:
        set_threads(None)


def same(a, b) -> bool:
    return a.arrays.keys() == b.arrays.keys() and all(np.array_equal(a.arrays[n], b.arrays[n]) for n in a.arrays)


@pytest.mark.parametrize("method", sampled(METHODS, ["skip-gram", "cbow", "glove"]))
def test_neighbours_in_the_text_are_neighbours_in_space(method) -> None:
    epochs = 30 if method != "glove" else 60
    vectors = trained(epochs=epochs, rate=0.1, **METHODS[method])
    assert vectors.record["losses"][-1] < vectors.record["losses"][0]
    if method.startswith("cbow"):  # the sum of all around tells the word, and needs no likeness between them
        assert vectors.record["losses"][-1] < 0.7  # of six choices between two; knowing nothing is 6 log 2
        return
    around = {f"w{(10 + step) % 40}é" for step in (-3, -2, -1, 1, 2, 3)}
    found = {similar.word for similar in vectors.nearest("w10é", top=4)}
    assert len(found & around) >= 2


@pytest.mark.parametrize("method", ["skip-gram", "glove", "cbow"])
def test_the_number_of_threads_changes_nothing(method) -> None:
    source = text(1200, 700)  # words for four blocks
    one, two, three = (trained(source, threads=threads, **METHODS[method]) for threads in (1, 2, 3))
    assert same(one, two)
    assert same(one, three)
    assert not same(one, trained(source, seed=2, **METHODS[method]))


def test_vectors_are_of_words_as_people_write_them(tmp_path) -> None:
    lines = ['"Come, Watson, come!" he cried. "The game (as I said) is afoot."', "(He said: come, come.)"] * 5
    config = VectorsConfig(dimensions=4, epochs=1, sample=0.0)
    vectors = chainrule.train_vectors(chainrule.Lines(lines), config, progress=False)
    expected = Counter(re.findall(r"\w+|[^\w\s]", " ".join(lines)))
    assert dict(zip(vectors.words, vectors.arrays["counts"].tolist(), strict=True)) == expected
    assert "," in vectors
    for name in ("words.vec", "words.txt", "together.tsv"):
        if name == "together.tsv":
            chainrule.count_cooccurrences(chainrule.Lines(lines), progress=False).save(tmp_path / name)
        else:
            vectors.save(tmp_path / name)
        assert "\N{HALFWIDTH BLACK SQUARE}" not in (tmp_path / name).read_text("utf-8")


def test_a_list_of_words_names_punctuation_as_people_write_it(tmp_path) -> None:
    (tmp_path / "list").write_text("come\n,\n")
    config = VectorsConfig(dimensions=4, epochs=1, sample=0.0)
    words = chainrule.TokenizerConfig(vocabulary=tmp_path / "list")
    vectors = chainrule.train_vectors(chainrule.Lines(["come, come, or go"]), config, tokenizer=words, progress=False)
    assert (vectors.words, vectors.record["unknown_tokens"]) == (["come", ","], 2)
    missing = chainrule.TokenizerConfig(vocabulary=tmp_path / "missing")
    with pytest.raises(TextError, match="missing"):
        chainrule.train_vectors(tmp_path / "list", config, tokenizer=missing, progress=False)


@pytest.mark.parametrize("method", METHODS)
def test_a_folder_gives_back_what_was_saved(method, tmp_path) -> None:
    vectors = trained(**METHODS[method])
    vectors.save(tmp_path / "words")
    chainrule.verify(tmp_path / "words")
    again = load_vectors(tmp_path / "words")
    assert same(again, vectors)
    assert again.words == vectors.words
    assert "vectors" in str(chainrule.info(tmp_path / "words"))
    assert same(chainrule.load(tmp_path / "words", chainrule.WordVectors), vectors)
    with pytest.raises(SettingError, match="compares words"):
        chainrule.load(tmp_path / "words", chainrule.CausalModel)


@pytest.mark.parametrize("name", ["words.vec", "words.vec.gz", "words.txt", "words.bin"])
def test_a_file_gives_back_words_and_numbers(name, tmp_path) -> None:
    vectors = trained()
    vectors.save(tmp_path / name)
    again = load_vectors(tmp_path / name)
    assert again.words == vectors.words
    assert np.array_equal(again.vectors, vectors.vectors)


@pytest.mark.parametrize("method", ["subwords", "cbow with subwords"])
def test_a_file_of_fasttext_knows_unknown_words_by_their_ngrams(method, tmp_path) -> None:
    vectors = trained(**METHODS[method])
    vectors.save(tmp_path / "words.bin")
    info = chainrule.info(tmp_path / "words.bin")
    assert (info.family, info.vocabulary_size) == ("vectors", len(vectors.tokenizer.vocabulary))
    again = load_vectors(tmp_path / "words.bin")
    assert again.words == vectors.words
    assert np.allclose(again.vectors, vectors.vectors, atol=1e-7)
    assert "w3éé" not in vectors
    assert np.allclose(again["w3éé"], vectors["w3éé"], atol=1e-7)
    # The mean of the word's own row and those of its n-grams.
    ngrams = vectors.ngrams.of("w3é".encode())
    rows = [vectors.arrays["ngrams"][list(vectors.arrays["buckets"]).index(bucket)] for bucket in ngrams]
    own = vectors.arrays["centres"][vectors.row_of("w3é")]
    assert np.allclose(np.mean([own, *rows], axis=0), vectors["w3é"], atol=1e-6)


def test_every_cut_of_a_file_of_fasttext_is_a_clear_error(tmp_path) -> None:
    vectors = trained(chainrule.Lines(["a b c d"] * 5), epochs=1, subwords="2-2", buckets=5, dimensions=2)
    vectors.save(tmp_path / "whole.bin")
    data = (tmp_path / "whole.bin").read_bytes()
    for size in range(len(data)):
        (tmp_path / "cut.bin").write_bytes(data[:size])
        with pytest.raises(ChainruleError, match="cut"):
            load_vectors(tmp_path / "cut.bin")


def test_the_softmax_of_contexts_sums_to_one_and_knows_the_neighbours() -> None:
    vectors = trained(loss="softmax", epochs=40, rate=0.2, window=1)
    likely = vectors.context_probabilities("w10é")
    assert likely.sum() == pytest.approx(1, abs=1e-5)
    assert {similar.word for similar in vectors.likeliest_contexts("w10é", top=2)} == {"w9é", "w11é"}


def test_the_odd_one_out_has_the_least_cosine_with_the_mean() -> None:
    vectors = trained(epochs=30, rate=0.1)
    assert vectors.odd(["w10é", "w11é", "w12é", "w30é"])[0].word == "w30é"


@pytest.mark.parametrize("method", ["skip-gram", "subwords", "glove"])
def test_a_run_goes_on_bit_for_bit(method, tmp_path, monkeypatch) -> None:
    import signal

    monkeypatch.setattr("chainrule.features.vectors.learning.word2vec.MOST_TOKENS", 150)
    monkeypatch.setattr("chainrule.features.vectors.learning.word2vec._LEAST_TOKENS", 40)
    monkeypatch.setattr("chainrule.features.vectors.learning.learning._LEAST_ROWS", 10)
    settings = {"dimensions": 6, "epochs": 4, "window": 3, **METHODS[method]}
    source = text()
    whole = chainrule.train_vectors(source, VectorsConfig(**settings), tokenizer="whitespace", progress=False)

    def interrupt(report) -> None:
        if report.step == report.steps // 2 + 1:
            assert report.epoch != int(report.epoch)  # in the middle of one, so that its loss is of both parts
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="resume=True"):
        chainrule.train_vectors(
            source, VectorsConfig(**settings), tokenizer="whitespace", folder=tmp_path, on_report=interrupt
        )
    other = VectorsConfig(**{**settings, "seed": 9})
    with pytest.raises(SettingError, match="cannot resume: seed was 1 and is 9; use the same"):
        chainrule.train_vectors(source, other, tokenizer="whitespace", folder=tmp_path, resume=True)
    steps = []
    again = chainrule.train_vectors(
        source,
        VectorsConfig(**settings),
        tokenizer="whitespace",
        folder=tmp_path,
        resume=True,
        on_report=lambda report: steps.append(report.step),
    )
    assert steps[0] > 1
    assert same(whole, again)
    assert again.record["losses"] == whole.record["losses"]
    training.remove_finished(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("source", "settings", "error", "words"),
    [
        (["a"] * 9, {}, TextError, "one word"),
        (["a b c d"], {}, TextError, "no word"),  # each once
        ([""], {}, TextError, "no word"),
        (["a b"] * 9, {"window": 0}, SettingError, "window is 0"),
        (["a b"] * 9, {"subwords": "6-3"}, SettingError, "subwords"),
        (["a b"] * 9, {"method": "glove", "loss": "softmax"}, SettingError, "glove"),
        (["a b c"] * 99, {"rate": 1e30, "loss": "softmax"}, EstimationError, "lower rate"),
        (["a b c"] * 99, {"rate": 1e30, "method": "glove"}, EstimationError, "lower rate"),
    ],
)
def test_texts_too_short_and_bad_settings_are_errors(source, settings, error, words) -> None:
    with pytest.raises(error, match=words):
        chainrule.train_vectors(
            chainrule.Lines(source),
            VectorsConfig(**{"epochs": 3, **settings}),
            tokenizer=chainrule.TokenizerConfig(kind="whitespace", min_count=5),
            progress=False,
        )


def test_pieces_of_words_are_refused() -> None:
    with pytest.raises(SettingError, match="subwords"):
        chainrule.train_vectors(text(), tokenizer="bpe", progress=False)


def test_a_network_begins_with_vectors_of_a_folder(tmp_path) -> None:
    vectors = trained(subwords="3-4", buckets=500)
    vectors.save(tmp_path / "words")
    config = chainrule.FeedforwardConfig(embedding_width=18, width=8)
    model = chainrule.train(
        chainrule.Lines([*text().lines, "w1éé w2é"]),
        config,
        tokenizer="whitespace",
        vectors=tmp_path / "words",
        fixed_vectors=True,
        training=chainrule.TrainingConfig(steps=2),
        progress=False,
    )
    static = model.embedder.static_vectors()
    assert np.allclose(static[model.tokenizer.vocabulary.id_of("w7é")], vectors["w7é"], atol=1e-6)
    assert np.allclose(static[model.tokenizer.vocabulary.id_of("w1éé")], vectors["w1éé"], atol=1e-6)


def test_translation_starts_from_vectors_of_both_languages(tmp_path) -> None:
    vectors = trained(dimensions=16)
    vectors.save(tmp_path / "words")
    lines = text().lines[:30]
    model = chainrule.train_pairs(
        chainrule.Pairs(lines, lines),
        chainrule.Seq2SeqConfig(width=16, shared="none"),
        tokenizer="whitespace",
        source_vectors=tmp_path / "words",
        fixed_vectors=True,
        training=chainrule.TrainingConfig(steps=1, compile="no"),
        progress=False,
    )
    network, row = model.model.network, model.source.vocabulary.id_of("w7é")
    tokens = torch.tensor([row])  # what the network reads, whatever it multiplies its weights by
    assert np.allclose(network.source_embedding(tokens)[0].detach().numpy(), vectors["w7é"], atol=1e-6)
    assert not np.allclose(network.embedding(tokens)[0].detach().numpy(), vectors["w7é"], atol=1e-6)
    with pytest.raises(SettingError, match="width=16"):
        chainrule.train_pairs(
            chainrule.Pairs(lines, lines),
            chainrule.Seq2SeqConfig(width=32),
            tokenizer="whitespace",
            vectors=tmp_path / "words",
            training=chainrule.TrainingConfig(steps=1, compile="no"),
            progress=False,
        )
    vectors.save(tmp_path / "others")
    with pytest.raises(SettingError, match="both cannot be initialised: leave source_vectors out"):
        chainrule.train_pairs(
            chainrule.Pairs(lines, lines),
            chainrule.Seq2SeqConfig(width=16, shared="all"),
            tokenizer="whitespace",
            source_vectors=tmp_path / "words",
            vectors=tmp_path / "others",
            progress=False,
        )


def test_co_occurrences_that_were_counted_before(tmp_path) -> None:
    config = VectorsConfig(method="glove", dimensions=6, epochs=4)
    counting = chainrule.CooccurrenceConfig(window=3)
    together = chainrule.count_cooccurrences(text(), counting, tokenizer="whitespace", progress=False)
    from_text = trained(method="glove", dimensions=6, epochs=4, window=3)
    from_counts = chainrule.train_vectors(together, config, progress=False)
    assert np.array_equal(from_text.vectors, from_counts.vectors)
    for name in ("pairs.bin", "pairs.tsv.gz"):
        together.save(tmp_path / name)
        again = chainrule.read_cooccurrences(tmp_path / name)
        assert again.words == together.words
        assert again.counted.columns.tolist() == together.counted.columns.tolist()
        from_file = chainrule.train_vectors(again, config, progress=False)
        assert np.allclose(from_file.vectors, from_text.vectors, atol=1e-6)
        assert from_file.record["cooccurrences"] == together.pairs
    with pytest.raises(SettingError, match="learns from a text"):
        chainrule.train_vectors(together)
    with pytest.raises(SettingError, match="window was chosen"):
        chainrule.train_vectors(together, VectorsConfig(method="glove", window=3))
