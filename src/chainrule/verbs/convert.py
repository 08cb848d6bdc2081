"""Converts models between formats: folders, fast or compact; ARPA, automata and word lists; Hugging Face."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from chainrule.base.arguments import as_path
from chainrule.base.files import NGRAM_FILE_SUFFIXES, WORD_LIST_SUFFIXES, ends_in
from chainrule.errors import SettingError
from chainrule.features.open.adapters import CONFIG as PEFT_CONFIG
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.features.vectors.model import WordVectors, check_vectors_target, load_vectors
from chainrule.models.files.adapter_files import save_gguf_adapter, save_peft
from chainrule.models.files.folders import build_model, open_adapter
from chainrule.models.files.model_card import model_card
from chainrule.models.files.ngram_files import save_ngram_file
from chainrule.models.files.opening import load, model_class_at
from chainrule.models.model import Model, save_hugging_face
from chainrule.models.open_options import OpenOptions
from chainrule.models.progress_line import ProgressOption, callback, shows_progress
from chainrule.storage.hugging_face import check_target, write_folder
from chainrule.storage.model_folder import CARD

if TYPE_CHECKING:
    import os

    from chainrule.base.progress import Progress
    from chainrule.features.exports.config import WordListConfig
    from chainrule.text.tokenization.config import TokenizerConfig

Form = Literal["hugging-face", "peft", "gguf-adapter"]


@shows_progress
def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    tokenizer: TokenizerConfig | str | None = None,
    compact: bool = False,
    bits: int | None = None,
    shards: int | None = None,
    to: Form | None = None,
    adapter: str | os.PathLike[str] | None = None,
    word_list: WordListConfig | None = None,
    allow_pickle: bool = False,
    overwrite: bool = False,
    progress: ProgressOption = None,
) -> Model | Seq2SeqModel:
    """Writes a model in another format, and returns it.

    source: whatever `load` opens; a seq2seq model becomes a folder. target: a new folder, or a file, see `Model.save`.
    tokenizer: as for `load`. compact: whether to quantise, as `Model.compact` does; without it, a compact model becomes
    a fast one, and its probabilities stay quantised. bits: with compact, as for `Model.compact`. shards: cuts a plain
    n-gram model into about as many files, by the first words of its n-grams; several processes may serve them. to:
    hugging-face writes a network as a folder that transformers opens; peft the adapter of an adapted model alone, as
    peft's folder; gguf-adapter the same as a file for llama.cpp. adapter: a folder, ours or peft's, or such a file,
    whose adapter is put on `source`. All other forms have adapters merged. word_list: what goes into a .combined file.
    allow_pickle: as for `load`.
    Raises ModelFormatError, OutputError, SettingError.

    good:  chainrule.convert("lm/", "lm.arpa.gz")
    good:  chainrule.convert("lm/", "hf/", to="hugging-face")
    """
    progress = callback(progress)
    if to not in (None, *get_args(Form)):
        raise SettingError(f"to is {to!r}; expected {' or '.join(get_args(Form))}, or nothing")
    as_path(source, "source")
    target = as_path(target, "target")
    is_file = ends_in(target, NGRAM_FILE_SUFFIXES)
    if word_list is not None and not ends_in(target, WORD_LIST_SUFFIXES):
        raise SettingError(f"{target}: word_list is for a file whose name ends in .combined; leave it out")
    if shards is not None and (compact or to is not None or is_file):
        raise SettingError("shards are for a folder of ours that is not compact; leave out shards, or the others")
    if bits is not None and not compact:
        raise SettingError("bits are those of a compact model; set compact, or leave bits out")
    if to in ("peft", "gguf-adapter") and compact:
        raise SettingError(f"an adapter is not compact; leave compact out with to={to!r}")
    if to == "peft":
        check_target(target, overwrite=overwrite, config=PEFT_CONFIG)
        model = _opened(source, adapter, tokenizer, allow_pickle=allow_pickle, progress=progress)
        save_peft(model.parts, target, overwrite=overwrite, progress=progress)
        return model
    if to == "gguf-adapter":
        model = _opened(source, adapter, tokenizer, allow_pickle=allow_pickle, progress=progress)
        save_gguf_adapter(model.parts, target, overwrite=overwrite)
        return model
    if to == "hugging-face":
        if compact:
            raise SettingError("compact models are folders of ours; leave compact out with to='hugging-face'")
        check_target(target, overwrite=overwrite)
        if model_class_at(source) is Seq2SeqModel:
            pairs = load(source, Seq2SeqModel, allow_pickle=allow_pickle, progress=progress)
            _write_for_transformers(pairs, target, overwrite=overwrite, progress=progress)
            return pairs
        model = _opened(source, adapter, tokenizer, allow_pickle=allow_pickle, progress=progress)
        model = in_layout(model, compact=False, progress=progress)
        save_hugging_face(model.parts, target, overwrite=overwrite, progress=progress)
        return model
    if model_class_at(source) is Seq2SeqModel:
        if tokenizer is not None or compact or is_file:
            raise SettingError(
                f"{source}: is a model of one text given another; it becomes a folder, and takes neither tokenizer nor "
                "compact"
            )
        pairs = load(source, Seq2SeqModel, allow_pickle=allow_pickle, progress=progress)
        pairs.save(target, overwrite=overwrite, progress=progress)
        return pairs
    model = _opened(source, adapter, tokenizer, allow_pickle=allow_pickle, progress=progress)
    model = in_layout(model, compact=compact, bits=bits, progress=progress)
    if shards is not None:
        model = in_shards(model, shards, progress)
    if is_file:
        save_ngram_file(model.parts, target, overwrite=overwrite, progress=progress, word_list=word_list)
        return model
    model.save(target, overwrite=overwrite, progress=progress)
    return model


def _opened(
    source: str | os.PathLike[str],
    adapter: str | os.PathLike[str] | None,
    tokenizer: TokenizerConfig | str | None,
    *,
    allow_pickle: bool,
    progress: Progress,
) -> Model:
    """A model, perhaps with another one's adapter. Raises ModelFormatError, SettingError."""
    if adapter is not None:
        return open_adapter(as_path(adapter, "adapter"), Path(source), exact=OpenOptions().is_exact)
    return load(source, Model, tokenizer=tokenizer, allow_pickle=allow_pickle, progress=progress)


