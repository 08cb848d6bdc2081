"""chainrule mix: a mixture is a model as any other, and what cannot be mixed is told."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as library


@pytest.fixture
def bigram(chainrule, corpus, model, tmp_path):
    """Another model of the same tokens."""
    assert (
        chainrule("train", "ngram", corpus, "--order", 2, "--tokenizer", model, "-o", tmp_path / "bigram").status == 0
    )
    return tmp_path / "bigram"


@pytest.mark.parametrize(
    "options",
    [
        ("--tune", "HELDOUT"),
        ("--weights", "0.9", "0.1"),
        ("--tune", "HELDOUT", "--buckets", "3"),
        ("--tune", "HELDOUT", "--cache", "50"),
        ("--weights", "0.8", "0.3", "--kind", "log-linear"),
    ],
)
def test_a_mixture_is_a_model(options, chainrule, model, bigram, heldout, tmp_path) -> None:
    given = [heldout if option == "HELDOUT" else option for option in options]
    result = chainrule("mix", model, bigram, *given, "-o", tmp_path / "mix")
    assert (result.status, result.err) == (0, "")
    assert result.lines[0].split()[:2] == ["model", "family"]
    assert str(bigram) in result.lines[2]
    for verb in (["verify"], ["next"], ["generate"], ["evaluate", heldout], ["score", heldout]):
        done = chainrule(verb[0], tmp_path / "mix", *verb[1:])
        assert done.status == 0, done.err
    assert "mean row sum" in chainrule("evaluate", tmp_path / "mix", heldout).out
    perplexities = [library.load(path).perplexity(heldout) for path in (tmp_path / "mix", model, bigram)]
    if "HELDOUT" in options:
        assert perplexities[0] < min(perplexities[1:])


def test_json_has_the_weights_and_equal_ones_are_noted(chainrule, model, bigram, tmp_path) -> None:
    result = chainrule("mix", model, bigram, "-o", tmp_path / "mix", "--json")
    assert result.err.startswith("note: all models weigh the same")
    assert result.json["weights"] == [[0.5, 0.5]]
    assert [part["family"] for part in result.json["models"]] == ["ngram", "ngram"]


def test_weights_that_are_tuned_on_a_training_text_are_noted(chainrule, corpus, model, bigram, tmp_path) -> None:
    result = chainrule("mix", model, bigram, "--tune", corpus, "-o", tmp_path / "mix")
    notes = [line for line in result.err.splitlines() if "was trained on" in line]
    assert [line.split()[1] for line in notes] == [str(model), str(bigram)]


def test_weights_that_are_tuned_on_few_tokens_are_noted(chainrule, model, bigram, heldout, tmp_path) -> None:
    lines = heldout.read_text().splitlines(keepends=True)[:3]
    (tmp_path / "few.txt").write_text("".join(lines))
    result = chainrule("mix", model, bigram, "--tune", tmp_path / "few.txt", "-o", tmp_path / "mix")
    tokens = sum(len(line.split()) + 1 for line in lines)
    assert f"few.txt has only {tokens} tokens to tune weights on, so they may not be the best for other" in result.err


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--weights", "0.5"], 1, "the weights 0.5 sum to 0.5"),
        (["--weights", "0.5", "-0.5"], 1, "expected one for each model"),
        (["--weights", "0.5", "0.3", "0.2"], 1, "3 weights for 2 models"),
        (["--weights", "0.5", "0.5", "--tune", "HELDOUT"], 2, "Give either --tune or --weights"),
        (["--adaptive"], 2, "--adaptive learns its weights from a held-out text"),
        (["--gate", "evidence"], 2, "--gate is for weights that depend on the context; give --adaptive"),
        (["--cache-order", "3"], 2, "--cache-order is for a cache"),
        (
            ["--adaptive", "--buckets", "3", "--tune", "HELDOUT"],
            1,
            "--adaptive does not go with --buckets; leave one of them out",
        ),
        (["--tune", "TMP/none.txt"], 1, "there is no such file"),
        (["--tune", "TMP/other.txt"], 1, "the models know none of its tokens"),
        (["--tune", "TMP/bare.txt"], 1, "bare.txt: has empty lines only, so no weights can be tuned on it"),
        (["--buckets", "3"], 1, "--buckets is 3, and such weights are tuned on a text; give one with --tune"),
        (["--cache", "0"], 1, "--cache is 0; expected 1 to 1,048,576"),
        (["--cache", "9", "--cache-order", "0"], 1, "--cache-order is 0; expected"),
        (["--kind", "cubic"], 2, "--kind"),
    ],
)
def test_bad_input_is_an_error_and_writes_nothing(
    options, status, message, chainrule, model, bigram, heldout, tmp_path
) -> None:
    (tmp_path / "other.txt").write_text("qqq\nxxx\n")
    (tmp_path / "bare.txt").write_text("\n\n\n")
    before = sorted(tmp_path.rglob("*"))
    options = [str(heldout) if option == "HELDOUT" else option.replace("TMP", str(tmp_path)) for option in options]
    result = chainrule("mix", model, bigram, "-o", tmp_path / "mix", *options)
    assert result.status == status
    assert message in result.err
    assert "note:" not in result.err
    assert sorted(tmp_path.rglob("*")) == before


def test_other_vocabularies_and_existing_targets_are_errors(chainrule, model, bigram, corpus, tmp_path) -> None:
    chainrule("train", "uniform", corpus, "-o", tmp_path / "characters", "--tokenizer", "character")
    refused = chainrule("mix", model, tmp_path / "characters", "--weights", "0.5", "0.5", "-o", tmp_path / "mix")
    assert "they use whitespace and character" in refused.error
    (tmp_path / "other.txt").write_text("quite other words\n")
    chainrule("train", "ngram", tmp_path / "other.txt", "-o", tmp_path / "other", "--tokenizer", "whitespace")
    refused = chainrule("mix", model, tmp_path / "other", "-o", tmp_path / "mix")
    assert "static mixture (chainrule.merge, or mix --static)" in refused.error
    assert "--overwrite" in chainrule("mix", model, bigram, "--weights", "0.5", "0.5", "-o", tmp_path / "other").error
    refused = chainrule("mix", model, bigram, "-o", bigram, "--overwrite")
    assert "is one of the models that are mixed" in refused.error
    refused = chainrule("mix", model, bigram, "--weights", "1", "-o", tmp_path / "mix")
    assert "1 weight for 2 models" in refused.error
    for options in ((), ("--weights", "1")):
        refused = chainrule("mix", model, *options, "-o", tmp_path / "mix")
        assert "needs two models" in refused.error
        assert "note:" not in refused.err
    twice = chainrule("mix", model, f"{model}/", "-o", tmp_path / "mix")
    assert "is named twice; name each model once" in twice.error


@pytest.mark.parametrize("target", ["merged", "merged.arpa"])
def test_merged_models_are_one_n_gram_model(target, chainrule, model, bigram, heldout, tmp_path) -> None:
    options = ("--tune", heldout)
    assert chainrule("mix", model, bigram, *options, "-o", tmp_path / "mix").status == 0
    assert chainrule("mix", model, bigram, *options, "--static", "-o", tmp_path / target).status == 0
    merged, mixed = library.load(tmp_path / target), library.load(tmp_path / "mix")
    assert merged.family == "ngram"
    assert merged.perplexity(heldout) == pytest.approx(mixed.perplexity(heldout), rel=0.02)


def test_vocabularies_that_differ_are_merged_and_words_keep_their_share(chainrule, model, tmp_path) -> None:
    (tmp_path / "other.txt").write_text("new words stand here\nand new words there\n" * 3)
    options = ("--order", 2, "--tokenizer", "whitespace")
    assert chainrule("train", "ngram", tmp_path / "other.txt", *options, "-o", tmp_path / "other").status == 0
    parts = model, tmp_path / "other"
    refused = chainrule("mix", *parts, "--weights", "0.5", "0.5", "-o", tmp_path / "mix")
    assert "their vocabularies have 338 and" in refused.error
    assert chainrule("mix", *parts, "--weights", "0.25", "0.75", "--static", "-o", tmp_path / "both").status == 0
    both, other = library.load(tmp_path / "both"), library.load(tmp_path / "other")
    found, expected = (dict(part.next("", top=1000))["new"] for part in (both, other))
    assert found == pytest.approx(0.75 * expected, rel=1e-5)
    row = both.language_model.next_log_probs(both.language_model.start([[5, 6]]))
    assert np.exp(row, dtype=np.float64).sum() == pytest.approx(1, abs=1e-5)


def test_models_that_cannot_be_merged_are_an_error(chainrule, model, bigram, corpus, tmp_path) -> None:
    chainrule("train", "uniform", corpus, "-o", tmp_path / "uniform", "--tokenizer", model)
    chainrule("train", "ngram", corpus, "-o", tmp_path / "characters", "--tokenizer", "character", "--order", 2)
    target = ("--static", "-o", tmp_path / "mix")
    assert "it is of family 'uniform', which has no" in chainrule("mix", model, tmp_path / "uniform", *target).err
    assert chainrule("mix", model, bigram, "-o", tmp_path / "dynamic").status == 0
    for verb in (("mix", model), ("prune",)):
        options = target if verb[0] == "mix" else ("--to-ngrams", 400, "-o", tmp_path / "mix")
        assert "it is a mixture" in chainrule(*verb, tmp_path / "dynamic", *options).error
    assert "they use whitespace and character" in chainrule("mix", model, tmp_path / "characters", *target).err
    assert "--cache does not go with --static" in chainrule("mix", model, bigram, "--cache", 5, *target).err
    assert not (tmp_path / "mix").exists()
