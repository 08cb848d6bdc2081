"""Converts models between formats: folders, fast or compact; ARPA, automata and word lists; Hugging Face."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.base.arguments import as_path
from chainrule.errors import SettingError
from chainrule.models.files.folders import build_model, open_adapter
from chainrule.models.files.opening import load
from chainrule.models.files.writing import writer_named, writer_of
from chainrule.models.model import Model
from chainrule.models.open_options import OpenOptions
from chainrule.models.progress_line import ProgressOption, callback, shows_progress

if TYPE_CHECKING:
    import os

    from chainrule.base.progress import Progress
    from chainrule.models.any_model import AnyModel
    from chainrule.text.tokenization.config import TokenizerConfig


@shows_progress
def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    tokenizer: TokenizerConfig | str | None = None,
    compact: bool = False,
    bits: int | None = None,
    shards: int | None = None,
    to: str | None = None,
    adapter: str | os.PathLike[str] | None = None,
    settings: Any = None,
    allow_pickle: bool = False,
    overwrite: bool = False,
    progress: ProgressOption = None,
) -> AnyModel:
    """Write a model in another format, and return it.

    source: whatever `load` opens. target: a new folder, or a file, see `Model.save` and `WordVectors.save`. tokenizer:
    as for `load`. compact: whether to quantise, as `Model.compact` does; without it, a compact model becomes a fast
    one, and its probabilities stay quantised. bits: with compact, as for `Model.compact`. shards: cuts a plain n-gram
    model into about as many files, by the first words of its n-grams. to: hugging-face writes a network as a folder
    that transformers opens; peft the adapter of an adapted model alone, as peft's folder; gguf-adapter as a file for
    llama.cpp. adapter: a folder, ours or peft's, or such a file, whose adapter is put on `source`, and merged.
    settings: of a file of others, such as a WordListConfig for .combined. allow_pickle: as for `load`.
    Raises ModelFormatError, OutputError, SettingError.

    good:  chainrule.convert("lm/", "lm.arpa.gz")
    good:  chainrule.convert("lm/", "hf/", to="hugging-face")
    """
    progress = callback(progress)
    as_path(source, "source")
    target = as_path(target, "target")
    writer = writer_of(target) if to is None else writer_named(to)
    if settings is not None and (
        writer is None or writer.settings is None or type(settings) is not writer.settings.get()
    ):
        raise SettingError(f"{target}: {type(settings).__name__} is for another kind of file; leave settings out")
    if shards is not None and (compact or writer is not None):
        raise SettingError("shards are for a folder of ours that is not compact; leave out shards, or the others")
    if bits is not None and not compact:
        raise SettingError("bits are those of a compact model; set compact, or leave bits out")
    if to is not None and compact:
        raise SettingError(f"compact models are folders of ours, or .gguf files; leave compact out with to={to!r}")
    if to is not None and writer is not None:
        writer.check.get()(target, overwrite=overwrite)
    opened = _opened(source, adapter, tokenizer, allow_pickle=allow_pickle, progress=progress)
    if to is not None and writer is not None:
        writer.write.get()(opened, target, settings, overwrite=overwrite, progress=progress)
        return opened
    if not isinstance(opened, Model):  # which writes what it can
        if compact or shards is not None:
            raise SettingError(f"{source}: {opened.does()}; it has no compact form and no shards")
        opened.save(target, overwrite=overwrite, progress=progress)
        return opened
    model = in_layout(opened, compact=compact, bits=bits, progress=progress)
    if shards is not None:
        model = in_shards(model, shards, progress)
    if writer is not None:
        writer.write.get()(model, target, settings, overwrite=overwrite, progress=progress)
    else:
        model.save(target, overwrite=overwrite, progress=progress)
    return model


def _opened(
    source: str | os.PathLike[str],
    adapter: str | os.PathLike[str] | None,
    tokenizer: TokenizerConfig | str | None,
    *,
    allow_pickle: bool,
    progress: Progress,
) -> AnyModel:
    """Return a model, perhaps with another one's adapter. Raises ModelFormatError, SettingError."""
    if adapter is not None:
        return open_adapter(as_path(adapter, "adapter"), Path(source), load, exact=OpenOptions().is_exact)
    return load(source, tokenizer=tokenizer, allow_pickle=allow_pickle, progress=progress)


def in_shards(model: Model, shards: int, progress: ProgressOption = None) -> Model:
    """Return the same n-gram model, cut into shards. Raises SettingError if it is no plain n-gram model."""
    from chainrule.ngram.saving import shard_model

    if model.family != "ngram":
        raise SettingError(f"only an n-gram model can be cut into shards; this one is of family {model.family!r}")
    engine = shard_model(model.engine, shards, callback(progress))
    return build_model(model.family, engine, model.tokenizer, model.record, model.speller)


def in_layout(model: Model, *, compact: bool, bits: int | None = None, progress: ProgressOption = None) -> Model:
    """Return the model with a compact or a fast table; its adapter, if it has one, is merged.

    bits: as for `Model.compact`, and raises SettingError as that.
    """
    model = model.merge()
    if compact:
        return model.compact(progress, bits=bits)
    return model.unpack(progress) if model.is_compact else model
