"""Opens the files and folders of others, by the rows of the registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chainrule import __version__
from chainrule.errors import ModelFormatError
from chainrule.features.open import pictures
from chainrule.features.open.adapters import read_config
from chainrule.features.open.gguf.parts import parts_of
from chainrule.features.open.gguf.reading import is_gguf_of_sources, open_gguf_checkpoint
from chainrule.features.open.importing import import_checkpoint, import_pair, import_tokenizer, is_pair
from chainrule.features.open.llama2c import describe_wrong_size, open_llama2c
from chainrule.kinds import Lazy, kinds
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.folders import build_model, open_adapter
from chainrule.models.files.opening import load
from chainrule.storage.config_json import CONFIG
from chainrule.storage.hugging_face import open_folder, read_json
from chainrule.storage.model_folder import base_of
from chainrule.storage.safetensors import open_tensors
from chainrule.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from chainrule.base.progress import Progress
    from chainrule.models.any_model import AnyModel
    from chainrule.models.model import Model
    from chainrule.models.open_options import OpenOptions
    from chainrule.storage.hugging_face import Checkpoint

CAPTIONER = "vision-encoder-decoder"  # as a model_type of Hugging Face
SPEECH = {  # by model_type, a function from a checkpoint to settings, arrays and a record
    name: Lazy("chainrule.features.open.sounds.acoustic:import_acoustic") for name in ("wav2vec2", "hubert", "wavlm")
} | {"whisper": Lazy("chainrule.features.open.sounds.whisper:import_whisper")}


def open_peft(path: Path, options: OpenOptions, progress: Progress) -> Model:
    """Open a folder of peft's, on the base that it names. Raises ModelFormatError, SettingError."""
    base = base_of(path, read_config(path).get("base_model_name_or_path"))
    return open_adapter(path, base, load, exact=options.is_exact)


def class_of_folder(path: Path) -> type[AnyModel] | None:
    """Return the class that a Hugging Face folder opens as, where that is known without opening it."""
    model_type = read_json(path / CONFIG).get("model_type")
    family = "caption" if model_type == CAPTIONER else "conditional" if is_pair(model_type) else None
    family = "speech" if model_type in SPEECH else family
    return None if family is None else kinds()[family].model.get()


def open_hugging_face(path: Path, options: OpenOptions, progress: Progress) -> AnyModel:
    """Open a Hugging Face folder. Raises ModelFormatError, SettingError."""
    model_type = read_json(path / CONFIG).get("model_type")
    if model_type == CAPTIONER:
        return _captioner(open_folder(path))
    checkpoint = _checkpoint(path, options)
    if model_type in SPEECH:
        return _speech(checkpoint)
    return _pair(checkpoint, progress) if is_pair(model_type) else _model(checkpoint, progress)


def tokenizer_of_folder(path: Path) -> Tokenizer:
    """Return the tokenizer of a Hugging Face folder. Raises ModelFormatError, SettingError."""
    return import_tokenizer(open_folder(path))


def refuse_gguf_adapter(path: Path, options: OpenOptions, progress: Progress) -> AnyModel:
    """Raise ModelFormatError: an adapter by itself cannot be opened."""
    raise ModelFormatError(
        f"{path}: is an adapter, and a GGUF file does not say where its base is; chainrule convert BASE OUTPUT "
        f"--adapter {path} merges them"
    )


def class_of_gguf(path: Path) -> type[AnyModel] | None:
    """Return the class that a GGUF file opens as, where that is known without opening it. Raises ModelFormatError."""
    return kinds()["conditional"].model.get() if is_gguf_of_sources(path) else None


def open_gguf(path: Path, options: OpenOptions, progress: Progress) -> AnyModel:
    """Open a GGUF file. Raises ModelFormatError, SettingError."""
    checkpoint = open_gguf_checkpoint(path)
    model: AnyModel
    if is_gguf_of_sources(path):
        model = _pair(checkpoint, progress)
    else:
        model = _model(checkpoint, progress, exact=options.is_exact)
    if len(parts := [part for part in parts_of(path) if part.is_file()]) > 1:
        model.record["file_bytes"] = sum(part.stat().st_size for part in parts)
    return model


def tokenizer_of_gguf(path: Path) -> Tokenizer:
    """Return the tokenizer of a GGUF file. Raises ModelFormatError, SettingError."""
    return import_tokenizer(open_gguf_checkpoint(path))


