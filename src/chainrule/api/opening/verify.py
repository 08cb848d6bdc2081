"""Verifies the checksums of model folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.errors import ModelFormatError
from chainrule.storage.hugging_face import is_hugging_face
from chainrule.storage.model_folder import CARD, verify_model

if TYPE_CHECKING:
    import os


class Verified(NamedTuple):
    """A folder whose checksums are right. bytes: the size of its data files."""

    bytes: int
    has_card: bool


@shows_progress
def verify(path: str | os.PathLike[str], *, progress: ProgressOption = None) -> Verified:
    """Reads every byte of a model folder and compares the checksums.

    Raises ModelFormatError, which names all files that differ.

    good:  chainrule.verify("lm/").bytes
    """
    folder = Path(path)
    if folder.is_file():
        raise ModelFormatError(f"{folder}: is a file; expected a model folder, which has checksums")
    if is_hugging_face(folder):
        raise ModelFormatError(
            f"{folder}: is a Hugging Face folder, which has no checksums; convert it to a model folder"
        )
    entry = verify_model(folder, callback(progress))
    return Verified(sum(file.bytes for file in entry.files.values()), (folder / CARD).exists())
