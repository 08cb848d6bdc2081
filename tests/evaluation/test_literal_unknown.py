"""A text that has <unk> in place of words: the literal is one spelling of the unknown token, for every kind of model.

The training text has seven unknown tokens: four are the literal <unk>, and three are words that the vocabulary leaves
out. So P(literal | unknown) is 4/7, and all other spellings share 3/7.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from samples import sampled

import chainrule
from chainrule.features.corpus.filter import document_scores
from chainrule.models.files.opening import load
from chainrule.ngram.speller import LITERAL, Speller, mixed_speller
from chainrule.text.tokenization.vocabulary import Vocabulary
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.models.language_models import CausalModel

LINES = ["a <unk> b", "b a <unk>", "zig a b <unk>", "a zag", "<unk> b zig a"]
SHARE = 4 / 7
CONFIGS = {
    "uniform": chainrule.UniformConfig(),
    "ngram": chainrule.NGramConfig(order=2),
    "network": chainrule.RecurrentConfig(width=4, layers=1),
}


def trained(name: str, folder: Path, lines: list[str] = LINES, words: str = "a\nb\n") -> CausalModel:
    (folder / "words.txt").write_text(words)
    tokenizer = chainrule.TokenizerConfig(kind="whitespace", vocabulary=str(folder / "words.txt"))
    options = {"training": TrainingConfig(steps=2, valid_share=0)} if name == "network" else {}
    return chainrule.train(
        chainrule.Lines(lines), CONFIGS[name], tokenizer=tokenizer, markers="keep", progress=False, **options
    )


@pytest.mark.parametrize("name", CONFIGS)
def test_the_literal_costs_its_share_of_the_unknown_tokens(name: str, tmp_path: Path) -> None:
    model = trained(name, tmp_path)
    found = model.evaluate(chainrule.Lines(["a <unk> b", "<unk>"]))
    assert found.spelling_log_prob == pytest.approx(2 * math.log(SHARE), abs=1e-12)
    assert found.text_log_prob == pytest.approx(found.log_prob + 2 * math.log(SHARE), rel=1e-9)
    model.save(tmp_path / "lm")
    assert load(tmp_path / "lm").speller.literal_share == SHARE


def test_by_hand_with_a_uniform_model(tmp_path: Path) -> None:
    """Four choices, each 1/4: a, b, <unk> and </s>."""
    model = trained("uniform", tmp_path)
    rest = model.speller.log_prob(b"zog")
    found = model.evaluate(chainrule.Lines(["a <unk> zog"]))
    assert found.log_prob == pytest.approx(4 * math.log(1 / 4))
    assert found.text_log_prob == pytest.approx(4 * math.log(1 / 4) + math.log(4 / 7) + rest)
    rows = chainrule.surprisal(chainrule.Lines(["a <unk> zog"]), model).to_records()
    bits = [row["surprisal_bits"] for row in rows]
    assert bits == pytest.approx([2, 2 + math.log2(7 / 4), 2 - rest / math.log(2)])
    assert [row["known"] for row in rows] == [True, False, False]
    [text] = chainrule.surprisal(chainrule.Lines(["a <unk> zog"]), model, by="texts").to_records()
    assert text["surprisal_bits"] == pytest.approx(sum(bits) + 2)


def test_where_all_unknown_tokens_are_literals_the_literal_costs_nothing(tmp_path: Path) -> None:
    """As on Penn Treebank: perplexity per word is that per token, and yet no other word is impossible."""
    lines = [line.replace("zig", "a").replace("zag", "b") for line in LINES]
    model = trained("ngram", tmp_path, lines)
    found = model.evaluate(chainrule.Lines(["a <unk> b", "b <unk>"]))
    assert found.word_perplexity == pytest.approx(found.perplexity, rel=1e-6)
    assert -math.inf < model.evaluate(chainrule.Lines(["a zog"])).spelling_log_prob < math.log(1e-6)


@pytest.mark.parametrize("share", sampled([0.0, 0.25, 1.0], [0.25]))
def test_all_spellings_sum_to_one_with_the_literal(share: float) -> None:
    """Over the alphabet a, < and X, which is one of the 128 bytes that are not ASCII, all alike."""
    never = bytes(set(range(128)) - set(b"a<unk>"))
    speller = Speller.train(
        [b"aa", b"a<", b"a<", b"<"], Vocabulary([b"a"]), unseen_types=1, never=never, literal_share=share
    )
    pieces = [b"a", b"<", b"u", b"n", b"k", b">", b"\xff"]
    total, sizes = 0.0, []
    for length in range(1, 7):
        spellings = [b"".join(some) for some in itertools.product(pieces, repeat=length)]
        spellings = [one for one in spellings if one != b"a"]
        alike = [128 ** one.count(b"\xff") for one in spellings]
        sizes.append(float(np.dot(np.exp(speller.log_probs(spellings)), alike)))
        total += sizes[-1]
    assert sizes[-1] < 0.05 * total  # longer ones hold little
    assert 1 - 2 * sizes[-1] < total < 1 + 1e-9


def test_a_mixture_has_the_mean_of_the_shares(tmp_path: Path) -> None:
    one = trained("ngram", tmp_path)
    other = trained("uniform", tmp_path, ["a zig", "b zag a"])  # without literals
    mixed = chainrule.mix([one, other], chainrule.MixtureConfig(weights=(0.25, 0.75)))
    assert mixed.speller.literal_share == pytest.approx(0.25 * SHARE)
    spelled = 0.25 * SHARE + 0.75 * math.exp(other.speller.log_prob(LITERAL))
    found = mixed.evaluate(chainrule.Lines(["a <unk>"]))
    assert found.spelling_log_prob == pytest.approx(math.log(spelled))
    word = mixed_speller([one.speller, other.speller], [0.25, 0.75], Vocabulary([b"a"]), unseen_types=1)
    assert word.log_prob(b"zog") == pytest.approx(mixed.speller.log_prob(b"zog"))


def test_a_filter_counts_the_share(tmp_path: Path) -> None:
    model = trained("uniform", tmp_path)
    [block] = chainrule.Lines(["a <unk>", "a b"]).blocks()
    assert document_scores(block, model, None) == pytest.approx([2 + math.log2(7 / 4) / 3, 2], abs=1e-5)


def test_files_of_counts_do_not_tell_literals_from_words_that_were_left_out(tmp_path: Path) -> None:
    counts = tmp_path / "counts.txt"
    (tmp_path / "text.txt").write_text("a <unk> b\nb a <unk>\n")
    chainrule.count_text(tmp_path / "text.txt", counts, order=2, tokenizer="whitespace", markers="keep")
    model = chainrule.train_counts([counts], chainrule.NGramConfig(order=2), tokenizer="whitespace")
    assert model.speller.literal_share == 0.5


def test_a_smaller_vocabulary_lowers_the_share(tmp_path: Path) -> None:
    """P(<unk>) grows by that of b, and what was the literal's stays."""
    model = trained("ngram", tmp_path)
    (tmp_path / "fewer.txt").write_text("a\n")
    pruned = chainrule.prune_to_vocabulary(model, tmp_path / "fewer.txt")
    before, after = (dict(one.next("", one.vocabulary_size))["<unk>"] for one in (model, pruned))
    unigrams = [math.exp(float(one.language_model.table.log_probs[1])) for one in (model, pruned)]
    assert pruned.speller.literal_share == pytest.approx(SHARE * unigrams[0] / unigrams[1])
    assert after > before


@pytest.mark.parametrize("share", [-0.5, 1.0, math.nan])
def test_a_share_that_is_none_is_damage(share: float) -> None:
    speller = Speller.train([b"a"], Vocabulary([b"b"]), unseen_types=1, literal_share=0.5)
    arrays = {**speller.arrays(), "literal_share": np.array([share])}
    with pytest.raises(chainrule.ModelFormatError, match="literal_share"):
        Speller.from_arrays(arrays, Vocabulary([b"b"]))


def test_folders_without_a_share_are_those_of_texts_without_literals(tmp_path: Path) -> None:
    model = trained("ngram", tmp_path, ["a zig", "b zag a"])
    assert "literal_share" not in model.speller.arrays()
    assert Speller.from_arrays(model.speller.arrays(), model.tokenizer.vocabulary).literal_share == 0
