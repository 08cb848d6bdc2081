"""Correction of schoolchildren's texts with marked errors, in context and without it: Holbrook's pages."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from misspellings import birkbeck_pairs, norvigs_choice, read

import chainrule
from chainrule.evaluation.resampling import Estimate, interval_of_sums
from chainrule.features.correct.channel.learning import learn_channel
from chainrule.features.correct.correct import _log_priors
from chainrule.features.correct.corrector.error_models import WordErrorModel
from chainrule.features.correct.corrector.word_index import WordIndex
from chainrule.features.correct.measures import JudgedChanges, judge_changes, measure_corrections
from chainrule.features.metrics.classification import calibration_error
from chainrule.features.metrics.error_rates import WordErrors

if TYPE_CHECKING:
    from pathlib import Path

_HOLBROOK = (
    "untouched",
    "Norvig's functions",
    "chainrule, without context",
    "chainrule",
    "chainrule, tuned on other pages",
)


def measure_holbrook(model_folder: Path, text: Path, errors_file: Path) -> None:
    pages = read_holbrook(read(text))
    model = chainrule.load(model_folder)
    priors = _log_priors(model, None)
    index, frequencies = WordIndex(priors), {word: float(np.exp(prior)) for word, prior in priors.items()}
    marked = {pair for page in pages for pair in page.errors}
    elsewhere = [pair for pair in birkbeck_pairs(errors_file) if pair not in marked]
    corrected: dict[str, list[list[str]]] = {name: [[] for _ in pages] for name in _HOLBROOK}
    judged: dict[str, list[JudgedChanges]] = {"as it is": [], "calibrated on other pages": []}
    for half in (0, 1):
        others = [page for i, page in enumerate(pages) if i % 2 != half]
        learned_from = [pair for page in others for pair in page.errors]
        channel = learn_channel([*elsewhere, *learned_from])
        rate = len(learned_from) / sum(len(line.split()) for page in others for line in page.meant)
        ready = chainrule.corrector(model, channel, rate=rate)
        settings = _tuned_settings(model, others, elsewhere, rate)
        tuned = chainrule.corrector(model, channel, settings=settings)
        judged["as it is"].append(_judged(model, channel, pages[half::2], rate=rate))
        judged["calibrated on other pages"].append(_judged(model, channel, pages[half::2], settings=settings))
        for i in range(half, len(pages), 2):
            lines = pages[i].written
            alone = _without_context({word for line in lines for word in line.split()}, index, priors, channel, rate)
            norvig = _norvigs({word for line in lines for word in line.split()}, frequencies, index)
            corrected["untouched"][i] = lines
            corrected["Norvig's functions"][i] = [_replaced(line, norvig) for line in lines]
            corrected["chainrule, without context"][i] = [_replaced(line, alone) for line in lines]
            corrected["chainrule"][i] = [one.corrected for one in ready.correct(lines)]
            corrected["chainrule, tuned on other pages"][i] = [one.corrected for one in tuned.correct(lines)]
    words = sum(len(line.split()) for page in pages for line in page.meant)
    print(f"{len(pages)} pages, {words:,} words, {len([1 for page in pages for _ in page.errors]):,} pairs of words")
    statistics = {
        name: np.array([WordErrors().statistics(*pair).sum(0) for pair in _by_page(pages, rows)])
        for name, rows in corrected.items()
    }
    ours = statistics["chainrule"]
    for name, rows in corrected.items():
        measures = measure_corrections(
            [" ".join(page.written) for page in pages],
            [" ".join(lines) for lines in rows],
            [" ".join(page.meant) for page in pages],
        )
        sums = statistics[name]
        rate = Estimate(
            float(WordErrors().value(sums.sum(0).astype(float))), interval_of_sums([sums], WordErrors().value)
        )
        less = Estimate(_fewer(sums.sum(0), ours.sum(0)), interval_of_sums([sums, ours], _fewer))
        print(f"{name:32} WER {rate.percent()}, {less.percent()} more than chainrule")
        print(f"{'':32} fixed {measures.fixed.percent()}, broken {measures.broken.percent()}", flush=True)
    for name, parts in judged.items():
        probs = np.concatenate([part.probs for part in parts])
        right = np.concatenate([part.gains > 0 for part in parts])
        likely = right[probs >= 0.9]
        share = f", {likely.mean():.2%} right" if likely.size else ""
        print(
            f"probabilities {name:26} calibration error {calibration_error(probs, right):.4f}; "
            f"{likely.size:,} changes of at least 0.9{share}"
        )


def _tuned_settings(
    model: chainrule.Model, others: list[Page], elsewhere: list[tuple[str, str]], rate: float
) -> chainrule.CorrectionSettings:
    """Tuned on every second of the other pages, with a channel learned on those between."""
    channel = learn_channel([*elsewhere, *(pair for page in others[::2] for pair in page.errors)])
    texts, meant = lines_of(others[1::2])
    return chainrule.tune_correction(texts, meant, model, maximise="accuracy", channel=channel, rate=rate).settings


def lines_of(pages: list[Page]) -> tuple[list[str], list[str]]:
    """The lines of some pages, as they were written and as they were meant."""
    return [line for page in pages for line in page.written], [line for page in pages for line in page.meant]


def _judged(model: chainrule.Model, channel: Any, pages: list[Page], **options: Any) -> JudgedChanges:
    """All changes of the best paths, whatever their probability."""
    if (settings := options.pop("settings", None)) is not None:
        options["settings"] = replace(settings, at_least=0.0)
    written, meant = lines_of(pages)
    everything = chainrule.CorrectionConfig(at_least=0.0)
    return judge_changes(chainrule.corrector(model, channel, config=everything, **options).correct(written), [meant])


class Page(NamedTuple):
    """A pupil's sentences as they were written and as they were meant, and the pairs of a wrong and a right word."""

    written: list[str]
    meant: list[str]
    errors: list[tuple[str, str]]


