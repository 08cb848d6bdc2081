"""chainrule prune: smaller models, whole and usable; and what cannot be pruned is told."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import chainrule as library


@pytest.mark.parametrize("target", ["small", "small.arpa.gz"])
@pytest.mark.parametrize("way", [("--entropy", "1e-4"), ("--to-ngrams", "2000")])
@pytest.mark.parametrize("histories", ["discounts", "chain", "text"])
def test_a_pruned_model_is_a_model(target, way, histories, chainrule, model, corpus, heldout, tmp_path) -> None:
    weighed = corpus if histories == "text" else histories
    result = chainrule("prune", model, *way, "--histories", weighed, "-o", tmp_path / target)
    assert (result.status, result.err) == (0, "")
    assert result.lines[0].split() == ["order", "n-grams", "kept"]
    small, large = library.load(tmp_path / target), library.load(model)
    sizes = small.language_model.table.level_sizes
    assert sum(sizes) < sum(large.language_model.table.level_sizes) * 0.7
    if way[0] == "--to-ngrams" and target == "small":
        assert sum(sizes) == 2000
        assert chainrule("verify", tmp_path / target).status == 0
    assert 0.9 < small.perplexity(heldout) / large.perplexity(heldout) < 1.5


def test_pruning_is_recorded_and_counts_are_printed(chainrule, model, tmp_path) -> None:
    told = chainrule("prune", model, "--to-ngrams", 3000, "-o", tmp_path / "a", "--json").json
    assert sum(told["ngrams"]) == 3000
    second = chainrule("prune", tmp_path / "a", "--entropy", "1e-4", "-o", tmp_path / "b")
    assert second.status == 0
    assert second.err.startswith("note: the model was pruned before")
    first, again = library.load(tmp_path / "b").record["pruned"]
    assert (first["to_ngrams"], first["ngrams_before"]) == (3000, told["ngrams_before"])
    assert (again["entropy"], again["ngrams_before"]) == (1e-4, told["ngrams"])


def test_an_arpa_file_can_be_pruned(chainrule, fixtures, tmp_path) -> None:
    result = chainrule("prune", fixtures / "order3.arpa.gz", "--to-ngrams", 1500, "-o", tmp_path / "small")
    assert result.status == 0
    assert sum(library.load(tmp_path / "small").language_model.table.level_sizes) == 1500


def test_a_text_is_scored_as_before(chainrule, model, heldout, tmp_path) -> None:
    assert chainrule("prune", model, "--for-text", heldout, "-o", tmp_path / "small").status == 0
    before, after = (chainrule("evaluate", path, heldout, "--json").json for path in (model, tmp_path / "small"))
    told = {"seconds", "mean_row_sum"}  # the rows of what is left do not sum to one, and that is said
    assert {key: before[key] for key in before.keys() - told} == {key: after[key] for key in before.keys() - told}


def test_a_smaller_vocabulary_gives_the_same_probabilities_of_known_words(chainrule, model, heldout, tmp_path) -> None:
    large = library.load(model)
    words = large.tokenizer.vocabulary.tokens()[3::2]
    (tmp_path / "words.txt").write_bytes(b"\n".join([*words, b"not-in-the-model", b""]))
    assert chainrule("prune", model, "--vocabulary", tmp_path / "words.txt", "-o", tmp_path / "small").status == 0
    small = library.load(tmp_path / "small")
    assert small.tokenizer.vocabulary.tokens()[3:] == words
    text = b" ".join(words[5:9]).decode()
    np.testing.assert_allclose(small.score([text]), large.score([text]), rtol=1e-5)
    gone = large.tokenizer.vocabulary.token(4)
    assert small.unknown_words(gone) == [gone]
    assert small.speller.unseen_types == 1
    assert 0 < small.evaluate(heldout).bits_per_byte < 2 * large.evaluate(heldout).bits_per_byte


def test_the_text_that_contexts_were_weighed_by_is_recorded_with_its_hash(chainrule, model, corpus, tmp_path) -> None:
    small = tmp_path / "small"
    assert chainrule("prune", model, "--to-ngrams", 2000, "--histories", corpus, "-o", small).status == 0
    library.prune_by_entropy(library.load(model), ngrams=2000, histories=corpus).save(tmp_path / "again")
    for path in (small, tmp_path / "again"):
        [pruned] = library.load(path).record["pruned"]
        assert pruned["histories"]["data"] == {str(corpus): hashlib.sha256(corpus.read_bytes()).hexdigest()}


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ([], 2, "Give one of --entropy, --to-ngrams, --vocabulary, --for-text"),
        (["--entropy", "1e-8", "--to-ngrams", "5"], 2, "Give one of"),
        (["--entropy", "-1e-8"], 1, "the threshold is -1e-08; expected a number of at least 0"),
        (["--entropy", "nan"], 1, "the threshold is nan"),
        (["--entropy", "inf"], 1, "the threshold is inf"),
        (["--to-ngrams", "5"], 1, "cannot prune to 5 n-grams"),
        (["--to-ngrams", "-5"], 1, "cannot prune to -5 n-grams"),
        (["--to-ngrams", "1e9"], 2, "takes whole numbers"),
        (["--vocabulary", "TMP/none.txt"], 1, "there is no such file"),
        (["--vocabulary", "TMP/other.txt"], 1, "none of its 2 tokens is in the vocabulary"),
        (["--for-text", "TMP/other.txt"], 1, "none of the model's n-grams of two or more tokens occurs in it"),
        (["--entropy", "1e-8", "--histories", "TMP/none.txt"], 1, "there is no such file"),
        (["--vocabulary", "TMP/other.txt", "--histories", "chain"], 2, "--histories is for"),
    ],
)
def test_bad_input_is_an_error_and_writes_nothing(options, status, message, chainrule, model, tmp_path) -> None:
    (tmp_path / "other.txt").write_text("qqq\nxxx\n")
    before = sorted(tmp_path.rglob("*"))
    options = [option.replace("TMP", str(tmp_path)) for option in options]
    result = chainrule("prune", model, *options, "-o", tmp_path / "small")
    assert result.status == status
    assert message in result.error
    assert sorted(tmp_path.rglob("*")) == before


def test_other_families_and_existing_targets_are_refused(chainrule, model, corpus, tmp_path) -> None:
    chainrule("train", "uniform", corpus, "-o", tmp_path / "uniform")
    refused = chainrule("prune", tmp_path / "uniform", "--to-ngrams", 9, "-o", tmp_path / "x")
    assert "it is of family 'uniform', which has no n-grams" in refused.error
    chainrule("train", "ngram", corpus, "-o", tmp_path / "bytes", "--order", 2, "--tokenizer", "byte")
    (tmp_path / "words.txt").write_text("a\n")
    refused = chainrule("prune", tmp_path / "bytes", "--vocabulary", tmp_path / "words.txt", "-o", tmp_path / "x")
    assert "needs all of its tokens to spell every text" in refused.error
    assert "--overwrite" in chainrule("prune", model, "--to-ngrams", 2000, "-o", tmp_path / "bytes").error
    assert chainrule("prune", model, "--to-ngrams", 2000, "-o", tmp_path / "bytes", "--overwrite").status == 0


@pytest.mark.parametrize("way", [("--to-ngrams", 2000, "--histories", "chain"), ("--for-text", "HELDOUT")])
def test_documents_go_on_beginning_as_they_did(way, chainrule, corpus, heldout, tmp_path) -> None:
    options = ("--order", 4, "--begins", "all", "--tokenizer", "whitespace")
    assert chainrule("train", "ngram", corpus, *options, "-o", tmp_path / "lm").status == 0
    way = [heldout if option == "HELDOUT" else option for option in way]
    assert chainrule("prune", tmp_path / "lm", *way, "-o", tmp_path / "small").status == 0
    large, small = (library.load(tmp_path / name) for name in ("lm", "small"))
    assert small.language_model.begins == 3
    ratio = small.perplexity(heldout) / large.perplexity(heldout)
    assert ratio == 1 if "--for-text" in way else 0.9 < ratio < 1.5


def test_compact_models_are_pruned_and_merged(chainrule, model, heldout, tmp_path) -> None:
    library.load(model).compact().save(tmp_path / "compact")
    assert chainrule("prune", tmp_path / "compact", "--to-ngrams", 2000, "-o", tmp_path / "small").status == 0
    assert chainrule("mix", model, tmp_path / "compact", "--static", "-o", tmp_path / "both").status == 0
    large, both = (library.load(path).perplexity(heldout) for path in (model, tmp_path / "both"))
    assert both == pytest.approx(large, rel=0.01)
