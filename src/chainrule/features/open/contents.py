"""What is in a Hugging Face folder or a GGUF file that cannot be opened: read as far as it can be, for people."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from chainrule.base.bfloat16 import BFLOAT16
from chainrule.base.memory import bytes_shown
from chainrule.errors import ChainruleError
from chainrule.features.open.gguf.file import is_gguf, read_header
from chainrule.features.open.gguf.reading import nearest_kind
from chainrule.features.open.identify import nearest_architecture
from chainrule.storage.config_json import CONFIG
from chainrule.storage.hugging_face import TOKENIZER, is_hugging_face, read_json, tensors_of_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Json = dict[str, Any]
    Rows = list[tuple[str, str]]

# What sizes are called in config.json, and in GGUF after the name of the architecture.
_SIZES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "block_count"),
    "width": ("hidden_size", "n_embd", "d_model", "dim", "embedding_length"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention.head_count"),
    "heads of keys": ("num_key_value_heads", "num_kv_heads", "attention.head_count_kv"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "expert_count"),
    "context": ("max_position_embeddings", "n_positions", "context_length", "seq_length"),
    "vocabulary": ("vocab_size",),
}
_MOST_SHOWN = 200  # characters of a value


def contents_of(path: Path) -> tuple[tuple[str, str], ...]:
    """Return names and values that describe a file or folder: its kind, sizes, tokenizer, tensors, and the architecture
    here that comes nearest.

    Nothing for what is neither a folder nor a file of others.
    """
    rows: Rows = []
    with suppress(OSError, ChainruleError, ValueError, TypeError, LookupError, AttributeError):
        if is_gguf(path):
            _describe_file(path, rows)
        elif is_hugging_face(path):
            _describe_folder(path, rows)
    return tuple((name, value if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]}...") for name, value in rows)


def _describe_folder(folder: Path, rows: Rows) -> None:
    config = read_json(folder / CONFIG)
    classes, kind = config.get("architectures"), config.get("model_type", "not said")
    named = f" ({', '.join(map(str, classes))})" if isinstance(classes, list) and classes else ""
    rows.append(("is", f"a Hugging Face folder, model_type {kind}{named}"))
    nested = config.get("text_config")
    rows += _sizes({**(nested if isinstance(nested, dict) else {}), **config})
    if isinstance(quantised := config.get("quantization_config"), dict):
        rows.append(("quantised by", str(quantised.get("quant_method"))))
    rows.append(("tokenizer", _tokenizer_in(folder)))
    tensors, _ = tensors_of_folder(folder)
    kinds = Counter("bfloat16" if array.dtype == BFLOAT16 else str(array.dtype) for array in tensors.values())
    numbers = sum(array.size for array in tensors.values())
    rows.append(("tensors", _counted(kinds, numbers, sum(array.nbytes for array in tensors.values()))))
    rows.append(("nearest", nearest_architecture(tensors, str(kind)) or "none: few tensors have a known name"))


def _tokenizer_in(folder: Path) -> str:
    """Return the kind and size of a tokenizer.json."""
    if not (folder / TOKENIZER).exists():
        return f"no {TOKENIZER}"
    with suppress(ChainruleError, LookupError, AttributeError, TypeError):
        model = read_json(folder / TOKENIZER)["model"]
        return f"{model.get('type', 'unnamed')} of {len(model.get('vocab', ())):,} tokens"
    return f"a {TOKENIZER} that cannot be read"


def _describe_file(path: Path, rows: Rows) -> None:
    header = read_header(path)
    name = str(header.metadata.get("general.architecture"))
    own = {key.removeprefix(f"{name}."): value for key, value in header.metadata.items()}
    title = header.metadata.get("general.name")
    called = f", called {json.dumps(title, ensure_ascii=False)}" if isinstance(title, str) else ""
    rows.append(("is", f"a GGUF file, architecture {name}{called}"))
    rows += _sizes(own)
    pieces, rule = own.get("tokenizer.ggml.tokens"), own.get("tokenizer.ggml.pre")
    if isinstance(pieces, list):
        by_rule = f", cut into words by the rule {rule}" if isinstance(rule, str) else ""
        rows.append(("tokenizer", f"{own.get('tokenizer.ggml.model')} of {len(pieces):,} tokens{by_rule}"))
    rows.append(("tensors", _counted(Counter(header.kinds), header.numbers, path.stat().st_size)))
    rows.append(("nearest", nearest_kind(header.names, name) or "none: few tensors have a known name"))


def _sizes(config: Mapping[str, Any]) -> Rows:
    found = ((name, next((config[own] for own in fields if own in config), None)) for name, fields in _SIZES.items())
    return [(name, f"{value:,}") for name, value in found if type(value) is int]


def _counted(kinds: Counter[str], numbers: int, size: int) -> str:
    """Return the numbers of tensors, numbers and bytes, in words. kinds: how many tensors of each type there are."""
    shown = ", ".join(f"{count:,} of {kind}" for kind, count in kinds.most_common())
    return f"{shown}: {numbers:,} numbers, {bytes_shown(size)}"
