"""Hugging Face folders: config.json, safetensors in one file or in shards, tokenizer.json. Data, never executed.

A pickle in place of safetensors is opened only by a function that the caller gives for it.

config.json                        the architecture and its settings
generation_config.json             optional; which tokens end a text
model.safetensors                  the tensors; or
model.safetensors.index.json       which of several files, all in the folder, holds which tensor
tokenizer.json                     how text is tokenized; tokenizer_config.json beside it; or, of Marian,
source.spm, target.spm             how the text of each side is cut; vocab.json, and target_vocab.json if that differs
modules.json                       of sentence-transformers: what makes a vector of a text, with a folder for each part
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.files import parse_json, read_file
from chainrule.errors import ModelFormatError, os_errors_as
from chainrule.storage.config_json import CONFIG
from chainrule.storage.safetensors import open_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy import ndarray

    Json = dict[str, Any]
    OpenTensors = Callable[[Path], Mapping[str, ndarray]]

TENSORS, INDEX = "model.safetensors", "model.safetensors.index.json"
TOKENIZER, TOKENIZER_CONFIG, GENERATION_CONFIG = "tokenizer.json", "tokenizer_config.json", "generation_config.json"
SOURCE_PIECES, TARGET_PIECES = "source.spm", "target.spm"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
CHAT_TEMPLATE = "chat_template.jinja"
_SIDES = (SOURCE_PIECES, TARGET_PIECES, VOCABULARY, TARGET_VOCABULARY)
MODULES, READ_TEXTS, PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
_PICKLE, _PICKLE_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
_OF_OLD = ("architectures", "num_hidden_layers", "n_layer")  # fields of a config.json without model_type


class Checkpoint(NamedTuple):
    """A model in Hugging Face's terms, whatever file it is in. location: its name, for messages."""

    location: str
    config: Json
    tensors: Mapping[str, ndarray]  # mapped into memory, where they lie in a file
    files: Mapping[str, str]  # where each tensor lies, for messages
    tokenizer: bytes | None  # a tokenizer.json
    generation_config: Json = {}  # noqa: RUF012  # nobody writes to it
    tokenizer_config: Json = {}  # noqa: RUF012
    chat_template: str | None = None
    sides: Mapping[str, bytes] = {}  # of the tokenizers of both sides: files by name
    sentence_files: Mapping[str, bytes] = {}  # of sentence-transformers, by their paths in the folder
    stored: Callable[[str], Any] = lambda name: None  # a tensor's quantised blocks, where the file has such


def is_hugging_face(folder: Path) -> bool:
    """Return whether a folder's config.json names an architecture, or layers as old ones do without that; ours never
    does.
    """
    path = folder / CONFIG
    try:
        config = json.loads(read_file(path))
    except (ValueError, RecursionError, OSError):
        return False  # it is read again as one of ours, and refused as that
    return isinstance(config, dict) and bool({"model_type", *_OF_OLD} & config.keys()) and "family" not in config


def open_folder(folder: Path, open_pickle: OpenTensors | None = None) -> Checkpoint:
    """Return the checkpoint in a folder; no tensor of a safetensors file is read yet.

    open_pickle: a function that opens a pickle where there are no safetensors; None to refuse it. Raises
    ModelFormatError.
    """
    config = read_json(folder / CONFIG)
    if "auto_map" in config:
        raise ModelFormatError(
            f"{folder / CONFIG}: auto_map asks for code of the model's own, which is never run here; take a model "
            "whose architecture transformers has built in"
        )
    tensors, files = tensors_of_folder(folder, open_pickle)
    sentence_files = _sentence_files(folder)
    for part in sorted(Path(name).parent.name for name in sentence_files if "/" in name):
        if any((folder / part / name).exists() for name in (TENSORS, _PICKLE)):
            own, own_files = tensors_of_folder(folder / part, open_pickle)
            tensors = {**tensors, **{f"{part}/{name}": own[name] for name in own}}
            files = {**files, **{f"{part}/{name}": path for name, path in own_files.items()}}
    template = folder / CHAT_TEMPLATE
    return Checkpoint(
        str(folder),
        config,
        tensors,
        files,
        _bytes_of(folder / TOKENIZER) if (folder / TOKENIZER).exists() else None,
        _optional_json(folder / GENERATION_CONFIG),
        _optional_json(folder / TOKENIZER_CONFIG),
        _bytes_of(template).decode("utf-8", "replace") if template.exists() else None,
        {name: _bytes_of(folder / name) for name in _SIDES if (folder / name).exists()}
        if (folder / SOURCE_PIECES).exists()
        else {},
        sentence_files,
    )


def _sentence_files(folder: Path) -> dict[str, bytes]:
    """Return the settings of the parts in a folder of sentence-transformers. Raises ModelFormatError."""
    path = folder / MODULES
    if not path.exists():
        return {}
    files = {name: _bytes_of(folder / name) for name in (MODULES, READ_TEXTS, PROMPTS) if (folder / name).exists()}
    modules = _parsed(files[MODULES], str(path))
    if not isinstance(modules, list):
        raise ModelFormatError(f"{path}: holds a JSON {type(modules).__name__}; expected a list of modules")
    for module in modules:
        match module:
            case {"path": str(part), "type": str()} if part == "" or _is_name(part):
                name = f"{part}/{CONFIG}"
                if part and (folder / name).exists():
                    files[name] = _bytes_of(folder / name)
            case _:
                raise ModelFormatError(f"{path}: has the module {module!r:.80}; expected its type, and a path inside")
    return files


