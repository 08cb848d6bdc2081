from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule
from chainrule.errors import TextError
from chainrule.evaluation import likelihood
from chainrule.evaluation.likelihood import StreamScoring, measure
from chainrule.mixture.uniform import UniformModel
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.models import stream_scorer as streams
from chainrule.ngram.training import train_ngram
from chainrule.protocol import END, UNKNOWN
from chainrule.text.corpus import plain_text
from chainrule.text.corpus.corpus import Corpus, Lines
from chainrule.text.corpus.reading import Reading
from chainrule.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chainrule.evaluation.measurement import Measurement
    from chainrule.text.tokenization.vocabulary import Markers


def tokenizer_of(text: str, name: str = "whitespace") -> Tokenizer:
    tokenizer = Tokenizer.untrained(name)
    for block in Lines([text]).blocks():
        tokenizer.encode(block.text, grow=True)
    return tokenizer


class ByteSpeller:
    """One of 257 symbols, each byte and the end alike."""

    name = "bytes"

    def __init__(self, unseen_types: int = 1) -> None:
        self.unseen_types = unseen_types

    def log_probs(self, tokens: Sequence[bytes]) -> np.ndarray:
        return np.array([-(len(token) + 1) * math.log(257) for token in tokens])


class Told:
    """A model that knows no words: it gives out the probabilities that it was told, one after the other."""

    def __init__(self, probs: Sequence[float], unknown: float = 0.01) -> None:
        self.probs, self.unknown = list(probs), unknown

    def unknown_log_probs(self, sequences: Sequence[np.ndarray], *, prefixes: Any = None, end: bool = True) -> Any:
        return [np.full(len(sequence) + end, np.log(self.unknown), np.float32) for sequence in sequences]

    def score(self, sequences: Sequence[np.ndarray], *, prefixes: Any = None, end: bool = True) -> list[np.ndarray]:
        with np.errstate(divide="ignore"):
            return [
                np.log([self.probs.pop(0) for _ in range(len(sequence) + end)]).astype(np.float32)
                for sequence in sequences
            ]


def measured(probs: Sequence[float], lines: Sequence[str], known: str = "a b c") -> Measurement:
    return measure(Told(probs), tokenizer_of(known), ByteSpeller(), Lines(lines))


def test_the_uniform_model_by_hand() -> None:
    tokenizer = tokenizer_of("a b cd")  # with <unk>, <s>, </s>: V = 6, 5 choices
    found = measure(UniformModel(6), tokenizer, ByteSpeller(), Lines(["a cd", "b", "xyz a"]))
    # Predicted: a cd </s>, b </s>, <unk> a </s>.
    assert (found.documents, found.tokens, found.oov) == (3, 8, 1)
    assert found.log_prob == pytest.approx(-8 * math.log(5))
    assert found.perplexity == pytest.approx(5)
    assert found.perplexity_without_oov == pytest.approx(5)
    # "a cd\nb\nxyz a\n"
    assert found.bytes == 5 + 2 + 6
    # xyz and its end are 4 symbols of 257: 8.0056 bits each; every token log2(5) = 2.3219 bits.
    assert found.spelling_log_prob == pytest.approx(-4 * 8.0056 * math.log(2), rel=1e-5)
    assert found.bits_per_byte == pytest.approx((8 * 2.321928 + 4 * 8.005625) / 13)


def test_perplexity_by_hand() -> None:
    # (4 3 4 3) ** (1/4) = 144 ** (1/4) = 3.4641; its logarithm, the mean, is ln(144) / 4 = 1.2425
    found = measured([1 / 4, 1 / 3, 1 / 4, 1 / 3], ["a b c"])
    assert found.perplexity == found.word_perplexity == pytest.approx(3.4641, abs=1e-4)
    assert found.character_perplexity == pytest.approx(144 ** (1 / 6))
    assert -found.log_prob / found.tokens == pytest.approx(1.2425, abs=1e-4)
    # 144 = 2 ** 7.1699; "a b c\n" are 6 bytes
    assert found.bits_per_byte == pytest.approx(7.1699 / 6, abs=1e-4)


