"""Chooses how texts are corrected, on texts whose corrections are known."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from chainrule.api.progress_line import ProgressOption, shows_progress
from chainrule.api.texts.correct import RATE_OF_CHARACTERS, RATE_OF_GRAMMAR, RATE_OF_WORDS, corrector, word_index
from chainrule.applications.correction.config import CorrectionSettings, write_settings
from chainrule.applications.correction.corrector import CorrectionConfig
from chainrule.applications.noisy_channel.character_channel import CONFUSIONS
from chainrule.applications.noisy_channel.files import channel_of
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.evaluation.texts.corrections import AIMS, UNCHANGED, calibrated, judge_changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chainrule.api.conditional.pair_model import TextPairModel
    from chainrule.api.models.model import Model
    from chainrule.applications.noisy_channel.character_channel import Channel, Confusions
    from chainrule.applications.noisy_channel.word_channel import GrammarChannel
    from chainrule.evaluation.texts.corrections import Aim, JudgedChanges

_AT_ONCE = 256  # texts
_WEIGHTS = (0.5, 0.7, 1.4, 2.0)  # of the language model, relative to the first
_SHARES = (0.1, 0.25, 1.0, 2.0)  # weights of a second model and of a learned corrector, beside the given one
_RATES = (0.25, 0.5, 2.0, 4.0)  # times the given one
_HIGHEST_RATE = 0.5


class TunedCorrection(NamedTuple):
    """The chosen settings. figures: the figure to be raised, before and after. changes: with the settings, all that
    the best paths have, whatever their probability."""

    settings: CorrectionSettings
    figures: tuple[float, float]
    changes: JudgedChanges


@shows_progress
def tune_correction(
    texts: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    model: Model,
    output: str | PathLike[str] | None = None,
    *,
    maximise: Aim = "f0.5",
    channel: Confusions | Channel | PathLike[str] = "keyboard",
    rate: float | None = None,
    lexicon: Mapping[str, float] | str | PathLike[str] | None = None,
    grammar: Literal["english"] | GrammarChannel | PathLike[str] | None = None,
    grammar_rate: float | None = None,
    inflections: str | PathLike[str] | None = None,
    learned: TextPairModel | str | PathLike[str] | None = None,
    rescore_by: Model | str | PathLike[str] | None = None,
    config: CorrectionConfig | None = None,
    progress: ProgressOption = None,
) -> TunedCorrection:
    """Chooses rates, weights, and the least probability of a change, and calibrates the probabilities.

    texts, references: as in `measure_correction`. output: a JSON file for the settings, which `correct` and `corrector`
    take. maximise: F0.5 of changes, or accuracy, the share of word errors that are gone. Others as in `correct`: where
    the search begins. One setting after the other is tried at a few values, each with its best threshold; then the
    probabilities of changes are fitted to the share that is right. Measure the settings on other texts.
    Raises SettingError, TextError, ModelFormatError, OutputError.
    """
    if maximise not in AIMS:
        raise SettingError(f"maximise is {maximise!r}; choose one of {', '.join(AIMS)}")
    several: Any = references if references and not isinstance(references[0], str) else [references]
    if not texts or any(len(one) != len(texts) for one in several):
        raise SettingError(
            f"there are {len(texts):,} texts and {', '.join(f'{len(one):,}' for one in several)} references; "
            "expected some, and a reference for each"
        )
    reported: Progress = progress if callable(progress) else silent
    base, options = config or CorrectionConfig(), _loaded(learned, rescore_by)
    options |= {"lexicon": word_index(model, lexicon), "grammar": grammar, "inflections": inflections}
    is_ready_made = isinstance(channel, str) and channel in CONFUSIONS
    options["channel"] = channel if is_ready_made else channel_of(channel, RATE_OF_CHARACTERS)
    default_rate = RATE_OF_CHARACTERS if is_ready_made else RATE_OF_WORDS
    chosen = CorrectionSettings(rate=default_rate if rate is None else rate, weight=base.weight)
    if grammar == "english":
        chosen = replace(chosen, grammar_rate=RATE_OF_GRAMMAR if grammar_rate is None else grammar_rate)
    if learned is not None:
        chosen = replace(chosen, learned_weight=base.learned_weight)
    if rescore_by is not None:
        chosen = replace(chosen, rescore_weight=base.rescore_weight)

    def judged(settings: CorrectionSettings) -> JudgedChanges:
        everything = replace(settings, at_least=0.0)
        ready = corrector(model, settings=everything, config=replace(base, calibration=UNCHANGED), **options)
        pieces = [texts[i : i + _AT_ONCE] for i in range(0, len(texts), _AT_ONCE)]
        return judge_changes([one for piece in pieces for one in ready.correct(piece)], several)

    tries = list(_tries(chosen))
    reported("tuning the correction", 0, len(tries) + 1)
    changes = judged(chosen)
    before = changes.figure_at(base.at_least, maximise)
    best = changes.best_threshold(maximise)[1]
    for done, (name, value) in enumerate(tries, 1):
        reported("tuning the correction", done, len(tries) + 1)
        other: CorrectionSettings = replace(chosen, **{name: value})  # type: ignore[arg-type]  # a number's name
        others = judged(other)
        if (figure := others.best_threshold(maximise)[1]) > best:
            chosen, changes, best = other, others, figure
    calibration = changes.calibration()
    changes = changes._replace(probs=calibrated(changes.probs, *calibration))
    threshold, after = changes.best_threshold(maximise)
    chosen = replace(chosen, at_least=threshold, calibration=calibration)
    if output is not None:
        record = {"texts": len(texts), "maximise": maximise, "before": before, "after": after}
        write_settings(chosen, Path(output), record)
    return TunedCorrection(chosen, (before, after), changes)


def _tries(first: CorrectionSettings) -> Iterator[tuple[str, float]]:
    """Settings and values to try, one after the other."""
    for name in ("rate", "grammar_rate"):
        if (rate := getattr(first, name)) is not None:
            yield from ((name, rate * times) for times in _RATES if rate * times <= _HIGHEST_RATE)
    if first.weight is not None:
        yield from (("weight", first.weight * times) for times in _WEIGHTS)
    for name in ("learned_weight", "rescore_weight"):
        if (weight := getattr(first, name)) is not None:
            yield from ((name, value) for value in _SHARES if value != weight)


def _loaded(
    learned: TextPairModel | str | PathLike[str] | None, rescore_by: Model | str | PathLike[str] | None
) -> dict[str, Any]:
    """Both models, opened once for all tries."""
    from chainrule.api.conditional.pair_model import load_pairs
    from chainrule.api.models.load_model import load

    return {
        "learned": load_pairs(learned) if isinstance(learned, (str, PathLike)) else learned,
        "rescore_by": load(rescore_by) if isinstance(rescore_by, (str, PathLike)) else rescore_by,
    }