def _is_name(part: str) -> bool:
    """Return whether a path leads to something in the folder itself."""
    return Path(part).name == part and part not in ("", ".", "..") and "\0" not in part


def read_json(path: Path) -> Json:
    """Return the JSON object in a file. Raises ModelFormatError."""
    return json_object(_bytes_of(path), str(path))


def json_object(content: bytes, location: str) -> Json:
    """Return the JSON object in a file's bytes.

    location: the file, for messages. Raises ModelFormatError where it is no object.
    """
    found = _parsed(content, location)
    if not isinstance(found, dict):
        raise ModelFormatError(f"{location}: holds a JSON {type(found).__name__}; expected an object")
    return found


def _parsed(content: bytes, location: str) -> Any:
    try:
        return parse_json(content)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise ModelFormatError(f"{location}: is no valid JSON: {error}; get or write the file again") from error


def line_of(location: str, name: str, field: str) -> str:
    """Return where a field is in a file of a folder, as the end of a message; nothing where no line of a file has it.

    location: as in a `Checkpoint`.
    """
    try:
        lines = read_file(Path(location) / name).decode("utf-8", "replace").splitlines()
    except OSError:  # of another format, in which that file is made up
        return ""
    own = next((number for number, line in enumerate(lines, 1) if line.lstrip(" \t{").startswith(f'"{field}"')), None)
    return "" if own is None else f" ({name}, line {own})"


def _optional_json(path: Path) -> Json:
    return read_json(path) if path.exists() else {}


def _bytes_of(path: Path) -> bytes:
    """Return the bytes of a file. Raises ModelFormatError."""
    with os_errors_as(ModelFormatError, path, "read"):
        return read_file(path)


def tensors_of_folder(
    folder: Path, open_pickle: OpenTensors | None = None
) -> tuple[Mapping[str, ndarray], Mapping[str, str]]:
    """Return all tensors of the folder, and the file that each is in. open_pickle: as for `open_folder`.

    Raises ModelFormatError.
    """
    if (folder / INDEX).exists():
        return _sharded(folder / INDEX, open_tensors)
    if (folder / TENSORS).exists():
        return _in_one_file(folder / TENSORS, open_tensors)
    pickled = next((folder / name for name in (_PICKLE, _PICKLE_INDEX) if (folder / name).exists()), None)
    if pickled is None:
        raise ModelFormatError(f"{folder}: has no {TENSORS}, and no {INDEX}")
    if open_pickle is None:
        raise ModelFormatError(
            f"{pickled}: is a pickle, which can run code when it is opened, so it was not opened. If you trust who "
            "made it, convert it with allow_pickle=True; or save the model as safetensors, in Python with "
            "transformers: AutoModel.from_pretrained(folder).save_pretrained(new_folder)"
        )
    return (_sharded if pickled.name == _PICKLE_INDEX else _in_one_file)(pickled, open_pickle)


def _in_one_file(path: Path, opened: OpenTensors) -> tuple[Mapping[str, ndarray], Mapping[str, str]]:
    tensors = opened(path)
    return tensors, dict.fromkeys(tensors, str(path))


def _sharded(path: Path, opened: OpenTensors) -> tuple[Mapping[str, ndarray], Mapping[str, str]]:
    """Return the tensors of all shards, and the file that each is in.

    path: that of the index. opened: a function that opens a shard. Raises ModelFormatError.
    """
    folder, locations = path.parent, read_json(path).get("weight_map")
    if not isinstance(locations, dict) or not all(isinstance(shard, str) for shard in locations.values()):
        raise ModelFormatError(f"{path}: weight_map does not say which file each tensor is in; expected an object")
    shards = sorted(set(locations.values()))
    for shard in shards:
        if not _is_name(shard):
            raise ModelFormatError(f"{path}: weight_map names the file {shard!r}; expected one in the folder itself")
        if not (folder / shard).is_file():
            raise ModelFormatError(f"{folder / shard}: is missing; {path.name} names it")
    tensors: dict[str, ndarray] = {}
    files: dict[str, str] = {}
    for shard in shards:
        for name, tensor in opened(folder / shard).items():
            if name in tensors:
                raise ModelFormatError(f"{folder / shard}: has the tensor {name!r}, which is in {files[name]}, too")
            if locations.get(name) != shard:
                raise ModelFormatError(
                    f"{path}: weight_map says that {name!r} is in {locations.get(name)!r}, but it is in {shard!r}"
                )
            tensors[name], files[name] = tensor, str(folder / shard)
    if missing := sorted(locations.keys() - tensors.keys()):
        raise ModelFormatError(
            f"{folder / locations[missing[0]]}: lacks the tensor {missing[0]!r}, which {path.name} names"
        )
    return tensors, files
