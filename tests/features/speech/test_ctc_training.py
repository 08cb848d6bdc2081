"""Training by CTC: the loss is that of all alignments; runs go on bit for bit; what cannot be learned is said."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, product
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from sung import CONFIG, TEXTS, TRAINING, transcript, transcripts, weights

from chainrule import SpeechConfig, train_speech
from chainrule.errors import SettingError, TextError
from chainrule.features.speech.network import SpeechNetwork, batch_of
from chainrule.features.speech.objective import MicroBatch, _ctc_loss, least_steps
from chainrule.features.speech.sounds.features import normalised
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.training.reports import Report

pytestmark = pytest.mark.usefixtures("one_thread")  # the networks are tiny

KINDS = {
    "lstm": replace(CONFIG, width=8, layers=2, dropout=0.1, masks=1),
    "gru": replace(CONFIG, encoder="gru", width=8),
    "transformer": replace(CONFIG, encoder="transformer", width=16, heads=2, stacked=2),
    "convolutions": replace(CONFIG, width=8, convolutions=2, channels=4),
}
QUICK = replace(TRAINING, steps=4, batch=4, validate_every=2, save_every=1, valid_share=0.2)


def network_of(config: SpeechConfig, labels: str = "ab") -> SpeechNetwork:
    torch.manual_seed(0)
    return SpeechNetwork(replace(config, labels=tuple(labels))).eval()


@pytest.mark.parametrize("name", KINDS)
def test_what_is_heard_of_a_sound_does_not_depend_on_its_neighbours(name: str) -> None:
    network = network_of(KINDS[name])
    sounds = [normalised(item.frames) for item in transcripts()[:6]]
    with torch.no_grad():
        scores, steps = network(batch_of(sounds))
    for row, count, own in zip(scores, steps.tolist(), sounds, strict=True):
        assert count == network.steps(len(own))
        alone = network.log_probs_of(own)
        np.testing.assert_allclose(row[:count].log_softmax(-1), alone, atol=1e-5)


@pytest.mark.parametrize("labels", [[], [1], [1, 2], [2, 2], [1, 2, 1]])
def test_the_loss_is_minus_the_log_of_all_alignments(labels: list[int]) -> None:
    scores = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(len(labels)))
    log_probs = scores[0].log_softmax(-1).double().numpy()
    total = sum(
        np.exp(sum(log_probs[t, label] for t, label in enumerate(path)))
        for path in product(range(3), repeat=4)
        if [label for label, _ in groupby(path) if label] == labels
    )
    part = MicroBatch(None, torch.tensor(labels), torch.tensor([len(labels)]))  # type: ignore[arg-type]
    assert float(_ctc_loss(scores, torch.tensor([4]), part)) == pytest.approx(-np.log(total), rel=1e-5)


def test_gradients_are_those_of_small_steps() -> None:
    """Of the scores before softmax: torch's are wrong where log_softmax is left out of the graph."""
    scores = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    part = MicroBatch(None, torch.tensor([1, 2]), torch.tensor([2]))  # type: ignore[arg-type]
    steps = torch.tensor([4])
    _ctc_loss(scores, steps, part).backward()
    assert scores.grad is not None
    for index in product(range(1), range(4), range(3)):
        losses = []
        for change in (1e-2, -1e-2):
            other = scores.detach().clone()
            other[index] += change
            losses.append(float(_ctc_loss(other, steps, part)))
        assert float(scores.grad[index]) == pytest.approx((losses[0] - losses[1]) / 2e-2, abs=2e-4)


def test_labels_need_a_step_each_and_equal_neighbours_one_between_them() -> None:
    assert [least_steps(np.array(own, np.int64)) for own in ([], [1], [1, 1], [1, 2, 2, 2])] == [0, 1, 3, 6]


class CutOffError(Exception):
    """Ends a run, as a power cut does."""


