"""Captioners that others trained: a ViT that GPT-2 attends to, vision-encoder-decoder in transformers (ViT-GPT2).

The decoder attends to the vectors of all patches, and to the one before them that stands for none of them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.classify.network.config import labelling_settings
from chainrule.features.open.architecture import ACTIVATIONS
from chainrule.features.open.importing import TakenTensors, open_sides, record_of
from chainrule.features.open.tokens.vocabulary import rows_by_ours
from chainrule.features.seq2seq.network.config import CaptionConfig
from chainrule.features.vision.network.config import ViTLabelling
from chainrule.neural.config import settings_of
from chainrule.storage.config_json import CONFIG
from chainrule.storage.hugging_face import read_json

if TYPE_CHECKING:
    from numpy import ndarray

    from chainrule.neural.config.transformer import FeedForward
    from chainrule.storage.hugging_face import Checkpoint
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Arrays = dict[str, ndarray]
    Json = dict[str, Any]

PREPROCESSOR = "preprocessor_config.json"
_PICTURES, _PATCHES = "source_embedding.body.layers.", "encoder.embeddings."
# No weights that are read: the pooler of a ViT, and the causal masks that old files keep.
_IGNORED = r"encoder\.pooler\..*|decoder\.transformer\.h\.\d+\.(attn|crossattention)\.(bias|masked_bias)"
# Values that settings must have, which are also their defaults.
_FIXED_ENCODER = {"model_type": "vit", "hidden_act": "gelu", "layer_norm_eps": 1e-12, "qkv_bias": True}
_FIXED_DECODER = {
    "model_type": "gpt2",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "cross_attention_hidden_size": None,
    "add_cross_attention": True,
}


class ImportedCaptioner(NamedTuple):
    """The parts of a captioner. settings, encoder: those of the network and of the encoder of pictures."""

    settings: Json
    encoder: Json
    arrays: Arrays
    tokenizer: Tokenizer
    record: Json


def import_captioner(checkpoint: Checkpoint) -> ImportedCaptioner:
    """Return the parts of a captioner. Raises ModelFormatError, SettingError."""
    location = f"{checkpoint.location}: {CONFIG}"
    encoder, decoder = (checkpoint.config.get(side) for side in ("encoder", "decoder"))
    if not isinstance(encoder, dict) or not isinstance(decoder, dict):
        raise ModelFormatError(f"{location}: lacks encoder or decoder; expected the settings of a ViT and of GPT-2")
    for side, own, fixed in (("encoder", encoder, _FIXED_ENCODER), ("decoder", decoder, _FIXED_DECODER)):
        for name, value in fixed.items():
            if (found := own.get(name, value)) != value:
                raise ModelFormatError(f"{location}: {name} of the {side} is {found!r}; expected {value!r}")
    try:
        pictures = _vit(encoder, _preprocessing(Path(checkpoint.location)))
        config = _gpt2(decoder, pictures)
    except (KeyError, TypeError, ValueError, SettingError) as error:
        raise ModelFormatError(f"{location}: {error}; expected the settings of a ViT and of GPT-2") from error
    theirs = TakenTensors(checkpoint, _IGNORED)
    words = theirs.take("decoder.transformer.wte.weight")
    # Text models say at the top what these two say of their decoder.
    markers = {name: decoder.get(name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    top = {**markers, "decoder_start_token_id": decoder.get("bos_token_id")}
    top |= {name: value for name, value in checkpoint.config.items() if value is not None}
    sides = open_sides(checkpoint._replace(config=top), len(words), len(words))
    numbering = sides.target_numbering
    config = replace(config, **numbering.settings())
    arrays = {**_picture_arrays(theirs, pictures), **_text_arrays(theirs, config)}
    output = theirs.take("decoder.lm_head.weight") if "decoder.lm_head.weight" in theirs else words
    if not np.array_equal(output, words):
        raise ModelFormatError(
            f"{location}: decoder.lm_head.weight is not decoder.transformer.wte.weight; expected one matrix"
        )
    arrays["output.weight"] = rows_by_ours(words, numbering)  # that of the tokens, too
    theirs.check_empty("a ViT with GPT-2")
    record = record_of(
        checkpoint,
        {name: array.shape for name, array in arrays.items()},
        [],
        sides.warnings,
        {"tokens": numbering._asdict()},
    )
    return ImportedCaptioner(settings_of(config), labelling_settings(pictures), arrays, sides.target, record)


def _preprocessing(folder: Path) -> Json:
    """Return the settings of the preprocessing; empty if there is no such file. Raises ModelFormatError."""
    path = folder / PREPROCESSOR
    return read_json(path) if path.exists() else {}


def _vit(config: Json, preprocessing: Json) -> ViTLabelling:
    """Return the settings of the encoder. Raises KeyError, ValueError, SettingError."""
    if config["intermediate_size"] != 4 * config["hidden_size"]:
        raise ValueError(f"intermediate_size is {config['intermediate_size']}, not four times hidden_size")
    size = preprocessing.get("size", config["image_size"])
    sides = (size["height"], size["width"]) if isinstance(size, dict) else (size, size)
    if sides != (config["image_size"], config["image_size"]):
        raise ValueError(f"{PREPROCESSOR} has the size {size}, but image_size is {config['image_size']}")
    # rescale_factor is 1 / 255
    means, deviations = (preprocessing.get(name, [0.5] * 3) for name in ("image_mean", "image_std"))
    return ViTLabelling(
        size=(config["image_size"],),
        fit="stretch",
        pixel_means=tuple(255.0 * mean for mean in means),
        pixel_deviations=tuple(255.0 * deviation for deviation in deviations),
        patch=config["patch_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        width=config["hidden_size"],
        style="published",
    )


def _gpt2(config: Json, pictures: ViTLabelling) -> CaptionConfig:
    """Return the settings of the decoder. Raises KeyError, SettingError."""
    assert pictures.patches is not None
    rows, columns = pictures.patches
    return CaptionConfig(
        encoder="none",
        decoder="transformer",
        decoder_layers=config["n_layer"],
        width=config["n_embd"],
        heads=config["n_head"],
        feed_forward_width=config.get("n_inner"),
        feed_forward=cast("FeedForward", ACTIVATIONS[config.get("activation_function", "gelu_new")]),
        norm_epsilon=config.get("layer_norm_epsilon", 1e-5),
        style="vaswani",
        norm_place="pre",
        positions="none",
        learned_positions=config["n_positions"],
        scaled_embedding=False,
        output_bias=False,
        shared="target",
        source_width=pictures.width,
        source_grid=(1, 1 + rows * columns),
        max_source=1 + rows * columns,
        source_norm=False,
        placed=False,
    )


def _picture_arrays(theirs: TakenTensors, config: ViTLabelling) -> Arrays:
    """Return the arrays of the picture encoder. Raises ModelFormatError."""
    assert config.patches is not None
    places = theirs.take(_PATCHES + "position_embeddings")  # (1, 1 + patches, D): the vector that stands first, too
    if places.shape != (1, 1 + config.patches[0] * config.patches[1], config.width):
        raise ModelFormatError(
            f"{_PATCHES}position_embeddings has the shape {list(places.shape)}; {CONFIG} asks for another"
        )
    ours = f"{_PICTURES}blocks.blocks."
    arrays = {
        f"{_PICTURES}blocks.first": theirs.take(_PATCHES + "cls_token")[0, 0] + places[0, 0],
        f"{_PICTURES}patches.places": places[0, 1:].T.reshape(config.width, *config.patches),
    }
    for kind in ("weight", "bias"):
        arrays[f"{_PICTURES}patches.project.{kind}"] = theirs.take(f"{_PATCHES}patch_embeddings.projection.{kind}")
        arrays[f"{ours}norm.{kind}"] = theirs.take(f"encoder.layernorm.{kind}")
        for layer in range(config.layers):
            block, own = f"encoder.encoder.layer.{layer}.", f"{ours}blocks.{layer}."
            three = [theirs.take(f"{block}attention.attention.{name}.{kind}") for name in ("query", "key", "value")]
            arrays[f"{own}attention.query_key_value.{kind}"] = np.concatenate(three)
            arrays[f"{own}attention.out.{kind}"] = theirs.take(f"{block}attention.output.dense.{kind}")
            arrays[f"{own}norms.0.{kind}"] = theirs.take(f"{block}layernorm_before.{kind}")
            arrays[f"{own}norms.1.{kind}"] = theirs.take(f"{block}layernorm_after.{kind}")
            arrays[f"{own}feed_forward.up.{kind}"] = theirs.take(f"{block}intermediate.dense.{kind}")
            arrays[f"{own}feed_forward.down.{kind}"] = theirs.take(f"{block}output.dense.{kind}")
    return arrays


def _text_arrays(theirs: TakenTensors, config: CaptionConfig) -> Arrays:
    """Return the arrays of the decoder; the matrices of GPT-2 are transposed. Raises ModelFormatError."""
    arrays = {"decoder.places.weight": theirs.take("decoder.transformer.wpe.weight")}
    for kind in ("weight", "bias"):
        arrays[f"decoder.norm.{kind}"] = theirs.take(f"decoder.transformer.ln_f.{kind}")
        for layer in range(config.decoder_layers):
            block, own = f"decoder.transformer.h.{layer}.", f"decoder.blocks.{layer}."
            for ours, name in (
                ("attention.query_key_value", "attn.c_attn"),
                ("attention.out", "attn.c_proj"),
                ("look.query", "crossattention.q_attn"),
                ("look.key_value", "crossattention.c_attn"),
                ("look.out", "crossattention.c_proj"),
                ("feed_forward.up", "mlp.c_fc"),
                ("feed_forward.down", "mlp.c_proj"),
            ):
                arrays[f"{own}{ours}.{kind}"] = np.ascontiguousarray(theirs.take(f"{block}{name}.{kind}").T)
            for i, name in enumerate(("ln_1", "ln_cross_attn", "ln_2")):
                arrays[f"{own}norms.{i}.{kind}"] = theirs.take(f"{block}{name}.{kind}")
    project, bias = (f"enc_to_dec_proj.{kind}" for kind in ("weight", "bias"))
    has_project = project in theirs
    arrays["source_embedding.project.weight"] = (
        theirs.take(project) if has_project else np.eye(config.width, dtype=np.float32)
    )
    arrays["source_embedding.project.bias"] = theirs.take(bias) if has_project else np.zeros(config.width, np.float32)
    return arrays
