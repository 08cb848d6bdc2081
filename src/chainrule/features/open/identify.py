"""Which architecture a checkpoint of others has, or which comes nearest."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from chainrule.errors import ModelFormatError
from chainrule.features.open.architectures import ARCHITECTURES
from chainrule.features.open.architectures.encoders.bert import BERT, BERT_WITH_PAIRS
from chainrule.features.open.architectures.encoders.bert_kin import DEBERTA_V2, DEBERTA_V2_LM, has_own_head
from chainrule.features.open.mapping import Tensors
from chainrule.features.open.sentence_encoders import dense_parts, output_tensors, with_projection, without_output
from chainrule.storage.config_json import CONFIG
from chainrule.storage.hugging_face import MODULES, line_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chainrule.features.open.architecture import Architecture
    from chainrule.storage.hugging_face import Checkpoint

    Json = dict[str, Any]

_SIMILAR = 0.6  # names of kinds
# What the tensors of a text model are called in one that also reads pictures or sounds, and by itself.
_PARTS = (("model.language_model.", "model."), ("language_model.", ""), ("lm_head.", "lm_head."))


def text_part(checkpoint: Checkpoint) -> tuple[Checkpoint, list[str]]:
    """Return the text model of one that also reads pictures or sounds, with a warning; any other checkpoint
    unchanged.
    """
    config, nested = checkpoint.config, checkpoint.config.get("text_config")
    if not isinstance(nested, dict) or config.get("model_type") in ARCHITECTURES:
        return checkpoint, []
    if nested.get("model_type") not in ARCHITECTURES:
        return checkpoint, []
    names: dict[str, str] = {}
    for name in checkpoint.tensors:
        part = next((part for part in _PARTS if name.startswith(part[0])), None)
        if part is not None:
            names[part[1] + name.removeprefix(part[0])] = name
    outer = {name: value for name, value in config.items() if name.endswith("_token_id") or name.startswith("tie_")}
    own = {name: value for name, value in nested.items() if value is not None}
    others = len(checkpoint.tensors) - len(names)
    part_of = checkpoint._replace(
        config={**outer, **own},
        tensors={name: checkpoint.tensors[theirs] for name, theirs in names.items()},
        files={name: checkpoint.files[theirs] for name, theirs in names.items() if theirs in checkpoint.files},
    )
    return part_of, [
        f"{checkpoint.location}: of a {config.get('model_type')}, only what reads and writes texts was opened; its "
        f"{others} other tensors are left out"
    ]


def architecture_of(checkpoint: Checkpoint) -> Architecture:
    """Return the architecture of a checkpoint. Raises ModelFormatError."""
    architecture = _named_architecture(checkpoint)
    if not architecture.is_bidirectional:
        if checkpoint.sentence_files:
            masked = ", ".join(each.model_type for each in ARCHITECTURES.values() if each.is_bidirectional)
            raise ModelFormatError(
                f"{checkpoint.location}: {MODULES} makes a sentence encoder of a {architecture.model_type}; here there "
                f"are those of {masked}"
            )
        return architecture
    classes = checkpoint.config.get("architectures") or []
    if not isinstance(classes, list):
        raise ModelFormatError(
            f"{checkpoint.location}: {CONFIG}: architectures is {classes!r:.80}; expected a list of names of classes"
        )
    if architecture is BERT and BERT_WITH_PAIRS.class_name in classes and not checkpoint.sentence_files:
        return BERT_WITH_PAIRS
    if architecture is DEBERTA_V2 and has_own_head(checkpoint.config, checkpoint.tensors):
        architecture = DEBERTA_V2_LM
    has_output = architecture.class_name in classes or bool(
        output_tensors(architecture) & Tensors(architecture, checkpoint).names.keys()
    )
    if has_output and not checkpoint.sentence_files:
        return architecture
    return with_projection(without_output(architecture), dense_parts(checkpoint.sentence_files))


def _named_architecture(checkpoint: Checkpoint) -> Architecture:
    """Return the architecture that config.json names. Raises ModelFormatError."""
    name, known = checkpoint.config.get("model_type"), ", ".join(ARCHITECTURES)
    if name is None:
        raise ModelFormatError(
            f"{checkpoint.location}: {CONFIG}: lacks model_type, as old ones do; write into it which of these it is: "
            f"{known}"
        )
    if not isinstance(name, str) or name not in ARCHITECTURES:
        line = line_of(checkpoint.location, CONFIG, "model_type")
        nearest = nearest_architecture(checkpoint.tensors, str(name))
        raise ModelFormatError(
            f"{checkpoint.location}: {CONFIG}: model_type is {name!r}, which is not supported{line}; "
            f"{f'the nearest is {nearest}' if nearest else f'what opens here is one of {known}'}"
        )
    return ARCHITECTURES[name]


def nearest_architecture(tensors: Iterable[str], name: str) -> str:
    """Return the architecture with the most tensors of the same names, for a message; among equals, with a similar
    name.

    Nothing where no one has half of the names, unless its name is similar. tensors: names in a checkpoint. name: its
    model_type.
    """
    names = {
        kind: {theirs for row in architecture.tensors for theirs in row.names(0)}
        for kind, architecture in ARCHITECTURES.items()
    }
    return nearest_of(names, {re.sub(r"\b\d+\b", "0", tensor) for tensor in tensors}, name)


def nearest_of(kinds: Mapping[str, set[str]], own: set[str], name: str) -> str:
    """Return the name that `nearest_architecture` gives, from names of tensors in the first layer.

    kinds: those of each architecture.
    """
    shared = {kind: own & names for kind, names in kinds.items()}
    likeness = {kind: SequenceMatcher(None, kind, name).ratio() for kind in kinds}
    similar = {kind: ratio if ratio >= _SIMILAR else 0.0 for kind, ratio in likeness.items()}
    nearest = max(shared, key=lambda kind: (len(shared[kind]), similar[kind]))
    if not shared[nearest] or (2 * len(shared[nearest]) < len(own) and not similar[nearest]):
        return ""
    other = sorted(own - shared[nearest])
    found = f"{nearest}, which has {len(shared[nearest])} of its {len(own)} kinds of tensors"
    return f"{found}, but not {other[0]!r}" if other else found