def read_holbrook(text: str) -> list[Page]:
    marks = re.compile(r"<ERR targ=(.*?)>\s*(.*?)\s*</ERR>")
    pages = []
    for part in re.split(r"(?m)^.*\bpage +\d+ *$", text)[1:]:
        page = Page([], [], [])
        for line in part.splitlines():
            for meant, written in marks.findall(line):
                pair = (_letters(written).strip(), _letters(meant).strip())
                if pair[0] != pair[1] and all(len(one.split()) == 1 for one in pair):
                    page.errors.append(pair)
            for rows, group in ((page.written, 2), (page.meant, 1)):
                one_side = marks.sub(lambda mark, group=group: _letters(mark.group(group)), line).lower()
                rows.append(re.sub("[^a-z.?!]", " ", one_side))
        sides = [[re.split("[.?!]", line) for line in rows] for rows in (page.written, page.meant)]
        pairs = [
            (" ".join(written.split()), " ".join(meant.split()))
            for lines in zip(*sides, strict=True)
            for written, meant in zip(*lines, strict=True)
        ]
        kept = [pair for pair in pairs if all(pair)]
        pages.append(Page([written for written, _ in kept], [meant for _, meant in kept], page.errors))
    return pages


def _letters(text: str) -> str:
    return re.sub("[^a-z]", " ", text.lower())


def _replaced(line: str, chosen: dict[str, str]) -> str:
    return " ".join(chosen[word] for word in line.split())


def _norvigs(words: set[str], frequencies: dict[str, float], index: WordIndex) -> dict[str, str]:
    wrong = sorted(words)
    near = index._near.within(wrong, [2] * len(wrong))
    return {
        word: norvigs_choice(word, frequencies, index, near.words[near.of(i)].tolist()) for i, word in enumerate(wrong)
    }


def _without_context(
    words: set[str], index: WordIndex, priors: dict[str, float], channel: Any, rate: float
) -> dict[str, str]:
    """What each word meant likeliest; an unknown one always meant another, if there is one near."""
    some, errors = sorted(words), WordErrorModel(channel, rate)
    own = errors.log_probs(some, some) + np.array([priors.get(word, -np.inf) for word in some])
    chosen = {}
    for word, log_prob, row in zip(some, own.tolist(), index.candidates_for(some, errors, 1), strict=True):
        better = row and row[0].log_prob + priors[row[0].word] > log_prob
        chosen[word] = row[0].word if better else word
    return chosen


def _by_page(pages: list[Page], corrected: list[list[str]]) -> list[tuple[list[str], list[str]]]:
    return [(lines, page.meant) for page, lines in zip(pages, corrected, strict=True)]


def _fewer(theirs: Any, ours: Any) -> Any:
    """How much higher the word error rate of the first sums is."""
    return WordErrors().value(np.asarray(theirs, float)) - WordErrors().value(np.asarray(ours, float))
