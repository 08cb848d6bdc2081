"""What is known of a model that is there, or of one in a folder or a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.api.conditional.caption_model import CaptionModel
from chainrule.api.conditional.pair_model import TextPairModel
from chainrule.api.models.model_info import ModelInfo, info_of_captioner, info_of_model, info_of_pairs, info_of_vectors
from chainrule.api.opening.load import load
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.vectors.load_vectors import is_vectors_folder, load_vectors
from chainrule.storage.hugging_face import is_hugging_face, open_folder
from chainrule.storage.model_folder import open_model

if TYPE_CHECKING:
    from chainrule.api.models.model import Model


@shows_progress
def info(
    model: Model | TextPairModel | CaptionModel | str | os.PathLike[str], *, progress: ProgressOption = None
) -> ModelInfo:
    """What is known of a model, of any family: its size, settings, data, training and validation.

    model: or where it is: a folder, an ARPA file, or a binary of KenLM's. Raises ModelFormatError.

    good:  print(chainrule.info("lm/"))
    """
    size = None
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        if is_vectors_folder(path):
            return info_of_vectors(load_vectors(path))
        model = load(path, progress=callback(progress))
        size = path.stat().st_size if path.is_file() else _bytes_of(path)
    if isinstance(model, CaptionModel):
        return info_of_captioner(model.tokenizer, model.record, size=size)
    if isinstance(model, TextPairModel):
        return info_of_pairs(model.target, model.source, model.record, size=size)
    return info_of_model(model.parts, size=size)


def _bytes_of(folder: Path) -> int:
    """As the card has it: of all numbers, and of the tokenizer's definition."""
    if is_hugging_face(folder):
        checkpoint = open_folder(folder)
        return sum(tensor.nbytes for tensor in checkpoint.tensors.values()) + len(checkpoint.tokenizer or b"")
    opened = open_model(folder)
    return sum(array.nbytes for array in opened.arrays.values()) + sum(map(len, opened.texts.values()))