def test_excluding_unknown_tokens_takes_away_their_log_probability_and_their_number() -> None:
    # a <unk> </s>, <unk> </s>: known are 1/2, 1/4, 1/8.
    found = measured([1 / 2, 1 / 100, 1 / 4, 1 / 1000, 1 / 8], ["a zz", "y"])
    assert (found.tokens, found.oov) == (5, 2)
    assert found.log_prob_without_oov == pytest.approx(-math.log(2 * 4 * 8))
    assert found.perplexity_without_oov == pytest.approx(64 ** (1 / 3))
    assert found.perplexity == pytest.approx((64 * 100 * 1000) ** (1 / 5))
    assert found.as_json()["oov_rate"] == pytest.approx(2 / 5)
    assert found.spelling_log_prob == pytest.approx(-(3 + 2) * math.log(257))  # zz and y with their ends


def test_something_impossible_makes_an_infinite_perplexity_which_json_shows_as_null() -> None:
    found = measured([1 / 2, 0, 1 / 2], ["a b"])
    assert found.perplexity == math.inf
    assert found.bits_per_byte == math.inf
    figures = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert [name for name, value in figures.items() if value is None] == [
        "log_prob",
        "log_prob_without_oov",
        "text_log_prob",
        "perplexity",
        "perplexity_without_oov",
        "word_perplexity",
        "character_perplexity",
        "bits_per_byte",
        "bits_per_byte_low",
        "bits_per_byte_high",
        "matched",
        "mean_row_sum",
    ]


def test_a_perplexity_too_large_for_a_number_is_infinite() -> None:
    found = replace(measured([1 / 2, 1 / 2], ["a"]), log_prob=-1e4)
    assert found.perplexity == math.inf
    assert found.as_json()["perplexity"] is None
    assert found.perplexity_without_oov == pytest.approx(2)


def test_an_unknown_token_that_is_impossible_leaves_the_others_perplexity_finite() -> None:
    found = measured([1 / 2, 0, 1 / 2], ["a zz"])
    assert found.perplexity == math.inf
    assert found.perplexity_without_oov == pytest.approx(2)


def test_bytes_are_those_of_the_normalised_text_with_one_for_each_end() -> None:
    lines = ["  a   é\t b ", "", "\u00a0c"]
    for name, normalised in (
        ("whitespace", "a é b\n\n\u00a0c\n"),
        ("word", "a é b\n\nc\n"),
        ("character", "  a   é\t b \n\n\u00a0c\n"),
    ):
        tokenizer = tokenizer_of("a b", name)
        found = measure(UniformModel(tokenizer.vocabulary_size), tokenizer, ByteSpeller(), Lines(lines))
        assert found.bytes == len(normalised.encode())
        assert found.documents == 3


def test_the_text_signature_is_the_same_for_every_tokenizer_where_none_loses_anything() -> None:
    lines = ['"Well," he said: don\'t pay 3.14 £!', "naïve", "", "a-b (c)"]
    signatures = {}
    for name in ("whitespace", "word", "character", "byte"):
        tokenizer = tokenizer_of("he said", name)
        scorer = UniformModel(tokenizer.vocabulary_size)
        signatures[name] = measure(scorer, tokenizer, ByteSpeller(), Lines(lines))
    assert len({found.text_signature for found in signatures.values()}) == 1
    assert len({found.token_signature for found in signatures.values()}) == 4
    assert len({found.bytes for found in signatures.values()}) == 1
    for name, found in signatures.items():
        assert f"tok:{name}|" in found.token_signature
        assert (
            found.signature
            == found.as_json()["signature"]
            == f"{found.text_signature}+{found.token_signature}|{found.model_signature}"
        )


def test_another_text_has_another_signature() -> None:
    texts = [["a b"], ["a c"], ["a", "b"], ["a b", ""]]
    assert len({measured([0.5] * 9, lines).text_signature for lines in texts}) == len(texts)


