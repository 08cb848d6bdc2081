"""Which files of a repository a model needs: settings, tokenizer and one set of weights. It knows names and sizes only.

Of several sets of weights, safetensors come before GGUF files, and both before pickles.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from typing import TYPE_CHECKING, NamedTuple

from chainrule.base.memory import bytes_shown
from chainrule.errors import ModelFormatError, SettingError
from chainrule.storage.config_json import CONFIG
from chainrule.storage.hugging_face import INDEX, MODULES, TENSORS, json_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ADAPTER_CONFIG, _ADAPTER = "adapter_config.json", "adapter_model.safetensors"
_PICKLE, _PICKLE_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
# Beside the weights; capitals as they are, since names of other files differ in them.
_SMALL: tuple[str, ...] = ("*config*.json", "tokenizer*", "*vocab*", "merges.txt", "*.spm", "*.model", "*tokens*.json")
_SMALL += ("*.jinja", "chat_template.json", MODULES)
_OUR_DATA = re.compile(r"(.+-[0-9a-f]{16}\.\w+|README\.md)")  # a folder of ours
_OF_SENTENCES = re.compile(r"\d+_\w+/(config\.json|model\.safetensors)")  # parts in a folder of sentence-transformers
_PART = re.compile(r"-\d{5}-of-\d{5}(?=\.gguf$)")
_GGUF = re.compile(r"(?!(?:.*/)?(?:mmproj|imatrix)).*\.gguf", re.IGNORECASE)
_SHOWN = 30  # files in a message


class Choice(NamedTuple):
    """The files to fetch. opened: the one that is opened; empty where it is the folder."""

    files: tuple[str, ...]
    opened: str = ""


def choose(
    name: str, sizes: Mapping[str, int], file: str, read: Callable[[str], bytes], *, allow_pickle: bool, is_whole: bool
) -> Choice:
    """Return the files that a model needs.

    name: the repository's, for messages. sizes: bytes of its files, by their paths. file: a path, a pattern, or a part
    of a name such as Q4_K_M; empty for the whole model. read: returns the bytes of a small file. is_whole: whether the
    weights are needed, too, not only what tells the kind of model. Raises ModelFormatError; SettingError where the file
    is not there, or is not the only one.
    """
    if file and file not in (TENSORS, INDEX):
        return _one_of(name, sizes, _matching(sizes, file), file)
    top = [path for path in sizes if "/" not in path]
    configs = tuple(path for path in (CONFIG, ADAPTER_CONFIG) if path in sizes)
    weights = _weights(name, sizes, read, allow_pickle=allow_pickle or not is_whole)
    if not weights:
        return _one_of(name, sizes, [path for path in sizes if _GGUF.fullmatch(path)], "")
    if not configs:
        raise ModelFormatError(f"{name}: has {weights[-1]}, and no {CONFIG}, which says what the weights are")
    if not is_whole:
        return Choice(configs)
    small = [path for path in top if any(fnmatch(path, pattern) for pattern in _SMALL) and path not in weights]
    parts = [path for path in sizes if _OF_SENTENCES.fullmatch(path)] if MODULES in sizes else []
    return Choice((*small, *parts, *weights))


def _weights(name: str, sizes: Mapping[str, int], read: Callable[[str], bytes], *, allow_pickle: bool) -> Sequence[str]:
    """Return the weights of a folder; none where the repository has no such folder. Raises ModelFormatError."""
    ours = [path for path in sizes if "/" not in path and _OUR_DATA.fullmatch(path)]
    has_gguf = any(_GGUF.fullmatch(path) for path in sizes)
    if any(path.startswith("arrays-") for path in ours):
        return ours
    for index, weights in ((INDEX, TENSORS), ("", _ADAPTER), (_PICKLE_INDEX, _PICKLE)):
        if weights == _PICKLE and has_gguf:
            return ()
        is_there = index in sizes or weights in sizes
        if is_there and weights == _PICKLE and not allow_pickle:
            raise ModelFormatError(
                f"{name}: its weights are pickles, which can run code when they are opened, so they were not fetched. "
                f"If you trust who made them, convert them with allow_pickle=True: chainrule convert {name} lm/ "
                "--allow-pickle"
            )
        if index in sizes:
            return (index, *_shards(name, index, sizes, read(index)))
        if weights in sizes:
            return (weights,)
    return ()


def _shards(name: str, index: str, sizes: Mapping[str, int], content: bytes) -> list[str]:
    """Return the files that an index names. Raises ModelFormatError where one is missing."""
    locations = json_object(content, f"{name}: {index}").get("weight_map")
    if not isinstance(locations, dict) or not all(isinstance(shard, str) for shard in locations.values()):
        raise ModelFormatError(f"{name}: {index}: weight_map does not say which file each tensor is in")
    shards = sorted(set(locations.values()))
    if missing := [shard for shard in shards if shard not in sizes]:
        raise ModelFormatError(
            f"{name}: {missing[0]} is missing, one of {len(shards)} files that {index} names; ask its authors for it"
        )
    return shards


def _matching(paths: Iterable[str], file: str) -> list[str]:
    """Return the files that are meant: the one of this path; or those that match a pattern; or GGUF files with this
    part in their names, in capitals or small letters.
    """
    paths = list(paths)
    if file in paths:
        return [file]
    if any(sign in file for sign in "*?["):
        return [path for path in paths if fnmatch(path, file) or fnmatch(path.rpartition("/")[2], file)]
    own = re.compile(rf"(?<![a-z0-9]){re.escape(file)}(?![a-z0-9])", re.IGNORECASE)
    named = [path for path in paths if _GGUF.fullmatch(path) and own.search(path)]
    ends = re.compile(rf"{re.escape(file)}\.gguf$", re.IGNORECASE)
    return [path for path in named if ends.search(_PART.sub("", path))] or named


def _one_of(name: str, sizes: Mapping[str, int], paths: Sequence[str], file: str) -> Choice:
    """Return the one file, or one file in parts, among some. Raises ModelFormatError, SettingError otherwise."""
    groups: dict[str, list[str]] = {}
    for path in sorted(paths):
        groups.setdefault(_PART.sub("", path), []).append(path)
    if len(groups) == 1:
        [parts] = groups.values()
        return Choice(tuple(parts), parts[0])
    if groups:
        shown = _shown({parts[0]: sum(sizes[part] for part in parts) for parts in groups.values()})
        raise SettingError(
            f"{name}: {len(groups)} files fit{f' {file}' if file else ''}; choose one, as in "
            f"{name}:{min(groups, key=len)}: {shown}"
        )
    there = f"it has {_shown(sizes)}" if sizes else "it is empty"
    if file:
        raise SettingError(f"{name}: has no file {file}; {there}")
    raise ModelFormatError(
        f"{name}: has no weights that open here: no {TENSORS}, no GGUF file; {there}. A file of another kind is named "
        f"after a colon, as in {name}:lm.arpa"
    )


def _shown(sizes: Mapping[str, int]) -> str:
    """Return files with their sizes, the largest first, for a message."""
    files = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{path} ({bytes_shown(size)})" for path, size in files[:_SHOWN])
    return shown + (f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else "")
