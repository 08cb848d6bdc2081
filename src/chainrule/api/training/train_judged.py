"""The second phase of a model of paragraphs: a discriminator judges what it writes (Liang et al. 2017)."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.api.training.train_phrases import quarter
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from chainrule.neural.config.seq2seq import CaptionConfig
    from chainrule.neural.seq2seq.network import ConditionalNetwork
    from chainrule.training.config import TrainingConfig, TrainingRun
    from chainrule.training.objectives.seq2seq import TokenPairs

DISCRIMINATOR = "discriminator"  # of checkpoints, in the folder of the run
_ADVERSARIAL_RATE = 3e-4  # of AdamW: a tenth of the first phase's


def check_discriminator(config: CaptionConfig, weight: float) -> None:
    """Raises SettingError."""
    if weight < 0:
        raise SettingError(f"discriminator is {weight:g}; expected 0 or more, the weight of its rewards")
    if weight and (config.decoder != "hierarchical" or config.attention == "hard"):
        raise SettingError(
            "the discriminator judges sentences of paragraphs; set decoder to hierarchical, without hard attention, or "
            "discriminator to 0"
        )


def train_judged(
    network: ConditionalNetwork,
    pairs: TokenPairs,
    training: TrainingConfig,
    run: TrainingRun,
    origin: dict[str, Any],
    weight: float,
) -> ConditionalNetwork:
    """The network after a shorter second phase, for a quarter of the budget. weight: of the discriminator's rewards.

    Raises as `train_captions`.
    """
    from chainrule.training.objectives.adversarial import adversarial_job
    from chainrule.training.run import run_job

    settled = replace(
        training,
        valid_share=0,
        optimiser="adamw",
        learning_rate=_ADVERSARIAL_RATE,
        matrix_learning_rate=None,
        **quarter(training),
    )
    job = adversarial_job(lambda: copy.deepcopy(network), pairs, settled, origin, weight=weight)
    folder = None if run.folder is None else run.folder / DISCRIMINATOR
    judged, _ = run_job(replace(job, whole=training), replace(run, folder=folder))
    return judged.writer
