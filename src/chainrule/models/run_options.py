"""Options that several verbs share: where a training keeps its checkpoints, the tokens of its texts, their vectors.

Imports nothing heavy, so that help is shown at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import fspath
from typing import TYPE_CHECKING

from chainrule.base.options import Options, option

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from chainrule.models.progress_line import ProgressOption
    from chainrule.ngram.config import DiskPlan
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers
    from chainrule.training.config import TrainingRun
    from chainrule.training.reports import OnReport

    AnyPath = str | PathLike[str]


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions(Options):
    """Where a training keeps its checkpoints, and whether it continues from one."""

    folder: AnyPath | None = option(
        None, "the folder of checkpoints and log.jsonl; without one, none are kept", flag=None
    )
    resume: bool = option(
        False,
        "continue from the checkpoint in the folder, with the same settings; start if there is none",
        is_switch=True,
    )
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)


@dataclass(frozen=True, kw_only=True)
class RunOptions(CheckpointOptions):
    """As `CheckpointOptions`, of a network: a `TrainingRun`, or its fields."""

    overwrite: bool = option(False, "replace existing files", is_switch=True)
    on_report: OnReport | None = option(None, "a callback that gets a Report now and then", flag=None)
    run: TrainingRun | None = option(None, "the run, in place of folder, resume, overwrite and on_report", flag=None)

    @property
    def given_for_run(self) -> list[str]:
        """The names of the fields of a `TrainingRun` that were given beside it."""
        return [name for name in ("folder", "resume", "overwrite", "on_report") if name in self.given]


@dataclass(frozen=True, kw_only=True)
class TokenOptions(Options):
    """How a text becomes tokens."""

    tokenizer: TokenizerConfig | str = option(
        "word", "the tokenizer: its settings, its kind, or the path of a tokenizer.json or a model folder", flag=None
    )
    markers: Markers = option(
        "error",
        "what to do about a literal <s>, </s> or <unk> in the text; keep counts <unk> as the unknown word",
    )


@dataclass(frozen=True, kw_only=True)
class VectorOptions(Options):
    """How token vectors are initialised."""

    vectors: AnyPath | None = option(
        None,
        "initialise token vectors from word vectors: a folder, or a file of word2vec, GloVe or fastText",
        reads="file",
    )
    fixed_vectors: bool = option(False, "keep token vectors as initialised; do not train them", is_switch=True)

    @property
    def name(self) -> str | None:
        """The name of the vectors in records; None without any."""
        from chainrule.training.config import vectors_name

        return None if self.vectors is None else vectors_name(fspath(self.vectors), fixed=self.fixed_vectors)


@dataclass(frozen=True, kw_only=True)
class MemoryOptions(Options):
    """How much memory the n-grams of a text may take."""

    memory: int | str | None = option(
        None,
        "the most memory to use, such as 4G. Larger counts go to temporary files (in TMPDIR); the result is the same. "
        "By default, the free memory",
        reads=str,
    )
    on_plan: Callable[[DiskPlan], None] | None = option(
        None, "a callback that gets a DiskPlan before n-grams are counted on disk", flag=None
    )
