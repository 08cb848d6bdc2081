"""Sentence encoders: networks without an output, and how sentence-transformers makes one vector of what they read.

What its files ask for and is not supported is refused by name: other modules, other poolings, prompts.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.errors import ModelFormatError
from chainrule.features.open.network.config import OpenTextEncoderConfig
from chainrule.storage.hugging_face import MODULES, PROMPTS, READ_TEXTS, json_object

if TYPE_CHECKING:
    from chainrule.features.open.architecture import Architecture
    from chainrule.storage.hugging_face import Checkpoint

    Json = dict[str, Any]

_OUTPUT = "output."  # what the arrays of an output's layers are called
_POOLINGS = {"mean_tokens": "mean", "max_tokens": "max", "cls_token": "first"}
_OTHER_NAMES = {"mean": "mean", "max": "max", "cls": "first"}  # of pooling_mode, in newer files
# Fields that change no vector: what a prompt would do, which there is none of; the width, which is the network's.
_NO_MATTER = {"word_embedding_dimension", "embedding_dimension", "include_prompt"}
_MODULES = ("Transformer", "Pooling", "Normalize")


def without_output(architecture: Architecture) -> Architecture:
    """Return an architecture of masked models as one of networks that predict nothing; they name tensors without a
    prefix.
    """
    rows = [row for row in architecture.tensors if row.ours.startswith(_OUTPUT)]
    own = [name for row in rows for name in row.names(0)]
    own += [other for name in own for other in architecture.aliases.get(name, ())]
    names = (re.escape(name.removeprefix(architecture.prefix)) for name in own)
    outputs = tuple(f"({re.escape(architecture.prefix)})?{name}" for name in names)
    implied = {name: value for name, value in architecture.implied.items() if not name.startswith("output_")}
    return replace(
        architecture,
        class_name=architecture.class_name.replace("ForMaskedLM", "Model"),
        family="text-encoder",
        config=OpenTextEncoderConfig,
        implied=implied,
        tensors=tuple(row for row in architecture.tensors if row not in rows),
        ignored_tensors=(*architecture.ignored_tensors, *outputs),
        writes_prefix=False,
    )


def output_tensors(architecture: Architecture) -> set[str]:
    """Return the names that others have for the tensors of an output alone."""
    rows = [row for row in architecture.tensors if row.ours.startswith(_OUTPUT) and row.ours != "output.weight"]
    return {name for row in rows for name in row.names(0)}


def read_pooling(checkpoint: Checkpoint, context: int) -> Json:
    """Return the settings of a TextEncoderConfig that a folder's files hold; without such files, as
    sentence-transformers reads a folder of transformers: the mean of all that is read.

    context: the most tokens that the network reads. Raises ModelFormatError where they ask for what is not supported.
    """
    files, location = checkpoint.sentence_files, checkpoint.location
    most = checkpoint.tokenizer_config.get("model_max_length")
    settings: Json = {"text_pooling": "mean", "unit_length": False}
    if MODULES in files:
        kinds = _kinds(files[MODULES], f"{location}: {MODULES}")
        settings["unit_length"] = "Normalize" in kinds
        name = f"{kinds['Pooling']}/config.json"
        if name not in files:
            raise ModelFormatError(
                f"{location}: {name} is missing, which says how vectors of tokens become one of a text"
            )
        settings["text_pooling"] = _pooling(json_object(files[name], f"{location}: {name}"), f"{location}: {name}")
        _check_prompts(checkpoint)
        reading = _reading(checkpoint)
        most = reading.get("max_seq_length") or most
    if not isinstance(most, int | float) or isinstance(most, bool) or most < 3:
        if most is not None:
            raise ModelFormatError(
                f"{location}: a text has at most {most!r} tokens (max_seq_length); expected 3 or more"
            )
        most = context
    return {**settings, "most_tokens": int(min(most, context))}


def _kinds(content: bytes, location: str) -> dict[str, str]:
    """Return the modules, each with its folder. Raises ModelFormatError."""
    kinds: dict[str, str] = {}
    for module in json.loads(content):
        kind = module["type"].rpartition(".")[2]
        if kind not in _MODULES:
            raise ModelFormatError(
                f"{location}: asks for {kind}, which is not supported; known are {', '.join(_MODULES)}"
            )
        if kind in kinds:
            raise ModelFormatError(f"{location}: asks for {kind} twice")
        kinds[kind] = module["path"]
    if tuple(kinds) not in (_MODULES, _MODULES[:2]):
        raise ModelFormatError(
            f"{location}: has the modules {', '.join(kinds)}; expected {', '.join(_MODULES[:2])} and perhaps "
            f"{_MODULES[2]}"
        )
    if kinds["Transformer"]:
        raise ModelFormatError(
            f"{location}: the Transformer lies in {kinds['Transformer']!r}; expected the folder itself, as "
            "sentence-transformers writes it since version 2: open it there, and save it again"
        )
    return kinds


def _pooling(config: Json, location: str) -> str:
    """Return the pooling that a file names. Raises ModelFormatError."""
    named = config.get("pooling_mode")
    asked = {name.removeprefix("pooling_mode_"): value for name, value in config.items() if name not in _NO_MATTER}
    if named is not None:
        asked = {**{name: value for name, value in asked.items() if name != "pooling_mode"}, str(named): True}
    modes = [name for name, value in asked.items() if value]
    known = {**_POOLINGS, **_OTHER_NAMES}
    if len(modes) != 1 or modes[0] not in known:
        raise ModelFormatError(
            f"{location}: pools by {' and '.join(modes) or 'nothing'}, which is not supported; expected one of "
            f"{', '.join(_POOLINGS)}"
        )
    return known[modes[0]]


def _check_prompts(checkpoint: Checkpoint) -> None:
    if PROMPTS in checkpoint.sentence_files:
        config = json_object(checkpoint.sentence_files[PROMPTS], f"{checkpoint.location}: {PROMPTS}")
        if (name := config.get("default_prompt_name")) is not None:
            raise ModelFormatError(
                f"{checkpoint.location}: {PROMPTS}: default_prompt_name is {name!r}, a text to put before each text, "
                "which is not supported; take it out, and put it before your texts"
            )


def _reading(checkpoint: Checkpoint) -> Json:
    """Return the settings in sentence_bert_config.json. Raises ModelFormatError."""
    if READ_TEXTS not in checkpoint.sentence_files:
        return {}
    reading = json_object(checkpoint.sentence_files[READ_TEXTS], f"{checkpoint.location}: {READ_TEXTS}")
    if reading.get("do_lower_case") and not _lowers(json.loads(checkpoint.tokenizer or b"{}").get("normalizer")):
        raise ModelFormatError(
            f"{checkpoint.location}: {READ_TEXTS}: do_lower_case is true, but its tokenizer.json keeps capitals; add "
            "Lowercase to its normalizer"
        )
    return reading


def _lowers(normalizer: Json | None) -> bool:
    match normalizer:
        case {"type": "Lowercase"} | {"type": "BertNormalizer", "lowercase": True}:
            return True
        case {"type": "Sequence", "normalizers": list(parts)}:
            return any(map(_lowers, parts))
    return False
