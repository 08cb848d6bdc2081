"""Settings of correction that were tuned on texts and their references, and their JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from chainrule.applications.correction.corrector import CorrectionConfig
from chainrule.base.files import replace_file
from chainrule.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = 1
_EXPECTED = "settings written by chainrule correct --tune"


@dataclass(frozen=True, kw_only=True)
class CorrectionSettings:
    """What `tune_correction` chose; None: not tuned. rate, grammar_rate: as in `correct`; the others as in
    `CorrectionConfig`."""

    rate: float | None = None
    grammar_rate: float | None = None
    weight: float | None = None
    learnt_weight: float | None = None
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
    content = {"chainrule_correction": _VERSION, "settings": chosen, "record": record}
    with replace_file(path) as file:
        file.write(json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n")


def read_settings(path: Path) -> CorrectionSettings:
    """Raises ModelFormatError, which names the file."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be read: {error.strerror}; expected {_EXPECTED}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"{path}: is not JSON ({error}); expected {_EXPECTED}") from None
    if not isinstance(content, dict) or content.get("chainrule_correction") != _VERSION:
        raise ModelFormatError(f"{path}: has no settings of version {_VERSION}; expected {_EXPECTED}")
    values = content.get("settings")
    names = {field.name for field in fields(CorrectionSettings)}
    if not isinstance(values, dict) or not values.keys() <= names:
        raise ModelFormatError(f"{path}: settings are missing or unknown; expected some of {', '.join(sorted(names))}")
    for name, value in values.items():
        parts = value if name == "calibration" and isinstance(value, list) and len(value) == 2 else [value]
        if not all(isinstance(part, float | int) and not isinstance(part, bool) for part in parts) or (
            name == "calibration" and len(parts) != 2
        ):
            raise ModelFormatError(f"{path}: {name} is {str(value)[:80]}; expected a number, or two for calibration")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    try:
        settings = CorrectionSettings(**values)
        settings.applied_to(CorrectionConfig())
    except SettingError as error:
        raise ModelFormatError(f"{path}: {error}") from None
    return settings
