"""Opens a saved model as its kind, which follows from its family.

Reads model folders, Hugging Face and GGUF checkpoints, ARPA files and KenLM's binaries.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule import __version__
from chainrule.base.files import ARPA_SUFFIXES, ends_in
from chainrule.base.memory import collection_paused
from chainrule.base.progress import Progress, silent
from chainrule.errors import ModelFormatError, SettingError, opening_folder, prefix_errors
from chainrule.features.classify.model import ClassifierModel
from chainrule.features.open import pictures
from chainrule.features.open.adapters import is_peft
from chainrule.features.open.adapters import read_config as read_peft_config
from chainrule.features.open.gguf.adapters import is_gguf_adapter
from chainrule.features.open.gguf.reading import open_gguf_checkpoint
from chainrule.features.open.importing import import_checkpoint
from chainrule.features.open.llama2c import describe_wrong_size, is_llama2c, open_llama2c
from chainrule.features.open.vocabulary import id_of_name
from chainrule.models.adapters import adapted, open_base
from chainrule.models.embedding_model import EmbeddingModel
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.tokenizers import saved_tokenizer, tokenizer_from
from chainrule.models.language_models import CausalModel, CausalNetwork, MaskedModel
from chainrule.storage.config_json import read_config
from chainrule.storage.gguf import describe_wrong_magic, is_gguf
from chainrule.storage.hugging_face import is_hugging_face, open_folder
from chainrule.storage.model_folder import SPELLER_ARRAYS, TOKENIZER, VOCABULARY_ARRAYS, base_of, open_model
from chainrule.storage.safetensors import open_tensors
from chainrule.text.tokenization.build import splitter_of
from chainrule.text.tokenization.config import TokenizerConfig, as_config
from chainrule.text.tokenization.splitters import Normaliser, splitter_marked_in
from chainrule.text.tokenization.subword_decoders import looks_like_pieces
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.models.model import Model
    from chainrule.ngram.kenlm.probing import HashedModel
    from chainrule.ngram.speller import MixedSpeller, Speller
    from chainrule.storage.hugging_face import Checkpoint
    from chainrule.storage.safetensors import MappedFile
    from chainrule.text.tokenization.vocabulary import Markers


def build_model(
    family: str,
    engine: Any,
    tokenizer: Tokenizer,
    record: dict[str, Any] | None = None,
    speller: Speller | MixedSpeller | None = None,
    *,
    mapped: MappedFile | None = None,
) -> Model:
    """A model of a family, as the kind that its family is. The arguments are those of `Model`."""
    return kind_of(family)(family, engine, tokenizer, record, speller, mapped=mapped)


def kind_of(family: str) -> type[Model]:
    """The class that models of a family have."""
    match FAMILIES[family].job:
        case "continue":
            return CausalNetwork if FAMILIES[family].embeds else CausalModel
        case "fill":
            return MaskedModel
        case "embed":
            return EmbeddingModel
        case "classify":
            return ClassifierModel


@collection_paused()
def load(
    path: str | os.PathLike[str],
    *,
    tokenizer: TokenizerConfig | str | None = None,
    markers: Markers | None = None,
    copy: bool = False,
    allow_pickle: bool = False,
    exact: bool | None = None,
    alone: bool | None = None,
    window_stride: int | None = None,
    cache_bits: int | None = None,
    bos: str | None = None,
    float64_layers: int | None = None,
    progress: Progress = silent,
) -> Model:
    """Opens a model folder, or reads an ARPA file or a binary of KenLM's.

    The arguments are those of `chainrule.load`. Raises ModelFormatError, SettingError.
    """
    path = Path(path)
    wanted = None if tokenizer is None else as_config(tokenizer)
    if path.is_dir():
        if is_peft(path):
            model = load_adapter(path, exact=exact)
        elif is_hugging_face(path):
            model = _open(open_checkpoint(path, allow_pickle=allow_pickle), progress)
        else:
            model = _load_folder(path, copy=copy, exact=exact)
            if is_exact(exact) and _is_in_blocks(model):
                model = model.unpack(progress)
    elif path.is_file() and path.suffix in (*pictures.SUFFIXES, *pictures.PICKLES):
        model = _open_pictures(path, allow_pickle=allow_pickle)
    elif is_gguf_adapter(path):
        raise ModelFormatError(
            f"{path}: is an adapter, and a GGUF file does not say where its base is; chainrule convert BASE OUTPUT "
            f"--adapter {path} merges them"
        )
    elif is_gguf(path):
        model = _open(open_gguf_checkpoint(path), progress, exact=is_exact(exact))
    elif is_llama2c(path):
        model = _open(open_llama2c(path, None if wanted is None else Path(wanted.kind)), progress)
        wanted = None
    else:
        model = _load_file(path, wanted, progress) if path.is_file() else _load_folder(path, copy=copy)
    if path.is_dir() and wanted not in (None, TokenizerConfig(kind=model.tokenizer.name)):
        raise SettingError(
            f"{path}: was trained with the {model.tokenizer.name} tokenizer, so it cannot use {wanted.kind!r}; leave "
            "tokenizer out"
        )
    if markers is not None:
        model.set_markers(markers)
    with prefix_errors(os.fspath(path)):
        if window_stride is not None and not has_windows(model.engine):
            raise SettingError("this model does not read texts in windows, so there is no window_stride; leave it out")
        if bos is not None and not has_beginning(model.engine):
            raise SettingError("this model does not read each text from a beginning token; leave bos out")
        if cache_bits is not None and not has_cache(model.engine):
            raise SettingError("this model keeps no keys and values of tokens, so there is no cache_bits; leave it out")
        if float64_layers is not None and not has_blocks(model.engine):
            raise SettingError(
                "this model is no Transformer, and has none in it, so there are no float64_layers; leave it out"
            )
        _set_reading(
            model.engine,
            _is_alone(alone),
            _whole("window_stride", window_stride),
            _beginning(model, bos),
            _cache_bits(cache_bits),
        )
        _set_float64_layers(model.engine, _whole("float64_layers", float64_layers))
    return model


def parts_of(engine: Any) -> Sequence[Any]:
    """The models that a mixture is made of; of others, none."""
    return getattr(getattr(engine, "components", engine), "models", ())


def has_windows(engine: Any) -> bool:
    """Whether a model, or one that it is made of, reads texts that are longer than its context in windows."""
    if any(map(has_windows, parts_of(engine))):
        return True
    encoder = getattr(getattr(engine, "network", None), "encoder", None)
    return getattr(encoder, "context", None) is not None and not getattr(encoder, "is_bidirectional", True)


def has_cache(engine: Any) -> bool:
    """Whether a model, or one that it is made of, keeps keys and values of the tokens that it has read."""
    if any(map(has_cache, parts_of(engine))):
        return True
    encoder = getattr(getattr(engine, "network", None), "encoder", None)
    return getattr(encoder, "has_cache", False) is True


def has_blocks(engine: Any) -> bool:
    """Whether a model, or one that it is made of, is a Transformer."""
    if any(map(has_blocks, parts_of(engine))):
        return True
    return hasattr(getattr(getattr(engine, "network", None), "encoder", None), "set_float64_layers")


def has_beginning(engine: Any) -> bool:
    """Whether a model, or one that it is made of, is a network that reads each text from a token that begins it."""
    if any(map(has_beginning, parts_of(engine))):
        return True
    network = getattr(engine, "network", None)
    is_bidirectional = getattr(getattr(network, "encoder", None), "is_bidirectional", True)
    return not is_bidirectional and getattr(network, "memory", None) == "document"


def _set_reading(
    engine: Any, alone: bool | None, stride: int | None, begin: int | None, cache_bits: int | None
) -> None:
    """Says to the networks of a model how they read texts. Raises SettingError."""
    for part in parts_of(engine):
        _set_reading(part, alone, stride, begin, cache_bits)
    network = getattr(engine, "network", None)
    if network is None or not hasattr(network, "encoder"):
        return
    network.alone = alone
    if has_beginning(engine):
        network.begin = begin
    if cache_bits is not None and has_cache(engine):
        network.encoder.set_cache_bits(cache_bits)
    context = network.encoder.context
    if stride is None or context is None or network.encoder.is_bidirectional:
        return
    if not 1 <= stride <= context:
        raise SettingError(f"window_stride is {stride}; expected 1 to {context}, the tokens that the network sees")
    network.stride = stride


def _set_float64_layers(engine: Any, count: int | None) -> None:
    """Says to the Transformers of a model how many of their blocks compute in float64. Raises SettingError."""
    for part in parts_of(engine):
        _set_float64_layers(part, count)
    encoder = getattr(getattr(engine, "network", None), "encoder", None)
    set_layers = getattr(encoder, "set_float64_layers", None)
    if count is not None and set_layers is not None:
        set_layers(count)


def _is_alone(alone: bool | None) -> bool | None:
    """Whether each text has a pass of its own: as given, else as the environment variable CHAINRULE_ALONE says."""
    return (os.environ.get("CHAINRULE_ALONE", "") not in ("", "0") or None) if alone is None else alone


def _beginning(model: Model, bos: str | None) -> int | None:
    """The token that texts begin with, as given, else as the environment variable CHAINRULE_BOS says; None for the
    model's own. Raises SettingError.
    """
    name = os.environ.get("CHAINRULE_BOS", "") if bos is None else bos
    if bos is None and (not name or not has_beginning(model.engine)):
        return None
    if not isinstance(name, str):
        raise SettingError(f"bos is {name!r}; expected the name of a token, such as '<|endoftext|>'")
    splitter, vocabulary = model.tokenizer.splitter, model.tokenizer.vocabulary
    number = id_of_name(model.record, splitter, vocabulary, name)
    if number is None:
        known = [*getattr(splitter, "numbers", {}), *MARKER_TOKENS]
        near = get_close_matches(name, known, 3) or [one for one in known if one.startswith("<|")][:5] or MARKER_TOKENS
        raise SettingError(f"bos is {name!r}, and the model has no such token; expected one such as {', '.join(near)}")
    return number


def _whole(name: str, wanted: int | None) -> int | None:
    """A count as given, else as the environment variable CHAINRULE_... of its name says. Raises SettingError."""
    variable = f"CHAINRULE_{name.upper()}"
    said = os.environ.get(variable, "")
    if wanted is None and said:
        name, wanted = variable, int(said) if said.isdecimal() else None
    is_count = isinstance(wanted, int) and not isinstance(wanted, bool) and wanted >= 1
    if (wanted is not None or said) and not is_count:
        raise SettingError(f"{name} is {said if wanted is None else wanted!r}; expected a whole number of 1 or more")
    return wanted


def _cache_bits(wanted: int | None) -> int | None:
    """As given, else as the environment variable CHAINRULE_CACHE_BITS says. Raises SettingError."""
    said = os.environ.get("CHAINRULE_CACHE_BITS", "")
    is_number = isinstance(wanted, int) and not isinstance(wanted, bool) and wanted == 8
    if (wanted is not None and not is_number) or (wanted is None and said not in ("", "8")):
        name, value = ("CHAINRULE_CACHE_BITS", repr(said)) if wanted is None else ("cache_bits", repr(wanted))
        raise SettingError(f"{name} is {value}; expected 8, or nothing for 32")
    return 8 if wanted or said else None


def open_checkpoint(path: Path, *, allow_pickle: bool) -> Checkpoint:
    """Opens a Hugging Face folder. Raises ModelFormatError, SettingError."""
    if not allow_pickle:
        return open_folder(path)
    from chainrule.neural.saving import open_pickle

    return open_folder(path, open_pickle)


def is_exact(exact: bool | None) -> bool:
    """Whether quantised weights are widened: as given, else as the environment variable CHAINRULE_EXACT says."""
    return os.environ.get("CHAINRULE_EXACT", "") not in ("", "0") if exact is None else exact


def _is_in_blocks(model: Model) -> bool:
    if model.record.get("quantised") is not True or not FAMILIES[model.family].embeds:
        return False
    from chainrule.neural.quantization import rounds_activations

    return rounds_activations(model.engine.network)


def _open(checkpoint: Checkpoint, progress: Progress, *, exact: bool = False) -> Model:
    """The model of a checkpoint. Raises ModelFormatError."""
    imported = import_checkpoint(checkpoint, progress, exact=exact)
    tokenizer = imported.tokenizer
    engine = FAMILIES[imported.family].from_state(imported.settings, imported.arrays, tokenizer.vocabulary_size)
    return build_model(imported.family, engine, tokenizer, {**imported.record, "chainrule": __version__})


def _open_pictures(path: Path, *, allow_pickle: bool) -> Model:
    """A network for pictures, from a file of tensors. Raises ModelFormatError, SettingError."""
    from chainrule.features.classify.network.build import array_names
    from chainrule.neural.saving import open_pickle

    if path.suffix in pictures.PICKLES and not allow_pickle:
        raise ModelFormatError(
            f"{path}: is a pickle, which can run code when it is opened; where you trust who made it, set "
            "allow_pickle=True"
        )
    arrays = open_pickle(path) if path.suffix in pictures.PICKLES else open_tensors(path)
    imported = pictures.import_pictures(path, arrays, lambda config: array_names(config, "picture"))
    tokenizer = Tokenizer.untrained("whitespace")
    try:
        engine = FAMILIES["classifier"].from_state(imported.settings, imported.arrays, tokenizer.vocabulary_size)
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}") from error
    record = {"read_from": str(path), "warnings": imported.warnings, "chainrule": __version__}
    return build_model("classifier", engine, tokenizer, record)


def _load_folder(path: Path, *, copy: bool, exact: bool | None = None) -> Model:
    from chainrule.ngram.speller import speller_from_arrays

    entry, arrays, texts, mapped = open_model(path)
    if "adapter" in entry.settings:
        return load_adapter(path, exact=exact)
    if copy:
        arrays = {name: array.copy() for name, array in arrays.items()}
        mapped.check()
    if entry.family == "vectors":
        raise ModelFormatError(
            f"{path}: holds word vectors, not a language model: nearest, analogy, odd, map and evaluate take them, and "
            "in Python load_vectors opens them"
        )
    if entry.family not in FAMILIES:
        raise ModelFormatError(
            f"{path}: family {entry.family!r} is not known to this version; expected one of {', '.join(FAMILIES)}"
        )
    with opening_folder(path):
        weights = {
            name: array for name, array in arrays.items() if not name.startswith((VOCABULARY_ARRAYS, SPELLER_ARRAYS))
        }
        spelling = {
            name.removeprefix(SPELLER_ARRAYS): array
            for name, array in arrays.items()
            if name.startswith(SPELLER_ARRAYS)
        }
        learner = tokenizer_from(entry.tokenizer, arrays, VOCABULARY_ARRAYS, texts.get(TOKENIZER))
        language_model = FAMILIES[entry.family].from_state(entry.settings, weights, learner.vocabulary_size)
        speller = speller_from_arrays(spelling, learner.vocabulary)
    return build_model(entry.family, language_model, learner, entry.record, speller, mapped=None if copy else mapped)


def load_adapter(path: Path, base: Path | None = None, *, exact: bool | None = None) -> Model:
    """A model with an adapter, from a folder of ours or of peft's, or a GGUF file.

    base: where its base is; None: where it says. Raises ModelFormatError, SettingError.
    """
    where = base_of(path, *_named_bases(path)) if base is None else base
    own = open_base(where, is_exact(exact), load)
    engine, record = adapted(path, own)
    model = build_model(own.family, engine, own.tokenizer, record, own.speller)
    model.base = own
    return model


def _named_bases(path: Path) -> list[str | None]:
    """The paths of the base that an adapter names. Raises ModelFormatError."""
    if is_peft(path):
        return [read_peft_config(path).get("base_model_name_or_path")]
    said = read_config(path).settings.get("adapter")
    return [said.get("beside"), said.get("base")] if isinstance(said, dict) else []


def _load_file(path: Path, config: TokenizerConfig | None, progress: Progress) -> CausalModel:
    from chainrule.ngram.kenlm.binary import is_binary
    from chainrule.ngram.models.table_models import NGramModel

    warnings: list[str] = []
    language_model: NGramModel | HashedModel
    if is_binary(path):
        from chainrule.ngram.kenlm.read import read_binary

        language_model, vocabulary = read_binary(path, progress)
        level_sizes = language_model.level_sizes
    elif ends_in(path, ARPA_SUFFIXES):
        from chainrule.ngram.arpa.read import read_arpa

        table, vocabulary = read_arpa(path, progress, warnings.append, warnings.append)
        language_model, level_sizes = NGramModel(table), table.level_sizes
    else:
        if wrong := describe_wrong_magic(path) or describe_wrong_size(path):
            raise ModelFormatError(f"{path}: {wrong}")
        raise ModelFormatError(
            f"{path}: a model is a folder, a file whose name ends in {', '.join(ARPA_SUFFIXES)}, a binary of KenLM's, "
            "a GGUF file, one of llama2.c, or a .safetensors file of a ResNet"
        )
    if config is None:
        tokenizer = Tokenizer(splitter_marked_in(vocabulary.tokens()), vocabulary)
        if tokenizer.name != "whitespace":
            warnings.append(
                f"{path}: its tokens have the marks of the {tokenizer.name} tokenizer, which is used to split texts"
            )
        elif looks_like_pieces(vocabulary.tokens()):
            warnings.append(
                f"{path}: its tokens look like subword pieces; set tokenizer to the path of their tokenizer.json"
            )
    else:
        saved = saved_tokenizer(config)
        splitter = splitter_of(os.fspath(config.kind)) if saved is None else saved.splitter
        normaliser = Normaliser(config.normalise) if saved is None else saved.normaliser
        tokenizer = Tokenizer(splitter, vocabulary, normaliser=normaliser)
    record = {"read_from": str(path), "ngrams": list(level_sizes), "warnings": warnings, "chainrule": __version__}
    return CausalModel("ngram", language_model, tokenizer, record)
