"""Prompting a model: choosing among answers, and measuring how often it is right."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from chainrule.api.models.model import Model, check_kind, check_model
from chainrule.api.models.scoring_model import ScoringModel
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.applications.prompting.choices import Choice, parse_choices
from chainrule.applications.prompting.experiment import PromptConfig, PromptResult, run_prompts
from chainrule.applications.prompting.prompts import Template
from chainrule.text.tables import Record, read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from chainrule.base.progress import Progress

    Records = str | os.PathLike[str] | Iterable[Mapping[str, Any]]


@shows_progress
def prompt(
    model: Model,
    data: Records,
    template: str,
    choices: Mapping[str, str] | Iterable[str] = (),
    *,
    examples: Records | None = None,
    progress: ProgressOption = None,
    **settings: Any,
) -> PromptResult:
    """How often a model answers prompts correctly, without having been trained to.

    data: a file of JSON lines, CSV or TSV, or dictionaries. template: a prompt with fields in braces. choices: texts
    and the labels that they stand for, or texts that are their own labels; without choices, the model writes its
    answer. examples: solved examples for few-shot prompts, given as `data` is. settings: the other fields of
    `PromptConfig`.
    Raises SettingError, TextError, MarkerError.

    good:  chainrule.prompt(model, "sst2.tsv", "{text} Overall, the movie was", {"great": "1", "terrible": "0"})
    """
    check_model(model)
    if isinstance(choices, str):
        raise TypeError(f"this takes several choices, in a list or a dictionary; found {choices!r}")
    listed = [Choice(*item) for item in choices.items()] if hasattr(choices, "items") else parse_choices(choices)
    config = PromptConfig(template=template, choices=tuple(listed), **settings)
    return prompt_with(model, data, config, examples, callback(progress))


def prompt_with(
    model: Model, data: Records, config: PromptConfig, examples: Records | None, progress: Progress
) -> PromptResult:
    """As `prompt`."""
    needed = [*Template(config.template).fields, config.answer]
    records = _records(data, needed)
    shots = [] if examples is None else _records(examples, needed)
    return run_prompts(check_kind(model, ScoringModel).answerer, config, records, shots, progress)


def _records(data: Records, needed: Sequence[str]) -> list[Record]:
    """Raises TextError."""
    if isinstance(data, str | os.PathLike):
        return read_table(data, needed)
    return [
        Record({name: str(value) for name, value in fields.items()}, f"example {number}")
        for number, fields in enumerate(data, 1)
    ]
