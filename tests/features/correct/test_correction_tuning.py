"""Whether changes are as often right as they are probable, and settings that are chosen on held-out texts."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.correct.corrector.config import CorrectionSettings, read_settings, write_settings
from chainrule.features.correct.corrector.spans import Change, Corrected
from chainrule.features.correct.measures import JudgedChanges, calibrate, fit_calibration, judge_changes

if TYPE_CHECKING:
    from pathlib import Path

LINES = [
    "the dog bit the man and ran away from him",
    "a letter came from the man in the city",
    "I received the letter from my friend",
    "my friend has a lot of money",
    "sometimes the dog likes to be alone",
    "there is something wrong with the letter",
    "he was walking from the house to the river",
]


@pytest.fixture(scope="module")
def lm() -> chainrule.Model:
    return chainrule.train(chainrule.Lines(LINES * 5), chainrule.NGramConfig(order=3))


def test_a_change_is_right_if_fewer_words_are_wrong_with_it_alone() -> None:
    text = "teh dog bit teh man form here"
    changes = (Change(0, 3, "teh", "the", 0.9), Change(4, 7, "dog", "cat", 0.6), Change(12, 15, "teh", "tea", 0.4))
    judged = judge_changes([Corrected(text, "", changes)], [["the dog bit the man from here"], [text]])
    # Of the first reference, three words are wrong: one becomes right, one wrong, one stays wrong. Of the second, none.
    assert judged.gains.tolist() == [1, -1, 0, -1, -1, -1]
    assert judged.probs.tolist() == [0.9, 0.6, 0.4] * 2
    assert judged.errors == 3


def test_reliability_counts_what_is_right_among_changes_of_like_probability() -> None:
    judged = JudgedChanges(np.array([0.55, 0.65, 0.96, 1.0, 0.0]), np.array([1, 0, 2, -1, 0]), 9)
    rows = [tuple(row) for row in judged.reliability()]
    assert rows == [
        (0.0, 0.5, 1, 0.0, 0.0),
        (0.5, 0.7, 2, pytest.approx(0.6), 0.5),
        (0.95, 1.0, 2, pytest.approx(0.98), 0.5),
    ]


def test_the_best_threshold_is_that_of_a_search_over_all() -> None:
    rng = np.random.default_rng(0)
    for aim in ("f0.5", "accuracy"):
        for _ in range(20):
            probs = rng.random(12).round(1)
            judged = JudgedChanges(probs, rng.integers(-1, 3, 12), 30)
            threshold, figure = judged.best_threshold(aim)
            assert figure == judged.figure_at(threshold, aim)
            assert figure == max(judged.figure_at(one, aim) for one in np.linspace(0, 1.01, 300))
    judged = JudgedChanges(np.array([0.9, 0.8, 0.7]), np.array([1, 1, -1]), 4)
    # Two right changes, none wrong, two errors left: F0.5 = 1.25 * 2 / (1.25 * 2 + 0.25 * 2); half of the errors gone.
    assert judged.best_threshold("f0.5") == (pytest.approx(0.75), pytest.approx(2.5 / 3))
    assert judged.best_threshold("accuracy") == (pytest.approx(0.75), 0.5)
    assert JudgedChanges(np.array([0.9]), np.array([-1]), 4).best_threshold("accuracy")[1] == 0  # better none


def test_calibration_finds_the_slope_and_intercept_that_changes_were_drawn_with() -> None:
    rng = np.random.default_rng(0)
    probs = rng.beta(4, 1, 40_000)
    right = rng.random(probs.size) < calibrate(probs, 0.6, -0.8)
    slope, intercept = fit_calibration(probs, right)
    assert (slope, intercept) == (pytest.approx(0.6, abs=0.05), pytest.approx(-0.8, abs=0.1))
    made = calibrate(probs, slope, intercept)
    for low in (0.3, 0.5, 0.7):
        inside = (made >= low) & (made < low + 0.1)
        assert right[inside].mean() == pytest.approx(made[inside].mean(), abs=0.03)


def test_few_changes_settle_little_and_none_settle_nothing() -> None:
    assert fit_calibration(np.zeros(0), np.zeros(0, np.bool_)) == (1.0, 0.0)
    slope, intercept = fit_calibration(np.array([0.99, 1.0]), np.array([True, True]))
    assert 0.5 < slope < 3
    assert abs(intercept) < 1
    assert fit_calibration(np.array([0.99, 0.01] * 50), np.array([False, True] * 50))[0] == 0  # never reversed
    np.testing.assert_array_equal(calibrate(np.array([0.0, 0.3, 1.0]), 1.0, 0.0), [0.0, 0.3, 1.0])
    assert np.isfinite(calibrate(np.array([0.0, 1.0]), 2.0, 1.0)).all()


def spoilt(lines: list[str], seed: int) -> list[str]:
    """Every fifth word loses a letter or has two swapped."""
    rng = random.Random(seed)
    texts = []
    for line in lines:
        words = line.split()
        for i, word in enumerate(words):
            if rng.random() < 0.2 and len(word) > 2:
                cut = rng.randrange(len(word) - 1)
                words[i] = word[:cut] + rng.choice([word[cut + 1], word[cut + 1] + word[cut]]) + word[cut + 2 :]
        texts.append(" ".join(words))
    return texts


def test_tuned_settings_do_better_on_other_texts_than_a_bad_start(lm: chainrule.Model, tmp_path: Path) -> None:
    begin = {"rate": 1e-7, "config": chainrule.CorrectionConfig(at_least=0.999)}
    texts, others = spoilt(LINES * 2, 1), spoilt(LINES * 2, 2)
    tuned = chainrule.tune_correction(texts, LINES * 2, lm, tmp_path / "tuned.json", **begin)
    assert tuned.figures[1] > tuned.figures[0]
    assert tuned.settings.rate > begin["rate"]
    before = chainrule.measure_correction(chainrule.corrector(lm, **begin), others, LINES * 2)
    ready = chainrule.corrector(lm, settings=tmp_path / "tuned.json")
    after = chainrule.measure_correction(ready, others, LINES * 2)
    assert after.word_errors[1].value < before.word_errors[1].value
    # The figure is what the settings reach on the texts that they were chosen on.
    again = ready.correct(texts)
    assert judge_changes(again, [LINES * 2]).figure_at(0.0, "f0.5") == pytest.approx(tuned.figures[1])
    assert read_settings(tmp_path / "tuned.json") == tuned.settings
    assert json.loads((tmp_path / "tuned.json").read_text())["record"]["texts"] == 14


def test_the_figure_before_is_that_of_the_estimated_rate(lm: chainrule.Model) -> None:
    words = ["recieved", "freind", "leter", "somthing", "wallking", "rivver", "citty"]
    meant = ["received", "friend", "letter", "something", "walking", "river", "city"]
    sure = {"at_least": 0.98}  # which more changes are where more words are wrong
    by_default = [one.corrected for one in chainrule.correct(chainrule.Lines(words), lm, **sure)]
    assert by_default != [one.corrected for one in chainrule.correct(chainrule.Lines(words), lm, rate=0.02, **sure)]
    tuned = chainrule.tune_correction(words, meant, lm, maximise="accuracy", **sure)
    right = sum(one == own for one, own in zip(by_default, meant, strict=True))
    assert tuned.figures[0] == pytest.approx(right / 7)


def test_settings_give_way_to_a_rate_that_is_given(lm: chainrule.Model) -> None:
    settings = CorrectionSettings(rate=1e-9, at_least=0.9)
    texts = spoilt(LINES, 3)
    timid = chainrule.corrector(lm, settings=settings).correct(texts)
    bold = chainrule.corrector(lm, settings=settings, rate=0.05).correct(texts)
    assert sum(len(one.changes) for one in timid) < sum(len(one.changes) for one in bold)
    assert all(change.prob >= 0.9 for one in bold for change in one.changes)


@pytest.mark.parametrize(
    ("texts", "references", "options", "message"),
    [
        (["a"], ["a", "b"], {}, "1 texts and 2 references"),
        ([], [], {}, "expected some"),
        (["a dog"], ["a dog"], {}, "the texts equal their references"),
        (["a"], ["a"], {"maximise": "glory"}, "maximise is 'glory'; expected f0.5 or accuracy"),
    ],
)
def test_what_cannot_be_tuned_is_an_error(lm: chainrule.Model, texts, references, options, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        chainrule.tune_correction(texts, references, lm, **options)


def test_a_file_of_settings_is_read_as_it_was_written_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    settings = CorrectionSettings(rate=0.1, weight=1.4, at_least=0.7, calibration=(0.8, -0.1))
    write_settings(settings, path, {"texts": 3})
    assert read_settings(path) == settings
    whole = path.read_bytes()
    for cut in range(len(whole) - 2):
        path.write_bytes(whole[:cut])
        with pytest.raises(ModelFormatError, match=r"tuned\.json"):
            read_settings(path)
    wrong = [{"rate": "high"}, {"speed": 1}, {"calibration": 1.0}, {"calibration": [1, 2, 3]}, {"at_least": 7}]
    for values in (*wrong, {"calibration": [-1, 0]}, {"weight": True}, {"weight": None}, [], 5):
        path.write_text(json.dumps({"chainrule_correction": 1, "settings": values}))
        with pytest.raises(ModelFormatError, match=r"tuned\.json"):
            read_settings(path)
    for content in ("[]", "{}", '{"chainrule_correction": 2, "settings": {}}'):
        path.write_text(content)
        with pytest.raises(ModelFormatError, match="with the value 1"):
            read_settings(path)
