"""The family of language models of trees. No engine is loaded before a function here is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.models.families.family import Family

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.trees.config import TreeConfig
    from chainrule.features.trees.language_model import TreeModel
    from chainrule.models.families.family import Arrays, Json
    from chainrule.training.config import TrainingRun
    from chainrule.training.job import StreamOptions


def _with_brackets(config: TreeConfig, tokenizer: Any) -> TreeConfig:
    from chainrule.features.trees.language_model import with_brackets

    return with_brackets(config, tokenizer)


def _train(
    stream: Int32[ndarray, " T"],
    vocabulary_size: int,
    config: TreeConfig,
    progress: Progress,
    options: StreamOptions | None = None,
    run: TrainingRun | None = None,
) -> tuple[TreeModel, Json]:
    from chainrule.features.trees.language_model import TreeModel
    from chainrule.features.trees.objective import tree_job
    from chainrule.training.config import TrainingRun
    from chainrule.training.job import StreamOptions
    from chainrule.training.run import run_job

    network, record = run_job(
        tree_job(stream, vocabulary_size, config, options or StreamOptions()), run or TrainingRun()
    )
    return TreeModel(network), record


def _take_apart(model: TreeModel) -> tuple[Json, Arrays]:
    from chainrule.features.trees.language_model import to_state

    return to_state(model)


def _put_together(settings: Json, arrays: Arrays, vocabulary_size: int) -> TreeModel:
    from chainrule.features.trees.language_model import from_state

    return from_state(settings, arrays, vocabulary_size)


TREE = Family(
    token_bytes=0,
    train=_train,
    to_state=_take_apart,
    from_state=_put_together,
    trains_in_steps=True,
    resolved_for=_with_brackets,
)
