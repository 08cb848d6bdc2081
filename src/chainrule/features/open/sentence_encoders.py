"""Sentence encoders: networks without an output, and how sentence-transformers makes one vector of what they read.

What its files ask for and is not supported is refused by name: other modules, other poolings.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.errors import ModelFormatError
from chainrule.features.open.architecture import weight_and_bias
from chainrule.features.open.network.config import OpenTextEncoderConfig
from chainrule.storage.hugging_face import MODULES, PROMPTS, READ_TEXTS, json_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chainrule.features.open.architecture import Architecture
    from chainrule.storage.hugging_face import Checkpoint

    Json = dict[str, Any]

_OUTPUT = "output."  # what the arrays of an output's layers are called
_POOLINGS = {
    "mean_tokens": "mean",
    "max_tokens": "max",
    "cls_token": "first",
    "lasttoken": "last",
    "mean_sqrt_len_tokens": "mean-sqrt",
    "weightedmean_tokens": "weighted-mean",
}
_OTHER_NAMES = {  # of pooling_mode, in newer files
    "mean": "mean",
    "max": "max",
    "cls": "first",
    "mean_sqrt_len": "mean-sqrt",
    "weightedmean": "weighted-mean",
}
_NO_MATTER = {"word_embedding_dimension", "embedding_dimension"}  # the width, which is the network's
_KNOWN = ("Transformer", "Pooling", "Dense", "Normalize")
_ACTIVATIONS = {"Identity": "identity", "Tanh": "tanh"}
_OF_DENSE = {"in_features", "out_features", "bias", "activation_function", "module_input_name", "module_output_name"}
_ONE_PLACE = (None, "sentence_embedding")


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
        modules = _modules(files[MODULES], f"{location}: {MODULES}")
        settings["unit_length"] = modules[-1][0] == "Normalize"
        pooling = _config_of(checkpoint, modules[1][1], "how vectors of tokens become one of a text")
        settings["text_pooling"] = _pooling(checkpoint, *pooling)
        settings |= _projection(checkpoint, dense_parts(files))
        reading = _reading(checkpoint)
        most = reading.get("max_seq_length") or most
    if not isinstance(most, int | float) or isinstance(most, bool) or most < 3:
        if most is not None:
            raise ModelFormatError(
                f"{location}: a text has at most {most!r} tokens (max_seq_length); expected 3 or more"
            )
        most = context
    return {**settings, "most_tokens": int(min(most, context))}


def dense_parts(files: Mapping[str, str | bytes]) -> list[str]:
    """Return the folders of the linear layers after the pooling. files: those of sentence-transformers, by path."""
    modules = json.loads(files[MODULES]) if MODULES in files else []
    return [module["path"] for module in modules if module["type"].rpartition(".")[2] == "Dense"]


def with_projection(architecture: Architecture, parts: Sequence[str]) -> Architecture:
    """Return an architecture of sentence encoders with the linear layers in these folders."""
    rows = [row for i, part in enumerate(parts) for row in weight_and_bias(f"output.layers.{i}", f"{part}/linear")]
    return replace(architecture, tensors=(*architecture.tensors, *rows))


def read_prompts(checkpoint: Checkpoint) -> Json:
    """Return the prompts of a sentence encoder by name, and the name of the one that stands before each text, for the
    model's record. Raises ModelFormatError.
    """
    if PROMPTS not in checkpoint.sentence_files:
        return {}
    location = f"{checkpoint.location}: {PROMPTS}"
    config = json_object(checkpoint.sentence_files[PROMPTS], location)
    prompts, name = config.get("prompts") or {}, config.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise ModelFormatError(f"{location}: prompts is {prompts!r:.80}; expected texts by name")
    if name is not None and name not in prompts:
        known = ", ".join(prompts) or "none"
        raise ModelFormatError(f"{location}: default_prompt_name is {name!r}; its prompts are {known}")
    return {**({"prompts": prompts} if prompts else {}), **({} if name is None else {"prompt_name": name})}


def _modules(content: bytes, location: str) -> list[tuple[str, str]]:
    """Return the kinds of modules in order, each with its folder. Raises ModelFormatError."""
    modules = [(module["type"].rpartition(".")[2], module["path"]) for module in json.loads(content)]
    kinds = [kind for kind, _ in modules]
    for kind in kinds:
        if kind not in _KNOWN:
            raise ModelFormatError(
                f"{location}: asks for {kind}, which is not supported; known are {', '.join(_KNOWN)}"
            )
    inner = kinds[2:-1] if kinds[-1:] == ["Normalize"] else kinds[2:]
    if kinds[:2] != ["Transformer", "Pooling"] or set(inner) - {"Dense"}:
        raise ModelFormatError(
            f"{location}: has the modules {', '.join(kinds)}; expected Transformer, Pooling, perhaps Dense, and "
            "perhaps Normalize at the end"
        )
    if modules[0][1]:
        raise ModelFormatError(
            f"{location}: the Transformer lies in {modules[0][1]!r}; expected the folder itself, as "
            "sentence-transformers writes it since version 2: open it there, and save it again"
        )
    return modules


def _config_of(checkpoint: Checkpoint, part: str, what: str) -> tuple[Json, str]:
    """Return the settings of a module, and where they are. Raises ModelFormatError."""
    name = f"{part}/config.json"
    if name not in checkpoint.sentence_files:
        raise ModelFormatError(f"{checkpoint.location}: {name} is missing, which says {what}")
    location = f"{checkpoint.location}: {name}"
    return json_object(checkpoint.sentence_files[name], location), location


def _pooling(checkpoint: Checkpoint, config: Json, location: str) -> str:
    """Return the pooling that a file names. Raises ModelFormatError."""
    config = {**config}
    if not config.pop("include_prompt", True) and read_prompts(checkpoint):
        raise ModelFormatError(
            f"{location}: include_prompt is false, which is not supported: prompts are part of what is pooled; take "
            f"the prompts out of {PROMPTS}"
        )
    named = config.pop("pooling_mode", None)
    asked = {name.removeprefix("pooling_mode_"): value for name, value in config.items() if name not in _NO_MATTER}
    if named is not None:
        asked[str(named)] = True
    modes = [name for name, value in asked.items() if value]
    known = {**_POOLINGS, **_OTHER_NAMES}
    if len(modes) != 1 or modes[0] not in known:
        raise ModelFormatError(
            f"{location}: pools by {' and '.join(modes) or 'nothing'}, which is not supported; expected one of "
            f"{', '.join(_POOLINGS)}"
        )
    return known[modes[0]]


def _projection(checkpoint: Checkpoint, parts: Sequence[str]) -> Json:
    """Return the settings of the linear layers after the pooling. Raises ModelFormatError."""
    widths, others = [], []
    for part in parts:
        config, location = _config_of(checkpoint, part, "how wide its vectors are")
        places = [config.get(name) for name in ("module_input_name", "module_output_name")]
        unknown = [name for name in config if name not in _OF_DENSE and config[name]]
        width, activation = config.get("out_features"), str(config.get("activation_function", "Tanh"))
        kind = _ACTIVATIONS.get(activation.rpartition(".")[2])
        if kind is None or unknown or any(place not in _ONE_PLACE for place in places):
            asked = activation if kind is None else unknown[0] if unknown else places
            raise ModelFormatError(
                f"{location}: asks for {asked}, which is not supported; expected a linear layer of the text's vector, "
                f"with {' or '.join(_ACTIVATIONS)}"
            )
        if not isinstance(width, int) or width < 1:
            raise ModelFormatError(f"{location}: out_features is {width!r}; expected a whole number of 1 or more")
        widths.append(width)
        others.append((kind, bool(config.get("bias", True))))
        if others[-1] != others[0]:
            raise ModelFormatError(f"{location}: differs from {parts[0]} in its activation or bias; expected the same")
    if not parts:
        return {}
    [(activation, biases)] = set(others)
    return {"projection_widths": tuple(widths), "projection_activation": activation, "projection_biases": biases}


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