def open_karpathy(path: Path, options: OpenOptions, progress: Progress) -> Model:
    """Open a file of llama2.c, whose tokenizer is beside it or named. Raises ModelFormatError, SettingError."""
    config = options.tokenizer_config
    return _model(open_llama2c(path, None if config is None else Path(config.kind)), progress)


def tokenizer_of_karpathy(path: Path) -> Tokenizer:
    """Return the tokenizer beside a file of llama2.c. Raises ModelFormatError, SettingError."""
    return import_tokenizer(open_llama2c(path))


def refuse_wrong_size(path: Path, options: OpenOptions, progress: Progress) -> AnyModel:
    """Raise ModelFormatError: a file begins as one of llama2.c, and has another size than that says."""
    raise ModelFormatError(f"{path}: {describe_wrong_size(path)}")


def is_of_pictures(path: Path) -> bool:
    """Return whether this is the name of a file of tensors."""
    return path.is_file() and path.suffix in (*pictures.SUFFIXES, *pictures.PICKLES)


def open_picture_network(path: Path, options: OpenOptions, progress: Progress) -> Model:
    """Open a network for pictures, from a file of tensors. Raises ModelFormatError, SettingError."""
    from chainrule.features.classify.network.build import array_names
    from chainrule.neural.saving import open_pickle

    is_pickle = path.suffix in pictures.PICKLES
    if is_pickle and not options.allow_pickle:
        raise ModelFormatError(
            f"{path}: is a pickle, which can run code when it is opened; where you trust who made it, set "
            "allow_pickle=True"
        )
    arrays = open_pickle(path) if is_pickle else open_tensors(path)
    imported = pictures.import_pictures(path, arrays, lambda config: array_names(config, "picture"))
    tokenizer = Tokenizer.untrained("whitespace")
    try:
        engine = FAMILIES["classifier"].from_state(imported.settings, imported.arrays, tokenizer.vocabulary_size)
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}") from error
    record = {"read_from": str(path), "warnings": imported.warnings, "chainrule": __version__}
    return build_model("classifier", engine, tokenizer, record)


def _checkpoint(path: Path, options: OpenOptions) -> Checkpoint:
    """Open the checkpoint in a folder. Raises ModelFormatError."""
    if not options.allow_pickle:
        return open_folder(path)
    from chainrule.neural.saving import open_pickle

    return open_folder(path, open_pickle)


def _model(checkpoint: Checkpoint, progress: Progress, *, exact: bool = False) -> Model:
    """Return the model of single texts of a checkpoint. Raises ModelFormatError, SettingError."""
    imported = import_checkpoint(checkpoint, progress, exact=exact)
    tokenizer = imported.tokenizer
    engine = FAMILIES[imported.family].from_state(imported.settings, imported.arrays, tokenizer.vocabulary_size)
    return build_model(imported.family, engine, tokenizer, {**imported.record, "chainrule": __version__})


def _pair(checkpoint: Checkpoint, progress: Progress) -> AnyModel:
    """Return the seq2seq model of a checkpoint. Raises ModelFormatError, SettingError."""
    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.features.seq2seq.network.saving import put_together_pair

    imported = import_pair(checkpoint, progress)
    sizes = (imported.source.vocabulary_size, imported.target.vocabulary_size)
    model = put_together_pair(imported.settings, imported.arrays, sizes)
    return Seq2SeqModel(model, imported.source, imported.target, {**imported.record, "chainrule": __version__})


def _speech(checkpoint: Checkpoint) -> AnyModel:
    """Return the speech model of a checkpoint. Raises ModelFormatError."""
    from chainrule.features.speech.model import SpeechModel

    config, arrays, record, *tokenizer = SPEECH[checkpoint.config["model_type"]].get()(checkpoint)
    try:
        return SpeechModel.put_together(config, arrays, {**record, "chainrule": __version__}, *tokenizer)
    except ModelFormatError as error:
        raise ModelFormatError(f"{checkpoint.location}: {error}") from error


def _captioner(checkpoint: Checkpoint) -> AnyModel:
    """Return the captioner of a checkpoint. Raises ModelFormatError, SettingError."""
    from chainrule.features.open.captioners import import_captioner
    from chainrule.features.vision.model import CaptionModel
    from chainrule.features.vision.network.captioner import put_together_captioner

    imported = import_captioner(checkpoint)
    size = imported.tokenizer.vocabulary_size
    model, encoder = put_together_captioner(imported.settings, imported.encoder, imported.arrays, size)
    return CaptionModel(model, encoder, imported.tokenizer, {**imported.record, "chainrule": __version__})
