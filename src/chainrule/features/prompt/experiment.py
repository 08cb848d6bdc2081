"""A prompting experiment: a template, choices or free answers, calibration, and how often the model is right.

Knows no kind of model: it asks an `Answerer`. Calibration corrects answers by what the model would say whatever the
example. Scores are log-probabilities of choices, normalised or not; each way gives log-probabilities that sum to one:

    none          p(c | x)
    content-free  p(c | x) / mean of p(c | x') over inputs x' without content (Zhao et al. 2021, section 5)
    pmi           P(c | x) / P(c | tail), tail: what of the template follows the last field (Holtzman et al. 2021)
    batch         p(c | x) / mean of p(c | x') over all examples x' (Zhou et al. 2023)

where p is P made to sum to one over the choices.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from chainrule.drawing.pages import html_table
from chainrule.errors import SettingError, TextError
from chainrule.evaluation.choices import Choice, ChoiceScores, check_choices, join, log_shares
from chainrule.features.metrics.classification import Accuracy, measure_classification
from chainrule.features.prompt.choices import normalise
from chainrule.features.prompt.config import PromptSettings
from chainrule.features.prompt.prompts import FewShotPrompt, Shots, Template, few_shot_prompt
from chainrule.text.tokenization.tokenizer import MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.metrics.classification import Classification
    from chainrule.features.prompt.config import Calibration, Match
    from chainrule.text.corpus.records import Record

CONTENT_FREE = ("N/A", "", "[MASK]")  # Zhao et al., section 5


def calibrate(
    scores: Float64[ndarray, "prompts choices"],
    calibration: Calibration,
    reference: Float64[ndarray, "references choices"] | None = None,
) -> Float64[ndarray, "prompts choices"]:
    """Return the calibrated log P of each choice, in nats.

    reference: the scores after prompts without content; for pmi, after the tail.
    """
    if calibration == "none":
        return log_shares(scores)
    if calibration == "pmi":
        assert reference is not None
        return log_shares(_difference(scores, reference[:1]))
    others = scores if calibration == "batch" else reference
    assert others is not None
    with np.errstate(divide="ignore"):
        expected = np.log(np.exp(log_shares(others)).mean(0, keepdims=True))
    return log_shares(_difference(log_shares(scores), expected))


def _difference(
    scores: Float64[ndarray, "prompts choices"], expected: Float64[ndarray, "1 choices"]
) -> Float64[ndarray, "prompts choices"]:
    """Return the difference of two scores; a choice that is impossible stays so, even where it is impossible without
    content, too.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isneginf(scores), -np.inf, scores - expected))


# A sign counts if no digit or letter comes before it, so that 3-5 has no -5.
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|(?<!\w)\d+(?:\.\d+)?")


def agrees(answer: str, expected: str, match: Match) -> bool:
    """Return whether an answer agrees with the expected one.

    exact: equal but for white space at their ends. begins: the answer begins with the expected one. number: the first
    number of the answer is the last one of what is expected, as numbers: 143.0 is 143.
    """
    if match == "exact":
        return answer.strip() == expected.strip()
    if match == "begins":
        return answer.strip().startswith(expected.strip())
    numbers, wanted = _numbers(answer), _numbers(expected)
    return bool(numbers) and bool(wanted) and numbers[0] == wanted[-1]


def _numbers(text: str) -> list[Decimal]:
    return [Decimal(number.replace(",", "")) for number in _NUMBER.findall(text)]


class Answerer(Protocol):
    """What answers prompts: a model with its tokenizer."""

    fills: bool  # whether it fills the answer into a [MASK], and does not continue the prompt
    context: int | None  # the most tokens that it reads at once

    def length(self, text: str) -> int:
        """Return the length of a text, in tokens."""

    def score(self, prompts: Sequence[str], choices: Sequence[str], separator: str, progress: Progress) -> ChoiceScores:
        """Return the log-probability of each choice after each prompt."""

    def write(self, prompts: Sequence[str], max_tokens: int, stop: Sequence[str], progress: Progress) -> list[str]:
        """Return the model's answer after each prompt: the most probable token at each step."""


@dataclass(frozen=True, kw_only=True)
class PromptConfig(PromptSettings):
    """How a task is presented to a model.

    template: the prompt, with fields in braces. choices: the answers that the model chooses among; without any, it
    writes its answer.
    """

    template: str
    choices: tuple[Choice, ...] = ()

    def __post_init__(self) -> None:
        """Raise SettingError if settings contradict each other."""
        super().__post_init__()
        if self.answer in Template(self.template).fields:
            raise SettingError(
                f"the template {self.template!r} names {self.answer!r}, the field with the right answer, so the "
                "model would read it; leave it out"
            )
        if self.choices:
            check_choices(self.choices)
        if not self.choices and (self.calibrate != "none" or self.normalise != "none"):
            raise SettingError("calibrate and normalise are for choices; there are none")


