"""The run of a network that learns labels, whatever its inputs: new, or on a network that was trained before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from chainrule.training.defaults import Recipe
from chainrule.training.job import TrainingJob
from chainrule.training.labels import LabelObjective
from chainrule.training.run import run_job
from chainrule.training.sorted_batches import steps_in_epoch

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.training.job import Setup
    from chainrule.training.label_config import LabelTraining
    from chainrule.training.labels import LabelData
    from chainrule.training.objective import Objective
    from chainrule.training.options import TrainingRun

N = TypeVar("N", bound=Any)  # a LabelNetwork that is a torch module


@dataclass(frozen=True)
class Learner(Generic[N]):
    """A network that is not built yet, as in `TrainingJob`.

    network: its settings; text: what is known of what it reads, besides the examples; both must be the same for a run
    to go on. inputs: what it reads, in the plural, for messages. note: for people, before the first step. objective: of
    a network, what it is to learn.
    """

    build: Callable[[], N]
    network: dict[str, Any]
    text: dict[str, Any]
    inputs: str
    note: str | None = None
    objective: Callable[[N, Setup, LabelData[Any]], Objective] = LabelObjective


def learn_labels(
    learner: Learner[N], data: LabelData[Any], config: LabelTraining, run: TrainingRun
) -> tuple[N, dict[str, Any]]:
    """The network in evaluation mode, on the CPU, with the weights of the best epoch; and its record.

    Raises SettingError where there is no such device, or a step does not fit into memory; EstimationError where the
    loss is no number; and what `run_job` raises.
    """
    settled = config.fitted_to(len(data.training))
    assert settled.batch is not None
    steps = steps_in_epoch(len(data.training), settled.batch)
    fitted = None if settled == config else _fitted_note(settled, len(data.training), learner.inputs)
    job = TrainingJob(
        training=settled.training(steps),
        recipe=Recipe(
            settled.batch, config.learning_rate, config.learning_rate, settled.warm_up(len(data.training), steps)
        ),
        network=learner.network,
        text={**learner.text, **data.as_json()},
        build=learner.build,
        matrices=lambda network: network.matrices(),
        objective=lambda network, setup: learner.objective(network, setup, data),
        step=f"{settled.batch} {learner.inputs}",
        smaller=f"batch, or cut long {learner.inputs} into parts",
        notes=tuple(note for note in (fitted, learner.note) if note),
        keeps_best=True,
        calmer="a lower learning_rate",
    )
    network, record = run_job(job, run)
    validation = record.get("validation")
    return network, {
        **record,
        "batch": settled.batch,
        "most_epochs": settled.epochs,
        "epochs": -(-record["steps"] // steps),
        "best_epoch": -(-(record["steps"] if validation is None else validation["step"]) // steps),
        "validation_nats": None if validation is None else validation["loss"],
        "validation_accuracy": None if validation is None else validation.get("accuracy"),
        "examples": len(data.training),
        "validation_examples": len(data.validation),
    }


def _fitted_note(settled: LabelTraining, examples: int, inputs: str) -> str:
    epochs = "" if settled.epochs is None else f", for at most {settled.epochs} epochs"
    return f"the {inputs} are {examples:,}, so each step reads {settled.batch}{epochs}"
