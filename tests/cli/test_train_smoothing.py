"""train ngram --smoothing, --tune and their neighbours; what is no distribution, and what has no probability."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

import chainrule as library
from chainrule.ngram.config import SMOOTHINGS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", [name for name in SMOOTHINGS if name != "stupid-backoff"])
def test_every_smoothing_is_trained_saved_and_measured(chainrule, corpus, heldout, tmp_path: Path, name: str) -> None:
    target = tmp_path / "lm"
    options = ["--order", 3, "--smoothing", name, "--tokenizer", "whitespace"]
    result = chainrule("train", "ngram", corpus, "-o", target, *options)
    assert result.status == 0
    assert result.lines[1].split()[:2] == ["order", "n-grams"]
    model = library.load(target)
    assert model.record["settings"]["smoothing"] == name
    perplexity = model.evaluate(heldout).perplexity
    assert math.isinf(perplexity) if name == "maximum-likelihood" else 20 < perplexity < 338
    model.save(tmp_path / "lm.arpa")
    assert library.load(tmp_path / "lm.arpa").evaluate(heldout).perplexity == pytest.approx(perplexity, rel=1e-5)


def test_tuned_values_are_printed_and_recorded(chainrule, corpus, heldout, tmp_path: Path) -> None:
    train = ("train", "ngram", corpus, "-o", tmp_path / "lm", "--overwrite", "--order", 2)
    told = chainrule(*train, "--smoothing", "lidstone", "--tune", heldout)
    assert (told.status, told.err) == (0, "")
    record = library.load(tmp_path / "lm").record
    assert list(record["tuned_on"]) == [str(heldout)]
    assert f"tuned on 1,174 tokens of {heldout}: the constant {record['pseudocount']:.6g}" in told.lines
    weights = chainrule(*train, "--smoothing", "jelinek-mercer", "--weights-by", "level", "--json").json["weights"]
    assert [len(row) for row in weights] == [1, 1]
    table = chainrule(*train, "--smoothing", "jelinek-mercer", "--tune", heldout).lines
    assert "weight over lower orders" in table[1]
    tuned = chainrule(*train, "--tune", heldout, "--json").json
    assert all(row["estimated"] for row in tuned["discounts"])
    assert "leaves nothing for unseen words" in chainrule(*train, "--tune", corpus).err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--smoothing", "witten-bell", "--tune", "HELDOUT"], "witten-bell has nothing to tune"),
        (["--smoothing", "witten-bell", "--pseudocount", "2"], "witten-bell has no pseudocount; only lidstone has it"),
        (["--smoothing", "laplace", "--prune", "0", "1"], "laplace cannot be pruned"),
        (["--smoothing", "absolute", "--discount", "2"], "discount is 2.0; expected numbers from 0 to 1"),
        (["--no-open-vocabulary", "--no-interpolate-unigrams"], "choose one of the two"),
        (["--smoothing", "absolute", "--discount", "0.5", "--tune", "HELDOUT"], "choose one of the two"),
        (
            ["--smoothing", "jelinek-mercer", "--weights", "0.7"],
            "weights is 0.7; expected 2 numbers, one for each order",
        ),
        (["--tune", "STRANGE", "--smoothing", "absolute"], "not one word in common with the vocabulary"),
    ],
)
def test_bad_input_is_an_error_and_writes_nothing(
    chainrule, corpus, heldout, tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "strange.txt").write_text("XX YY\n")
    places = {"HELDOUT": str(heldout), "STRANGE": str(tmp_path / "strange.txt")}
    options = [places.get(option, option) for option in options]
    result = chainrule("train", "ngram", corpus, "-o", tmp_path / "lm", "--order", 2, *options)
    assert message in result.error
    assert not (tmp_path / "lm").exists()


@pytest.mark.parametrize(
    ("options", "shown", "v"),
    [
        ([], "vocabulary 6 (V = 5 without <s>)", 5),
        (["--no-open-vocabulary"], "vocabulary 6 (V = 4 without <s> and <unk>)", 4),
    ],
)
def test_the_v_of_add_one_is_the_vocabulary_without_the_beginning(
    chainrule, tmp_path: Path, options: list[str], shown: str, v: int
) -> None:
    """a, b, c and </s>, and <unk> if unknown words are expected: P(b | a) = (1 + 1) / (2 + V)."""
    (tmp_path / "t.txt").write_text("a b\na c\n")
    command = ("train", "ngram", tmp_path / "t.txt", "-o", tmp_path / "lm", "--order", 2, "--smoothing", "laplace")
    result = chainrule(*command, *options)
    assert shown in result.out
    [prob] = [row["prob"] for row in chainrule("next", tmp_path / "lm", "a", "--json").json if row["token"] == "b"]
    assert prob == pytest.approx(2 / (2 + v))
    assert "6 tokens, with <s>, which is never predicted; V is 5" in chainrule("info", tmp_path / "lm").out


def test_stupid_backoff_scores_and_is_marked_as_no_distribution(chainrule, corpus, heldout, tmp_path: Path) -> None:
    lm, other = tmp_path / "lm", tmp_path / "other"
    train = ("train", "ngram", corpus, "--order", 3)
    result = chainrule(*train, "-o", lm, "--smoothing", "stupid-backoff", "--backoff-weight", 0.5)
    assert result.status == 0
    assert "do not sum to one" in result.err
    assert chainrule("score", lm, heldout).status == 0
    told = chainrule("evaluate", lm, heldout)
    for name in ("perplexity*", "bits per byte*", "per character*"):
        assert name in told.out
    assert "from scores that do not sum to one" in told.out
    assert "scores:no distribution" in told.lines[-1]
    assert chainrule("evaluate", lm, heldout, "--json").json["is_distribution"] is False
    assert chainrule(*train, "-o", other).status == 0
    table = chainrule("compare", lm, other, "--text", heldout)
    row = next(line for line in table.lines if line.startswith(f"{lm} "))
    assert row.split()[1].endswith("*")
    assert "best" not in row
    assert f"best by bits per byte: {other}" in table.lines
    for verb in (("next", lm, "a"), ("generate", lm, "-n", 1)):
        assert "do not sum to one, so it can score and rank text but not predict or draw" in chainrule(*verb).error
    assert "cannot be written as ARPA" in chainrule("convert", lm, tmp_path / "x.arpa").error
    message = chainrule(*train, "-o", tmp_path / "x.arpa", "--smoothing", "stupid-backoff").error
    assert "cannot be written as ARPA; name a folder" in message


def test_words_without_probability_are_noted(chainrule, corpus, heldout, tmp_path: Path) -> None:
    chainrule("train", "ngram", corpus, "-o", tmp_path / "lm", "--order", 2, "--smoothing", "maximum-likelihood")
    told = chainrule("evaluate", tmp_path / "lm", heldout)
    assert "perplexity                             inf" in told.out
    assert "impossible tokens" in told.out
    found = chainrule("evaluate", tmp_path / "lm", heldout, "--json").json
    assert found["impossible"] > 0
    assert found["perplexity"] is None


def test_the_number_of_begins_belongs_to_the_model_and_its_signature(
    chainrule, corpus, heldout, tmp_path: Path
) -> None:
    options = ["--order", 4, "--smoothing", "witten-bell", "--begins", "all"]
    assert chainrule("train", "ngram", corpus, "-o", tmp_path / "lm", *options).status == 0
    trained = library.train(corpus, library.NGramConfig(order=4, smoothing="witten-bell", begins="all"))
    loaded = library.load(tmp_path / "lm")
    assert loaded.perplexity(heldout) == trained.perplexity(heldout)
    assert loaded.evaluate(heldout).signature.endswith("|context:document after 3 <s>")
    one = library.train(corpus, library.NGramConfig(order=4, smoothing="witten-bell"))
    assert one.perplexity(heldout) != loaded.perplexity(heldout)
    assert "cannot be written as ARPA" in chainrule("convert", tmp_path / "lm", tmp_path / "x.arpa").error


def test_seen_words_that_are_left_without_probability_are_noted(chainrule, tmp_path) -> None:
    """c, d, e and f follow one word each, so that a discount of 1 takes all from them."""
    text = tmp_path / "text.txt"
    text.write_text("a b c a b\nb c d e a\nf a b\n" * 3)
    options = ["--order", 2, "--smoothing", "kneser-ney-backoff", "--discount", 1]
    for closed in ([], ["--no-open-vocabulary"]):
        result = chainrule("train", "ngram", text, "-o", tmp_path / f"lm{len(closed)}", *options, *closed)
        assert "this smoothing leaves 4 tokens of the text without probability" in result.err
    halved = chainrule("train", "ngram", text, "-o", tmp_path / "half", *options[:-1], 0.5)
    assert "take all" not in halved.err
