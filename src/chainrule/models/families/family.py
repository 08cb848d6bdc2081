"""Family: what the rest of the program needs to know of a family of models, as functions and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from chainrule.errors import SettingError
from chainrule.ngram.config import ignore_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.errors import ChainruleError
    from chainrule.evaluation.likelihood import StreamScoring
    from chainrule.ngram.config import DiskPlan

    Arrays = dict[str, ndarray]
    Json = dict[str, Any]


Task = Literal["continue", "fill", "embed", "classify"]


class Quantization(NamedTuple):
    """How models of a family become compact, quantised so that they take less memory, and how that is undone.

    compact, unpack: functions from a model and a progress callback to a model. Both raise SettingError; unpacking
    restores no precision. compact also takes the bits of a weight, or None for the usual.
    """

    compact: Callable[[Any, Progress, int | None], Any]
    unpack: Callable[[Any, Progress], Any]
    is_compact: Callable[[Any], bool]


class Counting(NamedTuple):
    """How a model is estimated from counts.

    heldout: a text to tune the smoothing on. memory: the most bytes that may be held; by default, what is free.
    on_plan: called with a DiskPlan before n-grams are counted on disk.
    """

    heldout: Int32[ndarray, " heldout"] | None = None
    memory: int | None = None
    on_plan: Callable[[DiskPlan], None] = ignore_plan


DEFAULT_COUNTING = Counting()


@dataclass(frozen=True)
class Family:
    """How the engines of a family are trained, saved and restored, and what they can do; `Kind.engine` names it.

    train: (token stream, vocabulary size, configuration, progress) -> (model, training record). An owned stream may be
    freed early. A family that is estimated from counts also takes `counting`. One that trains in steps borrows the
    stream, and also takes StreamOptions and a TrainingRun.
    to_state: model -> (settings, arrays), which are saved.
    from_state: (settings, arrays, vocabulary size) -> model. Raises ModelFormatError.
    resolved_for: (configuration, tokenizer) -> configuration with what the vocabulary decides. Raises SettingError.
    """

    token_bytes: int  # least memory that training needs for each token of the text; 0 if the text can stay on disk
    to_state: Callable[[Any], tuple[Json, Arrays]]
    from_state: Callable[[Json, Arrays, int], Any]
    train: Callable[..., tuple[Any, Json]] = lambda *stream, **options: refuse_text()
    trains_in_steps: bool = False
    resolved_for: Callable[[Any, Any], Any] = lambda config, tokenizer: config
    stream_scoring: Callable[[Any], StreamScoring | None] = lambda model: None  # for models that see across documents
    measure_options: Callable[[Any], Json] = lambda model: {}  # further arguments of `measure` for a model
    context: Callable[[Any], int | None] = lambda model: None  # the most tokens that a model reads at once, if limited
    embeds: bool = False  # whether its models are Embedders
    job: Task = "continue"  # what its models do
    layout: Callable[[Any], str | None] = lambda model: None  # how an n-gram table lies in memory and on disk
    compaction: Quantization | None = None
    why_no_table: Callable[[Any], str | None] = lambda model: None  # why a model is more than an n-gram table, in words
    counts_on_disk: Callable[[Any], bool] = lambda config: False  # whether training can hold text and counts on disk
    unknown_mass: Callable[[Any], bool] = lambda config: False  # whether <unk> always has the mass of all unseen words


def refuse_text() -> Any:
    """Raise SettingError: models of a family do not learn from plain text, and `Kind.learns_from` says from what."""
    raise SettingError("models of this family are not trained on a text")


def unsupported(kind: type[ChainruleError], message: str) -> Callable[..., Any]:
    """Return a function for what a family cannot do: it raises an error."""

    def refuse(*args: object, **options: object) -> Any:
        raise kind(message)

    return refuse
