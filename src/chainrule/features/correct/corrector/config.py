"""How texts are corrected: the settings, and those that were tuned on texts and their references, with their JSON file.

Imports nothing heavy: the flags of `chainrule correct` are made from it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from chainrule.base.options import Options, option
from chainrule.errors import ModelFormatError, SettingError
from chainrule.text.word_lists import read_words

_KIND = "chainrule_correction"
_EXPECTED = "settings written by chainrule correct --tune"


@dataclass(frozen=True, kw_only=True)
class CorrectionConfig(Options):
    """How texts are corrected.

    beam: the most paths kept at each position. candidates: the most candidates for each word. at_least: the least
    probability of a change. weight: of the language model, relative to the channel. learned_weight: of the learned
    corrector's log P(right | wrong), relative to the channel. rescore_weight: of the second model's log-probability.
    new_word: by how many nats an unknown word of running text is likelier than the model says, which was trained on
    other texts; less if it knows fewer than 10,000. keep: further correct words, which are never changed. calibration:
    slope and intercept that make the log-odds of changes those of being right, see `tune_correction`.
    Raises SettingError.
    """

    beam: int = option(4, "how many hypotheses to keep", least=1, most=1 << 10, served=(1, 64))
    candidates: int = option(6, "how many candidates to consider for each word", least=1, most=1 << 10, served=(1, 64))
    at_least: float = option(0.25, "make only changes of at least this probability", least=0, most=1, served=True)
    weight: float = option(1.0, "of the language model, relative to the channel", least=0, most=100, flag=None)
    learned_weight: float = option(
        0.5,
        "with --corrector: the weight of its log-probability",
        least=0,
        most=100,
        flag="corrector-weight",
        needs="learned",
    )
    rescore_weight: float = option(
        0.5,
        "with --rescore-by: the weight of its log-probability",
        least=0,
        most=100,
        flag="rescore-weight",
        needs="rescore_by",
    )
    new_word: float = option(3.0, "of an unknown word in running text, in nats", least=0, most=100, flag=None)
    keep: tuple[str, ...] = option(
        (),
        "a file of correct words besides the model's, which are never changed: names, special terms",
        reads=Path,
        parse=read_words,
        served=True,
    )
    calibration: tuple[float, float] = option((1.0, 0.0), "slope and intercept of the log-odds of changes", flag=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        slope, _ = self.calibration
        if slope < 0:
            raise SettingError(f"calibration is {self.calibration}; expected a slope, 0 or more, and an intercept")


@dataclass(frozen=True, kw_only=True)
class CorrectionSettings:
    """The settings that `tune_correction` chose; None where one was not tuned.

    rate, grammar_rate: as in `correct`; the others as in `CorrectionConfig`.
    """

    rate: float | None = None
    grammar_rate: float | None = None
    weight: float | None = None
    learned_weight: float | None = None
    rescore_weight: float | None = None
    at_least: float | None = None
    calibration: tuple[float, float] | None = None

    def applied_to(self, config: CorrectionConfig) -> CorrectionConfig:
        """Return a configuration with these settings. Raises SettingError."""
        names = {field.name for field in fields(CorrectionConfig)}
        return replace(config, **{k: v for k, v in asdict(self).items() if k in names and v is not None})


def write_settings(settings: CorrectionSettings, path: Path, record: dict[str, Any]) -> None:
    """Write settings to a file. Raises OutputError."""
    from chainrule.features.correct.channel.files import write_object

    chosen = {name: value for name, value in asdict(settings).items() if value is not None}
    write_object(path, _KIND, {"settings": chosen, "record": record})


def read_settings(path: Path) -> CorrectionSettings:
    """Return the settings in a file. Raises ModelFormatError, which names the file."""
    from chainrule.features.correct.channel.files import read_object

    values = read_object(path, _KIND, _EXPECTED).get("settings")
    names = {field.name for field in fields(CorrectionSettings)}
    if not isinstance(values, dict) or not values.keys() <= names:
        raise ModelFormatError(f"{path}: settings are missing or unknown; expected some of {', '.join(sorted(names))}")
    try:
        settings = CorrectionSettings(**{name: _numbers(path, name, value) for name, value in values.items()})
        settings.applied_to(CorrectionConfig())
    except SettingError as error:
        raise ModelFormatError(f"{path}: {error}") from None
    return settings


def _numbers(path: Path, name: str, value: Any) -> Any:
    """Return a number; two for the calibration. Raises ModelFormatError."""
    parts = value if isinstance(value, list) else [value]
    are_numbers = all(isinstance(part, float | int) and not isinstance(part, bool) for part in parts)
    if not are_numbers or (len(parts) != 2 if name == "calibration" else isinstance(value, list)):
        raise ModelFormatError(f"{path}: {name} is {str(value)[:80]}; expected a number, or two for calibration")
    return tuple(parts) if name == "calibration" else value
