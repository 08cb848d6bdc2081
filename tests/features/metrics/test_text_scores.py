"""Scores of captions and summaries against figures of pycocoevalcap 1.2, nltk 3.10.4 and rouge-score 0.1.2."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.features.metrics import rouge as meteor_module
from chainrule.features.metrics.bleu import caption_bleu, caption_bleu_statistics
from chainrule.features.metrics.rouge import (
    caption_rouge_l,
    caption_words,
    cider_d,
    longest_common_subsequence,
    meteor,
    rouge_words,
    summary_rouge,
)

TEXTS = [
    "a dog runs above the ship",
    "the small horses",
    "a cat sits beside the truck and a dog",
    "a horse jumped below the ship",
    "truck",
]
REFERENCE_TEXTS = [
    ["a dog running above the ship", "the dog runs above a large ship"],
    ["a small horse sits", "two horses below the truck"],
    ["a cat sits beside the truck"],
    ["the horse jumping below a ship", "a horse jumped above the cat and a dog that runs", "horse"],
    ["a truck", "the truck runs"],
]
CAPTIONS = [text.split() for text in TEXTS]
REFERENCES = [[text.split() for text in several] for several in REFERENCE_TEXTS]
# Computed from these captions, without tokenizers: Bleu, Cider and Rouge of pycocoevalcap; meteor_score of nltk with
# snowballstemmer 3.1.1 and a WordNet whose synsets are empty; score_multi of rouge-score without stemming.
BLEU = [88.0, 72.663608, 61.357924, 49.021658]
CIDER_D = [3.40226637, 1.21590707, 6.65480406, 1.19156795, 2.06887684]
CAPTION_ROUGE_L = [0.83333333, 0.27853881, 0.82993197, 0.82993197, 0.62886598]
METEOR = [0.99768519, 0.48076923, 0.93474427, 0.85185185, 0.26315789]
SUMMARY_ROUGE = [
    [0.92307692, 0.6, 0.83333333],
    [0.5, 0.0, 0.28571429],
    [0.8, 0.76923077, 0.8],
    [0.83333333, 0.26666667, 0.5],
    [0.66666667, 0.0, 0.66666667],
]


def test_bleu_of_captions_is_that_of_pycocoevalcap() -> None:
    sums = caption_bleu_statistics(CAPTIONS, REFERENCES).sum(axis=0)
    assert [float(caption_bleu(sums, order)) for order in (1, 2, 3, 4)] == pytest.approx(BLEU, abs=2e-6)


def test_bleu_is_0_for_orders_without_a_match() -> None:
    # "a b" against "a c d": one of two words matches, no bigram; brevity penalty exp(1 - 3/2).
    sums = caption_bleu_statistics([["a", "b"]], [[["a", "c", "d"]]]).sum(axis=0)
    assert float(caption_bleu(sums, 1)) == pytest.approx(100 * math.exp(-0.5) / 2)
    assert float(caption_bleu(sums, 2)) == 0


def test_cider_d_is_that_of_pycocoevalcap() -> None:
    assert cider_d(CAPTIONS, REFERENCES).tolist() == pytest.approx(CIDER_D, abs=1e-8)


def test_cider_d_by_hand() -> None:
    # Equal single words: cosine 1 for order 1 and 0 for the three others, so 10 / 4. A word of every reference weighs
    # log(2/2) = 0.
    assert cider_d([["a"], ["b"]], [[["a"]], [["b"]]]).tolist() == [2.5, 2.5]
    assert cider_d([["a"], ["a"]], [[["a"]], [["a"]]]).tolist() == [0, 0]
    # "b b b" has three times the weight of "b", clipped to one: cosine w w / (3w w) = 1/3; two bigrams more.
    assert cider_d([["a"], ["b", "b", "b"]], [[["a"]], [["b"]]])[1] == pytest.approx(
        10 / 4 / 3 * math.exp(-(2**2) / (2 * 6**2))
    )


def test_cider_d_of_no_words_is_0() -> None:
    assert cider_d([[], ["b"]], [[["a"]], [[], ["b"]]]).tolist() == [0, 1.25]


def test_rouge_l_of_captions_is_that_of_pycocoevalcap() -> None:
    scores = [caption_rouge_l(*pair) for pair in zip(CAPTIONS, REFERENCES, strict=True)]
    assert scores == pytest.approx(CAPTION_ROUGE_L, abs=1e-8)


def test_rouge_of_summaries_is_that_of_rouge_score() -> None:
    scores = [summary_rouge(*pair) for pair in zip(CAPTIONS, REFERENCES, strict=True)]
    assert np.array(scores) == pytest.approx(np.array(SUMMARY_ROUGE), abs=1e-8)


WORDS = st.lists(st.sampled_from("abcd"), max_size=12)


@given(WORDS, WORDS)
def test_the_longest_common_subsequence_against_the_textbook(first: list[str], second: list[str]) -> None:
    def length(i: int, j: int) -> int:
        table = [[0] * (j + 1) for _ in range(i + 1)]
        for a in range(1, i + 1):
            for b in range(1, j + 1):
                equal = first[a - 1] == second[b - 1]
                table[a][b] = table[a - 1][b - 1] + 1 if equal else max(table[a - 1][b], table[a][b - 1])
        return table[i][j]

    assert longest_common_subsequence(first, second) == length(len(first), len(second))


def test_meteor_is_that_of_nltk() -> None:
    assert [meteor(*pair) for pair in zip(CAPTIONS, REFERENCES, strict=True)] == pytest.approx(METEOR, abs=1e-8)


def test_meteor_by_hand() -> None:
    # Both words match (dog: stem), crossed: two chunks of two matches, so 1 - 0.5 (2/2)^3.
    assert meteor(["ran", "dogs"], [["dog", "ran"]]) == pytest.approx(0.5)
    # P = 1, R = 1/2: 0.5 / (0.9 + 0.05), one chunk of one match.
    assert meteor(["Dog"], [["a", "dog"], ["cat"]]) == pytest.approx(0.5 / 0.95 * 0.5)
    assert meteor([], [["dog"]]) == 0


def test_words_of_captions_and_of_rouge() -> None:
    assert caption_words("A man's T-shirt: it DOESN\u2019T fit, 3.5 cm!") == (
        ["a", "man", "'s", "t-shirt", "it", "does", "n't", "fit", "3.5", "cm"]
    )
    assert rouge_words("It's Über_all, t-shirt") == ["it", "s", "über", "all", "t", "shirt"]


def test_all_scores_of_captions_with_intervals() -> None:
    scores = chainrule.measure_captions([text.upper() + "." for text in TEXTS], REFERENCE_TEXTS)
    row = scores.to_dict()
    assert row["texts"] == 5
    assert row["BLEU-4"] == pytest.approx(BLEU[3], abs=2e-6)
    assert row["METEOR"] == pytest.approx(100 * sum(METEOR) / 5, abs=1e-6)
    assert row["ROUGE-L"] == pytest.approx(100 * sum(CAPTION_ROUGE_L) / 5, abs=1e-6)
    assert row["CIDEr-D"] == pytest.approx(sum(CIDER_D) / 5, abs=1e-7)
    assert min(CIDER_D) < row["CIDEr-D_low"] < row["CIDEr-D"] < row["CIDEr-D_high"] < max(CIDER_D)
    assert "no synonyms" in str(scores)


def test_all_scores_of_summaries() -> None:
    row = chainrule.measure_summaries(TEXTS, REFERENCE_TEXTS).to_dict()
    assert [row["ROUGE-1"], row["ROUGE-2"], row["ROUGE-L"]] == pytest.approx(
        (100 * np.mean(SUMMARY_ROUGE, axis=0)).tolist(), abs=1e-6
    )


SENTENCES = st.lists(st.sampled_from(["the", "cat", "Katze,", "on", "ab", "x"]), min_size=1, max_size=7).map(" ".join)


@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=2, max_size=5))
def test_translations_are_measured_as_sacrebleu_does(pairs: list[tuple[str, str]]) -> None:
    texts, references = map(list, zip(*pairs, strict=True))
    row = chainrule.measure_translations(texts, references).to_dict()
    assert row["BLEU"] == pytest.approx(sacrebleu.corpus_bleu(texts, [references]).score, abs=1e-9)
    assert row["chrF"] == pytest.approx(sacrebleu.corpus_chrf(texts, [references]).score, abs=1e-9)


def test_translations_have_signatures_and_a_length_ratio() -> None:
    bleu, chrf, ratio = chainrule.measure_translations(["a b c", ""], ["a b", "c d"]).scores
    version = sacrebleu.__version__
    assert bleu.variant == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    assert chrf.variant == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}"
    assert ratio.value == 3 / 4


def test_what_cannot_be_measured() -> None:
    with pytest.raises(TextError, match="text 2 has no reference"):
        chainrule.measure_captions(["a", "b"], [["a"], [" "]])
    with pytest.raises(TextError, match="2 texts have 1 lists of references"):
        chainrule.measure_summaries(["a", "b"], [["a"]])
    with pytest.raises(TextError, match="no texts"):
        chainrule.measure_summaries([], [])
    with pytest.raises(TypeError, match="list of references"):
        chainrule.measure_captions(["a"], ["a"])  # type: ignore[list-item]


def test_without_the_stemmer_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meteor_module, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r"snowballstemmer: pip install 'chainrule\[bleu\]'"):
        chainrule.measure_captions(["a"], [["a"]])
