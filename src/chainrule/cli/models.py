"""What several verbs do with models: open one, and ask whether one may be written."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.cli.screen import note
from chainrule.errors import OutputError, SettingError

if TYPE_CHECKING:
    from chainrule.api.model import Model
    from chainrule.api.pair_model import TextPairModel
    from chainrule.base.progress import Progress
    from chainrule.text.tokenizer_config import TokenizerConfig
    from chainrule.text.vocabulary import Markers


def opened(path: Path, tokenizer: TokenizerConfig | str | None, markers: Markers | None, told: Progress) -> Model:
    """A model, with notes of what its file lacks. Raises ModelFormatError, SettingError."""
    from chainrule.api.load_model import load

    model = load(path, tokenizer=tokenizer, markers=markers, progress=told)
    for warning in model.record.get("warnings", []) if path.is_file() else []:
        note(warning)
    return model


def is_arpa(path: Path) -> bool:
    """Whether a name is that of an ARPA file."""
    from chainrule.ngram.arpa.lines import ARPA_SUFFIXES

    return path.name.endswith(ARPA_SUFFIXES)


def is_model(folder: Path) -> bool:
    """Whether there is a finished model in a folder."""
    from chainrule.storage.config_json import CONFIG

    return (folder / CONFIG).exists()


def save_or_keep(model: Model | TextPairModel, target: Path, *, overwrite: bool, told: Progress) -> None:
    """Saves a model after the work; where it cannot be at `target`, since another process wrote there, beside it.

    Raises OutputError, which says where the model is.
    """
    try:
        model.save(target, overwrite=overwrite, progress=told)
    except OutputError as error:
        beside = _free_name(target)
        try:
            model.save(beside, progress=told)
        except OutputError:
            raise error from None
        raise OutputError(f"{error}. What was trained is not lost: it was saved as {beside}") from error


def _free_name(target: Path) -> Path:
    """lm-2 beside lm, or lm-2.arpa.gz beside lm.arpa.gz."""
    stem, dot, suffix = target.name.partition(".arpa")
    names = (target.with_name(f"{stem}-{number}{dot}{suffix}") for number in count(2))
    return next(name for name in names if not name.exists())


def check_model_target(target: Path, *, overwrite: bool, compact: bool = False) -> None:
    """Asked before the work: whether a model folder or an ARPA file may be written.

    compact: whether the model will be compact. Raises OutputError, SettingError.
    """
    from chainrule.base.files import check_writable
    from chainrule.storage.model_folder import check_target

    if not is_arpa(target):
        check_target(target, overwrite=overwrite)
        return
    if compact:
        raise SettingError(f"{target}: an ARPA file has no compact form; name a folder, or leave --compact out")
    if target.is_dir():
        raise OutputError(f"{target}: a folder is in the way; an ARPA model is a file, so choose another name")
    if target.exists() and not overwrite:
        raise OutputError(f"{target}: exists already; say --overwrite to replace it, or choose another name")
    if not target.parent.is_dir():
        raise OutputError(f"{target}: there is no folder {target.parent} to write it in; make it first")
    check_writable(target.parent)
