"""Detection: ranks against sorted distributions, curvature against its definition, ROC against scikit-learn."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.features.corpus.detect import ShownText, ShownToken, quiz_page, ranks_page
from chainrule.features.corpus.detection import curvatures, perturb, rank_texts
from chainrule.features.metrics.classification import roc
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["vi sa man to", "ka  vi zyzzyva", "bu", "sa man ka vi — bu ké"]
HOSTILE = '</script><script>alert(1)</script>" onload="x" & <b>'


@pytest.fixture(scope="module", params=["word", "bpe", "byte"])
def model(request: pytest.FixtureRequest, fixtures: Path) -> Any:
    tokenizer = chainrule.TokenizerConfig(kind="bpe", vocabulary_size=300) if request.param == "bpe" else request.param
    return chainrule.train(fixtures / "train.txt", chainrule.NGramConfig(order=3), tokenizer=tokenizer)


@pytest.fixture(scope="module")
def masked(fixtures: Path) -> Any:
    config = chainrule.MaskedConfig(layers=1, width=16, heads=2, context=24)
    return chainrule.train(fixtures / "train.txt", config, training=chainrule.TrainingConfig(steps=2))


def test_ranks_are_places_in_the_sorted_distribution(model: Any) -> None:
    """Oracle: for each token by itself, all tokens sorted by the distribution after those before it."""
    for text, ranked in zip(TEXTS, rank_texts(model.language_model, model.tokenizer, TEXTS), strict=True):
        ids = model.tokenizer.encode_texts([text]).ids[:-1]
        assert len(ids) == len(ranked.ranks) == len(ranked.pieces)
        for position, token in enumerate(ids.tolist()):
            [row] = model.language_model.next_log_probs(model.language_model.start([ids[:position]]))
            likelier = sorted((log_prob for log_prob in row.tolist() if log_prob > row[token]), reverse=True)
            assert ranked.ranks[position] == 1 + len(likelier)
            assert ranked.log_probs[position] == pytest.approx(row[token], abs=1e-5)
            assert len(ranked.likelier[position]) == 3
        normalised = model.tokenizer.align(model.tokenizer.encode_texts([text])).text.tobytes().decode().rstrip("\n")
        assert "".join(ranked.pieces) == normalised


def test_statistics_by_hand(model: Any) -> None:
    [found] = chainrule.detect(model, ["vi sa man to"])
    ranks, log_probs = found.ranked.ranks.tolist(), found.ranked.log_probs.tolist()
    row = found.to_dict()
    assert row["top_10"] == sum(rank <= 10 for rank in ranks) / len(ranks)
    assert row["top_100"] == pytest.approx(sum(rank <= 100 for rank in ranks) / len(ranks))
    assert row["mean_log_prob"] == pytest.approx(sum(log_probs) / len(ranks))
    assert found.statistics()["log-rank"] == pytest.approx(-sum(np.log(ranks)) / len(ranks))
    assert sum(found.ranked.shares) == pytest.approx(1)
    assert [token["rank"] for token in found.to_records()] == ranks


def test_perturbations_fill_a_share_of_the_tokens_by_the_masked_model(masked: Any) -> None:
    text = "vi sa man to ka vi bu ma sa ka"
    words = text.split()

    class OneWord:
        """A filler that is sure of one word, and notes what it sees."""

        def __init__(self) -> None:
            self.seen: list[Any] = []

        def fill(self, sequence: Any) -> Any:
            self.seen.append(sequence.copy())
            rows = np.full((int((sequence == BEGIN).sum()), masked.vocabulary_size), -np.inf, np.float32)
            rows[:, masked.tokenizer.vocabulary.id_of("gu")] = 0
            return rows

    filler = OneWord()
    texts = perturb(filler, masked.tokenizer, text, 50, np.random.default_rng(0), share=0.3)
    changed = [[i for i, word in enumerate(other.split()) if word != words[i]] for other in texts]
    for other, places, seen in zip(texts, changed, filler.seen, strict=True):
        assert len(places) == 3
        assert all(other.split()[place] == "gu" for place in places)
        assert np.flatnonzero(seen == BEGIN).tolist() == places
    assert len({place for places in changed for place in places}) == len(words)
    one = perturb(masked.engine, masked.tokenizer, text, 3, np.random.default_rng(5))
    assert one == perturb(masked.engine, masked.tokenizer, text, 3, np.random.default_rng(5))
    assert "<unk>" not in " ".join(one)


def test_curvature_is_its_definition(model: Any, masked: Any) -> None:
    """Oracle: each perturbation scored as a text of its own, by its tokens."""
    arguments = (model.language_model, model.speller, model.tokenizer, masked.engine, masked.tokenizer)
    texts = ["vi sa man to ka vi", "bu ma sa ka"]
    found = curvatures(*arguments, texts, 6, seed=4)

    def mean(text: str) -> float:
        """Per token, unknown ones spelled."""
        measured = model.evaluate(chainrule.Lines([text]), ends=False)
        return measured.text_log_prob / measured.tokens

    for i, text in enumerate(texts):
        others = [mean(other) for other in perturb(*arguments[3:], text, 6, np.random.default_rng([4, i]))]
        expected = (mean(text) - np.mean(others)) / np.std(others, ddof=1)
        assert found[i] == pytest.approx(expected, rel=1e-3, abs=1e-3)
    [alone] = curvatures(*arguments, texts[:1], 6, seed=4)
    assert alone == pytest.approx(found[0])


@pytest.mark.parametrize("ties", [False, True])
def test_the_curve_is_that_of_scikit_learn(ties: bool) -> None:
    from sklearn.metrics import roc_auc_score, roc_curve

    rng = np.random.default_rng(1)
    negatives, positives = rng.normal(0, 1, 40), rng.normal(0.8, 1, 30)
    if ties:
        negatives, positives = negatives.round(), positives.round()
    curve = roc(negatives, positives)
    labels, scores = np.repeat([0, 1], [40, 30]), np.concatenate([negatives, positives])
    assert curve.area == pytest.approx(roc_auc_score(labels, scores))
    false_positives, true_positives, _ = roc_curve(labels, scores, drop_intermediate=False)
    np.testing.assert_allclose(curve.false_positives, false_positives)
    np.testing.assert_allclose(curve.true_positives, true_positives)
    wins = [(a > b) + (a == b) / 2 for a in positives for b in negatives]
    assert curve.area == pytest.approx(np.mean(wins))
    found = max(t for f, t in zip(false_positives, true_positives, strict=True) if f <= 0.1)
    assert curve.true_positives_at(0.1) == pytest.approx(found)
    low, high = curve.interval
    assert low < curve.area < high


def test_the_interval_of_the_area_holds_the_true_one_in_19_of_20_samples() -> None:
    """Normal scores one deviation apart have an area of Phi(1 / sqrt 2) = 0.7602."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        low, high = roc(rng.normal(0, 1, 30), rng.normal(1, 1, 30)).interval
        held += low <= 0.760250 <= high
    assert 0.92 <= held / 400 <= 0.98
    low, high = roc(np.zeros(20), np.ones(20)).interval  # also where no texts are confused
    assert 0.8 < low < 1 == pytest.approx(high)


