"""The checksums of model folders."""

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
    """A folder that is whole. bytes: of its data files."""

    bytes: int
    has_card: bool


@shows_progress
def verify(path: str | os.PathLike[str], *, progress: ProgressOption = None) -> Verified:
    """Reads every byte of a model folder, of any family, and compares the checksums.

    Raises ModelFormatError, which names all files that differ.

    good:  chainrule.verify("lm/").bytes
    """
    folder = Path(path)
    if folder.is_file():
        raise ModelFormatError(f"{folder}: this is a file; only model folders have checksums")
    if is_hugging_face(folder):
        raise ModelFormatError(
            f"{folder}: a Hugging Face folder has no checksums; chainrule convert makes one that does"
        )
    entry = verify_model(folder, callback(progress))
    return Verified(sum(file.bytes for file in entry.files.values()), (folder / CARD).exists())
