"""Models between folders, fast and compact, ARPA files, and out of KenLM's binaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.api.load_model import load
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.word_vectors import WordVectors, load_vectors
from chainrule.ngram.config import COMPACT

if TYPE_CHECKING:
    import os

    from chainrule.api.model import Model
    from chainrule.text.tokenizer_config import TokenizerConfig


@shows_progress
def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    tokenizer: TokenizerConfig | str | None = None,
    compact: bool = False,
    overwrite: bool = False,
    progress: ProgressOption = None,
) -> Model:
    """Writes a model in another form; the model that was written.

    source: a model folder, an ARPA file, or a binary of KenLM's. target: a new folder, or a file whose name ends in
    .arpa, .arpa.gz, .zst, .xz or .bz2. tokenizer: as `load` has it. compact: quantised, a fifth of the size; without
    it, a compact model becomes a fast one, and stays quantised. Raises ModelFormatError, OutputError, SettingError.

    good:  chainrule.convert("lm/", "lm.arpa.gz")
    """
    progress = callback(progress)
    model = in_layout(load(source, tokenizer=tokenizer, progress=progress), compact=compact, progress=progress)
    model.save(target, overwrite=overwrite, progress=progress)
    return model


@shows_progress
def convert_vectors(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: ProgressOption = None,
) -> WordVectors:
    """Writes word vectors in another form: what `load_vectors` opens, as the name of the target says.

    Raises ModelFormatError, TextError, OutputError.
    """
    vectors = load_vectors(source, progress=callback(progress))
    vectors.save(target, overwrite=overwrite, progress=callback(progress))
    return vectors


def in_layout(model: Model, *, compact: bool, progress: ProgressOption = None) -> Model:
    """The compact model, or one with a fast table where it was compact. Raises SettingError as `Model.compact`."""
    if compact:
        return model.compact(progress)
    return model.unpack(progress) if model.layout == COMPACT else model
