"""The end of a run: the last validation, and the record that is kept with the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from chainrule.training.config import settings_of

if TYPE_CHECKING:
    from chainrule.training.timetable import Timetable
    from chainrule.training.trainer import Trainer


def validate_finally(trainer: Trainer, timetable: Timetable) -> dict[str, Any] | None:
    """Validates the best weights on the whole text, or as much of it as fits the minutes; None without validation.

    The network must have its best weights, and be in evaluation mode.
    """
    objective, whole = trainer.objective, trainer.objective.validation_tokens
    if trainer.best_weights is None or not whole:
        return None
    sample = timetable.sample()
    validated, tokens = trainer.best_validated, whole
    if sample < whole or validated is None:
        tokens = timetable.final_sample()
        validated = objective.validated(tokens)
    return {
        "loss": validated.loss,
        "step": trainer.best_step,
        "tokens": validated.predictions,
        "read_tokens": tokens,
        "text_tokens": whole,
        "while_learning": {"loss": trainer.best, "read_tokens": sample},
        "unigram_loss": objective.unigram_loss(),
        **validated.figures,
    }


def run_record(trainer: Trainer, elapsed: float, validation: dict[str, Any] | None) -> dict[str, Any]:
    """What is recorded of a run. elapsed: seconds of the whole run."""
    network, setup = trainer.network, trainer.setup
    record: dict[str, Any] = {
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "training": {
            **settings_of(setup.training),
            "batch": setup.recipe.batch,
            "learning_rate": setup.recipe.rate,
            "matrix_learning_rate": setup.recipe.matrix_rate,
            "warm_up": trainer.warm_up,
            **setup.machine.as_json(),
            "float32_layers": setup.machine.layers_in_float32(network),
            "processes": setup.processes.number,
            "torch": torch.__version__,
        },
        "steps": trainer.step,
        "tokens_seen": trainer.tokens,
        "training_seconds": trainer.seconds,
        "run_seconds": elapsed,
    }
    return record | ({} if validation is None else {"validation": validation})
