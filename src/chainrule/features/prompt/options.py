"""The options of prompting: keywords in Python, flags on the command line. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from chainrule.base.options import option
from chainrule.features.prompt.config import PromptSettings
from chainrule.text.corpus.bad_records import BadRecordsOption

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike

    from chainrule.models.progress_line import ProgressOption

    Records = str | PathLike[str] | Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class PromptOptions(PromptSettings, BadRecordsOption):
    """What a model is asked.

    template: a prompt with fields in braces. choices: texts and the labels that they stand for, or texts that are their
    own labels; without choices, the model writes its answer. examples: solved examples for few-shot prompts: a file of
    JSON lines, CSV, TSV or Parquet, or dictionaries. bad_records: what becomes of records that cannot be read.
    """

    template: str
    choices: Mapping[str, str] | Iterable[str] = ()
    _: KW_ONLY
    examples: Records | None = option(None, "where the solved examples are drawn from", reads="file")
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)