@dataclass(frozen=True)
class Run:
    """The answers with one selection and order of examples.

    log_probs: of the choices, calibrated; None for free answers. predicted: a label, or the free answer. moved: the
    accuracy without calibration, and how many answers calibration changed; None without calibration. dropped: how many
    examples were left out of prompts that would have been too long. cut: how many prompts were too long even so.
    """

    seed: int
    order: int
    predicted: list[str]
    is_right: list[bool]
    prompts: list[str] = field(repr=False)
    log_probs: Float64[ndarray, "examples choices"] | None = field(repr=False)
    classification: Classification | None
    moved: tuple[Accuracy, int] | None
    dropped: int
    cut: int

    @property
    def accuracy(self) -> Accuracy:
        return Accuracy(len(self.is_right), sum(self.is_right), 0)

    def as_json(self) -> dict[str, Any]:
        figures: dict[str, Any] = {"seed": self.seed, "order": self.order, **self.accuracy.figures()}
        if self.classification is not None:
            figures["macro_f1"] = self.classification.macro_f1
            figures["calibration_error"] = self.classification.calibration_error
            answered = self.classification.confusion.sum(0).tolist()
            figures["answered"] = dict(zip(self.classification.labels, answered, strict=True))
        if self.moved is not None:
            before, changed = self.moved
            figures["before_calibration"] = before.share
            figures["changed_by_calibration"] = changed
        return {**figures, "dropped_examples": self.dropped, "cut_prompts": self.cut}