def _write_for_transformers(model: Seq2SeqModel, path: Path, *, overwrite: bool, progress: Progress) -> None:
    """Raises OutputError; SettingError unless the model was opened from a folder with a tokenizer.json."""
    from chainrule.features.open.exporting import export_pair
    from chainrule.neural.saving import arrays_of

    network = model.model.network
    exported = export_pair(network.config, arrays_of(network), model.target, model.record)
    card = model_card(model.info().rows())
    files = {**exported.files, CARD: card.encode("utf-8", "replace")}
    write_folder(path, files, exported.tensors, overwrite=overwrite, progress=progress)


@shows_progress
def convert_vectors(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: ProgressOption = None,
) -> WordVectors:
    """Writes word vectors in another format, which the name of the target chooses, and returns them.

    Raises ModelFormatError, TextError, OutputError.
    """
    target = as_path(target, "target")
    check_vectors_target(target, overwrite=overwrite)
    vectors = load_vectors(source, progress=callback(progress))
    vectors.save(target, overwrite=overwrite, progress=callback(progress))
    return vectors


def in_shards(model: Model, shards: int, progress: ProgressOption = None) -> Model:
    """The same n-gram model, cut into shards. Raises SettingError if it is no plain n-gram model."""
    from chainrule.ngram.saving import shard_model

    if model.family != "ngram":
        raise SettingError(f"only an n-gram model can be cut into shards; this one is of family {model.family!r}")
    engine = shard_model(model.engine, shards, callback(progress))
    return build_model(model.family, engine, model.tokenizer, model.record, model.speller)


def in_layout(model: Model, *, compact: bool, bits: int | None = None, progress: ProgressOption = None) -> Model:
    """The model with a compact or a fast table; its adapter, if it has one, is merged. bits: as for `Model.compact`,
    and raises SettingError as that.
    """
    model = model.merge()
    if compact:
        return model.compact(progress, bits=bits)
    return model.unpack(progress) if model.is_compact else model