@pytest.mark.parametrize("name", KINDS)
def test_a_run_that_is_cut_off_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    def stop(report: Report) -> None:
        if report.step == 4:  # that of step 3 is saved
            raise CutOffError

    config = KINDS[name]
    whole = train_speech(transcripts(), config, training=QUICK, progress=False)
    with pytest.raises(CutOffError):
        train_speech(transcripts(), config, training=QUICK, folder=tmp_path, on_report=stop)
    steps: list[int] = []
    resumed = train_speech(
        transcripts(), config, training=QUICK, folder=tmp_path, resume=True, on_report=lambda r: steps.append(r.step)
    )
    assert steps == [4]
    assert weights(resumed) == weights(whole)
    with pytest.raises(SettingError, match="width"):
        train_speech(transcripts(), replace(config, width=64), training=QUICK, folder=tmp_path, resume=True)


def test_transcripts_that_cannot_be_learned_are_named_and_the_others_go_on() -> None:
    long = transcript("ab", 7)._replace(text="ab" * 40)
    errors: list[str] = []
    model = train_speech(
        [*transcripts(), long],
        CONFIG,
        training=replace(QUICK, steps=1),
        validation=[transcript("ab", 8), transcript("ab", 9)._replace(text="abc")],
        on_error=lambda error: errors.append(str(error)),
        progress=False,
    )
    steps = model.network.steps(len(long.frames))
    assert errors == [
        f"line 7: the transcript of ab.wav has 80 characters, which need 80 steps, and the sound has {steps} of 30 ms; "
        "correct it, or lower stacked (now 3)",
        "line 9: the transcript has 'c', which no transcript to train on has; it is left out",
    ]
    assert model.labels == (" ", "a", "b")
    assert model.record["sounds"] == 2 * len(TEXTS)
    with pytest.raises(TextError, match="which need 80 steps"):
        train_speech([long, *transcripts()], CONFIG, training=replace(QUICK, steps=1))
    with pytest.raises(TextError, match="no transcript is short enough"):
        train_speech([long], CONFIG, training=replace(QUICK, valid_share=0), on_error=lambda error: None)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (TrainingConfig(steps=1, label_smoothing=0.1), "label_smoothing is for tokens"),
        (TrainingConfig(steps=1, row_tokens=4), "row_tokens is for networks"),
        (TrainingConfig(steps=1, shard=True), "shard is for Transformers"),
    ],
)
def test_settings_that_do_not_suit(training: TrainingConfig, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        train_speech(transcripts(), CONFIG, training=training)


def test_settings_of_networks_that_cannot_be() -> None:
    for settings, message in (
        ({"width": 9}, "cannot be shared by two directions"),
        ({"encoder": "transformer", "width": 12, "heads": 4}, "cannot be shared by 4 heads"),
        ({"labels": ("a", "a")}, "expected distinct characters"),
        ({"convolutions": 9}, "convolutions"),
    ):
        with pytest.raises(SettingError, match=message):
            SpeechConfig(**settings)  # type: ignore[arg-type]


def test_frames_of_other_bands_and_too_few_transcripts() -> None:
    with pytest.raises(TextError, match=r"its frames are \[\d+, 40\]; expected T x 20 bands"):
        train_speech(transcripts(), replace(CONFIG, mels=20))
    with pytest.raises(TextError, match="leaves nothing to train or to validate on"):
        train_speech(transcripts()[:4], CONFIG)
    with pytest.raises(TypeError, match="this takes transcripts"):
        train_speech(["a.wav"])  # type: ignore[list-item]


def test_masks_hide_parts_of_sounds_in_training_only() -> None:
    network = network_of(replace(CONFIG, masks=3))
    sounds = [normalised(item.frames) for item in transcripts()[:2]]
    with torch.no_grad():
        plain = [network(batch_of(sounds))[0] for _ in range(2)]
        network.train()
        hidden = [network(batch_of(sounds))[0] for _ in range(2)]
    assert torch.equal(*plain)
    assert not torch.equal(*hidden)