@dataclass(frozen=True)
class PromptResult:
    """The runs of a configuration: one for each selection and order of examples."""

    config: PromptConfig
    records: list[Record] = field(repr=False)
    runs: list[Run]

    @property
    def mean_accuracy(self) -> float:
        return float(np.mean([run.accuracy.share for run in self.runs]))

    @property
    def spread(self) -> float | None:
        """The standard deviation of the runs' accuracies; None for a single run."""
        shares = [run.accuracy.share for run in self.runs]
        return float(np.std(shares, ddof=1)) if len(shares) > 1 else None

    def __repr__(self) -> str:
        spread = "" if self.spread is None else f" +- {self.spread:.1%} in {len(self.runs)} runs"
        return (
            f"<PromptResult: {self.mean_accuracy:.1%} right{spread} of {len(self.records):,}, {self.config.template!r}>"
        )

    def _repr_html_(self) -> str:
        rows = []
        for run in self.runs:
            low, high = run.accuracy.interval
            accuracy = [f"{run.accuracy.share:.2%}", f"{100 * low:.2f} to {100 * high:.2f}"]
            rows.append([str(run.seed), str(run.order), *accuracy])
        notes = [] if self.spread is None else [f"mean {self.mean_accuracy:.2%}, standard deviation {self.spread:.2%}"]
        title = f"{self.config.template}: {len(self.records):,} examples"
        return html_table(title, ["seed", "order", "accuracy", "95 %"], rows, notes)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures over all runs, by name: a row for pandas. spread is None for a single run."""
        return {
            "template": self.config.template,
            "examples": len(self.records),
            "accuracy": self.mean_accuracy,
            "spread": self.spread,
        }

    def as_json(self) -> dict[str, Any]:
        """Return the figures for JSON, with those of each run."""
        return {**self.to_dict(), "runs": [run.as_json() for run in self.runs]}

    def to_records(self) -> list[dict[str, Any]]:
        """Return a dictionary for each answer of each run: for pandas, or to be written as JSON lines."""
        rows = []
        labels = [choice.label for choice in self.config.choices]
        for run in self.runs:
            for i, record in enumerate(self.records):
                row = {
                    "seed": run.seed,
                    "order": run.order,
                    "template": self.config.template,
                    "expected": record.fields[self.config.answer],
                    "answer": run.predicted[i],
                    "right": run.is_right[i],
                    "prompt": run.prompts[i],
                }
                if run.log_probs is not None:
                    row["probabilities"] = dict(zip(labels, np.exp(run.log_probs[i]).tolist(), strict=True))
                rows.append(row)
        return rows


def run_prompts(
    answerer: Answerer,
    config: PromptConfig,
    records: Sequence[Record],
    examples: Sequence[Record],
    progress: Progress,
) -> PromptResult:
    """Ask the model for every record. examples: those that shots are drawn from.

    Raises SettingError if the template does not suit the model; TextError if a record lacks a field, or its answer is
    none of the labels.
    """
    template = Template(config.template)
    has_mask = MASK in config.template
    if answerer.fills and not config.choices:
        raise SettingError("a masked model writes no answers; give it choices")
    if has_mask != answerer.fills:
        does = f"fills the answer into a {MASK}; put one where the answer goes, as in '{{text}} It was {MASK}.'"
        continues = f"continues the prompt; leave {MASK} out of the template"
        raise SettingError(
            f"the template is {config.template!r}, and this model {does if answerer.fills else continues}"
        )
    for record in (*records, *(examples if config.shots else ())):
        _check_answer(config, record)
    solved = [_solved(config, template, record) for record in examples] if config.shots else []
    runs = []
    for seed in range(1, config.seeds + 1):
        for order in range(1, config.orders + 1):
            shots = Shots(len(solved), config.shots, seed, order)

            def solved_for(question: Record | None, shots: Shots = shots) -> list[str]:
                """Return solved examples for a question, which is not among them."""
                own = None if question is None else question.fields
                return [solved[i] for i in shots.draw(lambda i: examples[i].fields != own)]

            runs.append(_run(answerer, config, template, records, solved_for, (seed, order), progress))
    return PromptResult(config, list(records), runs)


def _run(
    answerer: Answerer,
    config: PromptConfig,
    template: Template,
    records: Sequence[Record],
    solved_for: Callable[[Record | None], list[str]],
    draw: tuple[int, int],
    progress: Progress,
) -> Run:
    texts = [choice.text for choice in config.choices]
    room = max((answerer.length(" " + text) for text in texts), default=config.max_tokens)

    def fits(prompt: str) -> bool:
        return answerer.context is None or answerer.length(prompt) + room < answerer.context

    def prompt_for(question: str, record: Record | None = None) -> FewShotPrompt:
        return few_shot_prompt(solved_for(record), question, config.between, fits)

    asked = [prompt_for(template.fill(record), record) for record in records]
    prompts = [prompt.text for prompt in asked]
    dropped, cut = sum(prompt.dropped for prompt in asked), sum(not fits(prompt) for prompt in prompts)
    expected = [record.fields[config.answer] for record in records]
    if not config.choices:
        written = answerer.write(prompts, config.max_tokens, config.stop, progress)
        is_right = [agrees(answer, right, config.match) for answer, right in zip(written, expected, strict=True)]
        return Run(*draw, written, is_right, prompts, None, None, None, dropped, cut)

    def scores_of(some: Sequence[str]) -> Float64[ndarray, "prompts choices"]:
        return normalise(answerer.score(some, texts, config.separator, progress), texts, config.normalise)

    scores = scores_of(prompts)
    reference = None
    if config.calibrate == "content-free":
        reference = scores_of([prompt_for(template.fill_all_with(value)).text for value in CONTENT_FREE])
    elif config.calibrate == "pmi":
        reference = scores_of([prompt_for(template.tail).text])
    log_probs = calibrate(scores, config.calibrate, reference)
    labels = sorted({choice.label for choice in config.choices})
    by_label = _by_label(log_probs, config.choices, labels)
    true = np.array([labels.index(right) for right in expected])
    moved = None
    if config.calibrate != "none":
        before = _by_label(calibrate(scores, "none"), config.choices, labels).argmax(1)
        moved = Accuracy(len(true), int((before == true).sum()), 0), int((before != by_label.argmax(1)).sum())
    predicted = by_label.argmax(1)
    return Run(
        *draw,
        [labels[i] for i in predicted.tolist()],
        (predicted == true).tolist(),
        prompts,
        log_probs,
        measure_classification(labels, by_label, true),
        moved,
        dropped,
        cut,
    )


def _by_label(
    log_probs: Float64[ndarray, "examples choices"], choices: Sequence[Choice], labels: Sequence[str]
) -> Float64[ndarray, "examples labels"]:
    """Return the log-probability of each label: several choices may stand for one."""
    columns = [
        np.logaddexp.reduce(log_probs[:, [choice.label == label for choice in choices]], axis=1) for label in labels
    ]
    return np.stack(columns, axis=1)


def _check_answer(config: PromptConfig, record: Record) -> None:
    """Raise TextError if a record lacks the right answer, or no choice stands for it."""
    labels = [choice.label for choice in config.choices]
    if config.answer not in record.fields:
        names = ", ".join(repr(name) for name in record.fields)
        raise TextError(
            f"{record.location}: there is no field {config.answer!r} with the right answer; the fields are {names}"
        )
    if labels and record.fields[config.answer] not in labels:
        raise TextError(
            f"{record.location}: the right answer is {record.fields[config.answer]!r}, the label of no choice; "
            f"the labels of the choices are {', '.join(map(repr, labels))}"
        )


def _solved(config: PromptConfig, template: Template, record: Record) -> str:
    """Return the prompt of an example with its right answer."""
    prompt, right = template.fill(record), record.fields[config.answer]
    text = next((choice.text for choice in config.choices if choice.label == right), right)
    if MASK in config.template:
        return prompt.replace(MASK, text)
    return prompt + join(prompt, text, config.separator)