@pytest.mark.parametrize("name", ["character", "byte"])
def test_the_same_bytes_in_other_documents_have_another_signature(name: str, tmp_path: Path) -> None:
    """Each figure of its own text; by SHA-256 of the lines, where a newline inside a document is the byte FF."""
    tokenizer = tokenizer_of("a b", name)
    scorer = UniformModel(tokenizer.vocabulary_size)

    def signature(files: dict[str, str], reading: Reading) -> str:
        paths = [tmp_path / file for file in files]
        for path, text in zip(paths, files.values(), strict=True):
            path.write_text(text)
        return measure(scorer, tokenizer, ByteSpeller(), Corpus.of(paths, reading)).text_signature.split("|")[0]

    def of(documents: bytes) -> str:
        return f"text:{hashlib.sha256(documents).hexdigest()[:8]}"

    whole, lines = Reading(document="file"), Reading()
    assert signature({"one": "a\nb\na\n"}, lines) == of(b"a\nb\na\n")
    assert signature({"one": "a\nb\na"}, whole) == of(b"a\xffb\xffa\n")
    assert signature({"one": "a\nb", "two": "a"}, whole) == of(b"a\xffb\na\n")
    assert signature({"one": "a", "two": "b\na"}, whole) == of(b"a\nb\xffa\n")
    assert signature({"one": "a", "two": "b", "three": "a"}, whole) == of(b"a\nb\na\n")  # these are three lines
    records = json.dumps({"text": "a\nb"}) + "\n" + json.dumps({"text": "a"}) + "\n"
    assert signature({"records.jsonl": records}, lines) == of(b"a\xffb\na\n")


def test_every_figure_is_the_same_whatever_the_size_of_the_blocks_and_the_threads(
    encoded, fixtures: Path, monkeypatch
) -> None:
    model, _ = train_ngram(encoded.train, encoded.tokenizer.vocabulary_size, NGramConfig(order=3))

    def figures(**more: Any) -> dict[str, Any]:
        source = Corpus.of(fixtures / "heldout.txt")
        more["score_in_full"] = model.score_stream_in_full
        found = measure(model, encoded.tokenizer, ByteSpeller(9), source, **more).as_json()
        del found["seconds"]
        return found

    whole = figures()
    assert whole["tokens"] == encoded.heldout.size
    assert whole["oov"] == np.count_nonzero(encoded.heldout == UNKNOWN) > 0
    assert whole["documents"] == np.count_nonzero(encoded.heldout == END)
    for size in (1, 100, 999):
        monkeypatch.setattr(plain_text, "BLOCK_BYTES", size)
        assert figures() == whole
    monkeypatch.undo()
    monkeypatch.setattr(streams, "PARALLEL_TOKENS", 50)  # on several threads
    assert figures() == whole
    whole = figures(row_sums_of=model)
    monkeypatch.setattr(likelihood, "_PART_BYTES", 64)
    for threads in ("1", "3"):
        monkeypatch.setenv("CHAINRULE_THREADS", threads)
        assert figures(row_sums_of=model) == whole


def test_progress_is_reported_within_a_block(encoded, fixtures: Path) -> None:
    told: list[tuple[str, float, float | None]] = []
    size = (fixtures / "heldout.txt").stat().st_size
    running = StreamScoring(
        lambda ids, on_share: (on_share(0.25), on_share(0.5), (-np.ones(ids.size),) * 2)[-1], "context:all"
    )
    measure(
        UniformModel(encoded.tokenizer.vocabulary_size),
        encoded.tokenizer,
        ByteSpeller(),
        Corpus.of(fixtures / "heldout.txt"),
        lambda *args: told.append(args),
        stream_scoring=running,
    )
    assert told == [("evaluating", share * size, size) for share in (0, 0.25, 0.5, 1)]


def test_the_share_of_unknown_is_asked_for_only_where_it_counts() -> None:
    """With one unseen type, Z = 1 + (U - 1) P(<unk>) is 1, whatever the share."""
    asked: list[str] = []

    def answering(name: str, share: float) -> Any:
        return lambda ids, _: (asked.append(name), (np.log(np.full(ids.size, 1 / 2)), np.full(ids.size, share)))[1]

    running = StreamScoring(answering("both", math.log(1 / 100)), "context:all", answering("known", 0.0))
    for types, log_prob in ((1, 3 * math.log(1 / 2)), (10, 3 * math.log(1 / 2 / (1 + 9 / 100)))):
        arguments = UniformModel(5), tokenizer_of("a b c"), ByteSpeller(types), Lines(["a b"])
        assert measure(*arguments, stream_scoring=running).text_log_prob == pytest.approx(log_prob)
    assert asked == ["known", "both"]


def test_the_figures_are_those_of_the_scores_one_by_one(encoded, fixtures: Path) -> None:
    model, _ = train_ngram(encoded.train, encoded.tokenizer.vocabulary_size, NGramConfig(order=3))
    found = measure(model, encoded.tokenizer, ByteSpeller(), Corpus.of(fixtures / "heldout.txt"))
    scores = model.score_stream(encoded.heldout).tolist()
    known = [score for score, word in zip(scores, encoded.heldout.tolist(), strict=True) if word != UNKNOWN]
    assert found.log_prob == pytest.approx(math.fsum(scores), rel=1e-9)
    assert found.perplexity_without_oov == pytest.approx(math.exp(-math.fsum(known) / len(known)), rel=1e-9)
    assert found.bytes == (fixtures / "heldout.txt").stat().st_size