def test_what_cannot_be_measured_is_an_error(model: Any, masked: Any) -> None:
    with pytest.raises(SettingError, match="one has none"):
        roc(np.empty(0), np.ones(3))
    with pytest.raises(TextError, match="text 2: is empty"):
        chainrule.detect(model, ["ka vi", ""])
    with pytest.raises(SettingError, match="0 texts by people and 1 by machines"):
        chainrule.measure_detection(model, [], ["ka vi"])
    with pytest.raises(SettingError, match="perturbations is 1"):
        chainrule.detect(model, ["ka"], masked=masked, perturbations=1)
    with pytest.raises(SettingError, match="continues texts"):
        chainrule.detect(masked, ["ka"])


def test_measured_texts_of_the_model_are_told_from_noise(model: Any, masked: Any) -> None:
    """A trigram model finds its own samples likelier than words in random order."""
    rng = np.random.default_rng(0)
    machine = model.generate(n=12, seed=1, limits=chainrule.Limits(min_tokens=8, max_tokens=12))
    human = [" ".join(rng.permutation(text.split())) for text in machine]
    measured = chainrule.measure_detection(model, human, machine, masked=masked, perturbations=3)
    areas = {row["statistic"]: row["area"] for row in measured.to_records()}
    assert list(areas) == ["log-probability", "log-rank", "curvature"]
    if model.tokenizer.name != "byte":
        assert areas["log-probability"] > 0.7
    assert [line.get_label() for line in measured.plot().axes[0].lines] == list(areas)
    assert "area under ROC" in measured._repr_html_()


def test_pages_show_texts_as_text_and_load_nothing() -> None:
    token = ShownToken(" ", HOSTILE, 2, HOSTILE)
    ranks = ranks_page("Ranks", ["a", "b", "c", "d"], [ShownText([token], HOSTILE)])
    quiz = quiz_page(["person " + HOSTILE, "person 2"], ["machine", "machine 2"], seed=3)
    for page in (ranks, quiz):
        assert "<script>alert" not in page
        assert not re.search(r"(src|href)=", page)
        assert "default-src 'none'" in page
    assert "<script" not in ranks
    key = base64.b64decode(re.search('data-key="(.*?)"', quiz)[1]).decode()  # type: ignore[index]
    shown = re.findall("<p>(person|machine)", quiz)
    assert key == "".join("p" if who == "person" else "m" for who in shown)
    assert sorted(key) == ["m", "m", "p", "p"]
