"""Settings of correction that were tuned on texts and their references, and their JSON file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from chainrule.applications.correction.corrector import CorrectionConfig
from chainrule.applications.noisy_channel.files import read_object, write_object
from chainrule.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from pathlib import Path

_KIND = "chainrule_correction"
_EXPECTED = "settings written by chainrule correct --tune"


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
        """A configuration with these settings. Raises SettingError."""
        names = {field.name for field in fields(CorrectionConfig)}
        return replace(config, **{k: v for k, v in asdict(self).items() if k in names and v is not None})


def write_settings(settings: CorrectionSettings, path: Path, record: dict[str, Any]) -> None:
    """Raises OutputError."""
    chosen = {name: value for name, value in asdict(settings).items() if value is not None}
    write_object(path, _KIND, {"settings": chosen, "record": record})


def read_settings(path: Path) -> CorrectionSettings:
    """Raises ModelFormatError, which names the file."""
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
    """A number; two for the calibration. Raises ModelFormatError."""
    parts = value if isinstance(value, list) else [value]
    are_numbers = all(isinstance(part, float | int) and not isinstance(part, bool) for part in parts)
    if not are_numbers or (len(parts) != 2 if name == "calibration" else isinstance(value, list)):
        raise ModelFormatError(f"{path}: {name} is {str(value)[:80]}; expected a number, or two for calibration")
    return tuple(parts) if name == "calibration" else value
