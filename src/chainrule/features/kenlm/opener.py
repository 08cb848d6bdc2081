"""Opens binary files of KenLM."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.base.progress import Progress
    from chainrule.models.language_models import CausalModel
    from chainrule.models.open_options import OpenOptions


def is_kenlm(path: Path) -> bool:
    """Return whether this is a binary file of KenLM's."""
    from chainrule.features.kenlm.files.binary import is_binary

    return path.is_file() and is_binary(path)


def open_kenlm(path: Path, options: OpenOptions, progress: Progress) -> CausalModel:
    """Read a binary file of KenLM's. Raises ModelFormatError, SettingError."""
    from chainrule.features.kenlm.files.read import read_binary
    from chainrule.models.files.ngram_files import model_of_file

    model, vocabulary = read_binary(path, progress)
    return model_of_file(path, model, model.level_sizes, vocabulary, options, [])
