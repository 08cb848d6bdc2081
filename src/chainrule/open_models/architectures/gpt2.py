"""GPT-2 (Radford et al. 2019), and DistilGPT-2."""

from __future__ import annotations

from chainrule.neural.config import TransformerConfig
from chainrule.open_models.architecture import ACTIVATIONS, TRANSPOSED, Architecture, Setting, Tensor

_BLOCK = "encoder.blocks.{layer}."

GPT2 = Architecture(
    model_type="gpt2",
    class_name="GPT2LMHeadModel",
    family="transformer",
    config=TransformerConfig,
    implied={
        "norm": "layer",
        "norm_gain": True,
        "embedding_norm": False,
        "positions": "learned",
        "query_key_norm": False,
        "biases": True,
    },
    settings=(
        Setting("n_layer", "layers"),
        Setting("n_embd", "width"),
        Setting("n_head", "heads"),
        Setting("n_positions", "context"),
        Setting("n_inner", "feed_forward_width", None),
        Setting("layer_norm_epsilon", "norm_epsilon", 1e-5),
        Setting("activation_function", "feed_forward", "gelu_new", ACTIVATIONS),
        Setting("tie_word_embeddings", "tied", True),
    ),
    tensors=(
        Tensor("embedding.weight", "transformer.wte.weight", by_token=True),
        Tensor("encoder.places.vectors", "transformer.wpe.weight"),
        Tensor(_BLOCK + "norms.0.weight", "transformer.h.{layer}.ln_1.weight"),
        Tensor(_BLOCK + "norms.0.bias", "transformer.h.{layer}.ln_1.bias"),
        Tensor(_BLOCK + "attention.query_key_value.weight", "transformer.h.{layer}.attn.c_attn.weight", TRANSPOSED),
        Tensor(_BLOCK + "attention.query_key_value.bias", "transformer.h.{layer}.attn.c_attn.bias"),
        Tensor(_BLOCK + "attention.out.weight", "transformer.h.{layer}.attn.c_proj.weight", TRANSPOSED),
        Tensor(_BLOCK + "attention.out.bias", "transformer.h.{layer}.attn.c_proj.bias"),
        Tensor(_BLOCK + "norms.1.weight", "transformer.h.{layer}.ln_2.weight"),
        Tensor(_BLOCK + "norms.1.bias", "transformer.h.{layer}.ln_2.bias"),
        Tensor(_BLOCK + "feed_forward.up.weight", "transformer.h.{layer}.mlp.c_fc.weight", TRANSPOSED),
        Tensor(_BLOCK + "feed_forward.up.bias", "transformer.h.{layer}.mlp.c_fc.bias"),
        Tensor(_BLOCK + "feed_forward.down.weight", "transformer.h.{layer}.mlp.c_proj.weight", TRANSPOSED),
        Tensor(_BLOCK + "feed_forward.down.bias", "transformer.h.{layer}.mlp.c_proj.bias"),
        Tensor("encoder.norm.weight", "transformer.ln_f.weight"),
        Tensor("encoder.norm.bias", "transformer.ln_f.bias"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    fixed={
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
    },
    ignored=(
        *("n_ctx", "attn_pdrop", "embd_pdrop", "resid_pdrop"),
        *("summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"),
    ),
    ignored_tensors=(r"transformer\.h\.\d+\.attn\.(masked_)?bias",),  # the causal mask, in old files
    prefix="transformer.",
)
