"""What is known of an architecture of GGUF files, and the names of tensors that most have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chainrule.features.open.gguf.changes import Change, Join, More

# GGUF's names of tensors -> Hugging Face's; those of a block follow blk.0. and so on; .weight or .bias follows them.
TENSORS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class Kind(NamedTuple):
    """An architecture in GGUF. names: of tensors of a block that differ from LLaMA's. top: of other tensors, likewise.

    Names of an encoder's blocks begin with enc., of a decoder's with dec.; Hugging Face's then have their {layer}.
    A name may have its ending, .weight or .bias; then Hugging Face's has none. One that ends with #0, #1 and so on is a
    part of a tensor, and `joins` has a function that makes it of these parts.
    layers: what Hugging Face's names of a block begin with. is_paired: whether the rows of q and k are reordered.
    counts_one: whether gains have 1 added. fields: of config.json that have another name than usual; None for those
    that do not matter. changes: of tensors, by GGUF's names. more: a function that completes a config.json. reads:
    a text; one framed by a token on either side; or a source, which a token ends.
    """

    model_type: str
    names: Mapping[str, str] = {}  # nobody writes to it
    top: Mapping[str, str] = {}
    layers: str = "model.layers.{layer}."
    is_paired: bool = False
    counts_one: bool = False
    fields: Mapping[str, str | None] = {}
    changes: Mapping[str, Change] = {}
    joins: Mapping[str, Join] = {}
    more: More = lambda config, tensors: {}
    reads: Literal["text", "framed", "source"] = "text"