def test_unseen_types_by_hand() -> None:
    """Ten unseen types and P(<unk>) = 1/100 everywhere: Z = 1 + 9/100."""
    found = measure(Told([1 / 2, 1 / 100, 1 / 4]), tokenizer_of("a b c"), ByteSpeller(10), Lines(["a zz"]))
    assert found.log_prob == pytest.approx(-math.log(2 * 100 * 4))
    assert found.spelling_log_prob == pytest.approx(-3 * math.log(257))
    text_prob = (1 / 2 / 1.09) * (10 / 100 / 1.09 / 257**3) * (1 / 4 / 1.09)
    assert found.text_log_prob == pytest.approx(math.log(text_prob), rel=1e-6)
    assert found.bits_per_byte == pytest.approx(-math.log2(text_prob) / 5, rel=1e-6)


def test_without_their_ends_documents_are_a_token_a_byte_a_word_and_a_character_shorter() -> None:
    lines, probs = ["aé a", "zz", ""], [1 / 2, 1 / 3, 1 / 5, 1 / 7, 1 / 11, 1 / 13]
    tokenizer = tokenizer_of("aé a")
    whole = measure(Told(probs), tokenizer, ByteSpeller(), Lines(lines))
    inside = measure(Told(probs), tokenizer, ByteSpeller(), Lines(lines), ends=False)
    assert (whole.tokens, whole.words, whole.characters, whole.bytes) == (6, 6, 9, 10)
    assert (inside.tokens, inside.words, inside.characters, inside.bytes) == (3, 3, 6, 7)
    assert inside.perplexity == pytest.approx((2 * 3 * 7) ** (1 / 3))
    assert inside.perplexity_without_oov == pytest.approx((2 * 3) ** (1 / 2))
    assert inside.text_log_prob == pytest.approx(-math.log(2 * 3 * 7) - 3 * math.log(257))
    assert inside.per_document.bytes.tolist() == [5, 2, 0]
    assert inside.text_signature != whole.text_signature
    assert whole.text_signature == inside.text_signature.replace("predict:tokens", "predict:tokens,</s>")


def test_matches_are_counted_by_their_length(encoded, fixtures: Path) -> None:
    model, _ = train_ngram(encoded.train, encoded.tokenizer.vocabulary_size, NGramConfig(order=3))
    source = Corpus.of(fixtures / "heldout.txt")
    found = measure(model, encoded.tokenizer, ByteSpeller(), source, score_in_full=model.score_stream_in_full)
    lengths = model.score_stream_with_lengths(encoded.heldout)[1].tolist()
    assert found.matched == tuple(lengths.count(n) for n in (1, 2, 3))
    assert measure(model, encoded.tokenizer, ByteSpeller(), source).matched is None


def test_other_tokens_have_another_token_signature() -> None:
    signatures = [
        measure(UniformModel(5), tokenizer_of(known), ByteSpeller(), Lines(["a"])).token_signature
        for known in ("a b", "a c", "a b")
    ]
    assert signatures[0] == signatures[2] != signatures[1]


def test_a_marker_in_the_text_is_an_error_that_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("a\nb <s> c\n")
    with pytest.raises(TextError, match=r"text\.txt, line 2: <s> occurs in the text"):
        measure(UniformModel(6), tokenizer_of("a b c"), ByteSpeller(), Corpus.of(path))


def test_no_text_is_an_error() -> None:
    with pytest.raises(TextError, match="no text"):
        measured([], [])


@pytest.mark.parametrize("rule", ["skip", "keep"])
def test_markers_that_vanish_do_not_count_as_bytes(rule: Markers) -> None:
    model = chainrule.train(chainrule.Lines(["a b", "b a"]), chainrule.NGramConfig(order=1), markers=rule)
    plain, marked = (model.evaluate(chainrule.Lines([text])) for text in ("a b", "<s> a <s> b </s>"))
    assert marked.bytes == plain.bytes == 4
    assert marked.bits_per_byte == plain.bits_per_byte
    assert marked.text_signature == plain.text_signature
