"""Prompting a model: choosing among answers, and measuring how often it is right."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from chainrule.base.options import takes
from chainrule.evaluation.choices import Choice
from chainrule.features.prompt.choices import parse_choices
from chainrule.features.prompt.config import PromptSettings
from chainrule.features.prompt.experiment import PromptConfig, PromptResult, run_prompts
from chainrule.features.prompt.options import PromptOptions
from chainrule.features.prompt.prompts import Template
from chainrule.models.any_model import check_kind, check_model
from chainrule.models.progress_line import showing
from chainrule.models.scoring_model import ScoringModel
from chainrule.text.corpus.bad_records import collecting
from chainrule.text.corpus.records import Record, raise_error, read_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.base.progress import Progress
    from chainrule.models.model import Model
    from chainrule.text.corpus.records import OnBad
    from chainrule.verbs.text_options import Records


@takes(PromptOptions)
def prompt(model: Model, data: Records, options: PromptOptions) -> PromptResult:
    """How often a model answers prompts correctly, without having been trained to.

    data: a file of JSON lines, CSV, TSV or Parquet, or dictionaries. The options are those of `PromptOptions`.
    Raises SettingError, TextError, MarkerError.

    good:  chainrule.prompt(model, "sst2.tsv", "{text} Overall, the movie was", {"great": "1", "terrible": "0"})
    """
    check_model(model)
    choices = options.choices
    if isinstance(choices, str):
        raise TypeError(f"this takes several choices, in a list or a dictionary; found {choices!r}")
    listed = [Choice(*item) for item in choices.items()] if isinstance(choices, Mapping) else parse_choices(choices)
    settings = {field.name: getattr(options, field.name) for field in fields(PromptSettings)}
    config = PromptConfig(template=options.template, choices=tuple(listed), **settings)
    with showing(options.progress) as progress, collecting(options.bad_records, warnings.warn) as bad:
        return prompt_with(model, data, config, options.examples, progress, bad)


def prompt_with(
    model: Model,
    data: Records,
    config: PromptConfig,
    examples: Records | None,
    progress: Progress,
    on_bad: OnBad = raise_error,
) -> PromptResult:
    """Return the result of prompts, as `prompt` does."""
    needed = [*Template(config.template).fields, config.answer]
    records = _records(data, needed, on_bad)
    shots = [] if examples is None else _records(examples, needed, on_bad)
    return run_prompts(check_kind(model, ScoringModel).answerer, config, records, shots, progress)


def _records(data: Records, needed: Sequence[str], on_bad: OnBad) -> list[Record]:
    """Return the records of the data. Raises TextError."""
    if isinstance(data, str | os.PathLike):
        return read_table(data, needed, on_bad)
    return [
        Record({name: str(value) for name, value in fields.items()}, f"example {number}")
        for number, fields in enumerate(data, 1)
    ]
