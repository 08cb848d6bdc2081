"""wav2vec 2.0, HuBERT and WavLM of transformers, with a head for CTC or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from chainrule.errors import ModelFormatError
from chainrule.features.open.architecture import ACTIVATIONS, Architecture, Rule, Setting
from chainrule.features.open.importing import TakenTensors, record_of
from chainrule.features.open.mapping import read_settings
from chainrule.features.open.sounds.processors import read_labels, read_sampling
from chainrule.features.speech.acoustic.config import AcousticConfig

if TYPE_CHECKING:
    from numpy import ndarray

    from chainrule.storage.hugging_face import Checkpoint

    Arrays = dict[str, ndarray]
    Json = dict[str, Any]

_ATTENTION, _POSITIONS = "attention", "encoder.pos_conv_embed"
_NORMALISED = (  # what the two factors of a weight are called, of older and newer files
    ("conv.weight_g", "conv.weight_v"),
    ("conv.parametrizations.weight.original0", "conv.parametrizations.weight.original1"),
)
# Of training, and of other heads.
_IGNORED_TENSORS = r"masked_spec_embed|quantizer\..*|project_(q|hid)\..*|final_proj\..*|label_embs_concat"
_HEADS = ("projector.", "classifier.", "layer_weights", "tdnn.", "feature_extractor.", "objective.")
_IGNORED = (
    *("layerdrop", "final_dropout", "feat_proj_dropout", "feat_extract_dropout", "feat_quantizer_dropout"),
    *(
        "hidden_dropout",
        "hidden_dropout_prob",
        "activation_dropout",
        "attention_dropout",
        "attention_probs_dropout_prob",
    ),
    *("apply_spec_augment", "ctc_loss_reduction", "ctc_zero_infinity", "use_weighted_layer_sum", "replace_prob"),
    *("classifier_proj_size", "tdnn_dim", "tdnn_kernel", "tdnn_dilation", "xvector_output_dim", "num_ctc_classes"),
    *("num_codevectors_per_group", "num_codevector_groups", "contrastive_logits_temperature", "num_negatives"),
    *("codevector_dim", "proj_codevector_dim", "diversity_loss_weight", "adapter_kernel_size", "adapter_stride"),
    *("num_adapter_layers", "output_hidden_size", "freeze_feat_extract_train", "feature_grad_mult", "layer_norm_first"),
    *("num_feat_extract_layers", "extractor_mode", "feat_extract_freeze", "conv_pos", "conv_pos_groups"),
)


def _read_convolutions(config: Json) -> Json:
    names = ("widths", "conv_dim", (512,) * 7), ("kernels", "conv_kernel", (10, 3, 3, 3, 3, 2, 2))
    both = (*names, ("strides", "conv_stride", (5, 2, 2, 2, 2, 2, 2)))
    return {f"convolution_{ours}": tuple(config.get(theirs, default)) for ours, theirs, default in both}


def _unwritten(config: Any) -> Json:
    raise NotImplementedError


_SETTINGS = (
    Rule(("conv_dim", "conv_kernel", "conv_stride"), _read_convolutions, _unwritten),
    Setting("conv_bias", "convolution_bias", False),
    Setting("feat_extract_norm", "convolution_norm", "group"),
    Setting("feat_extract_activation", "convolution_activation", "gelu", ACTIVATIONS),
    Setting("hidden_size", "width", 768),
    Setting("num_hidden_layers", "layers", 12),
    Setting("num_attention_heads", "heads", 12),
    Setting("intermediate_size", "feed_forward_width", 3072),
    Setting("hidden_act", "activation", "gelu", ACTIVATIONS),
    Setting("do_stable_layer_norm", "norm_place", False, {False: "post", True: "pre"}),
    Setting("layer_norm_eps", "norm_epsilon", 1e-5),
    Setting("num_conv_pos_embeddings", "position_kernel", 128),
    Setting("num_conv_pos_embedding_groups", "position_groups", 16),
)


def _architecture(model_type: str, class_name: str, *settings: Setting) -> Architecture:
    return Architecture(
        model_type=model_type,
        class_name=class_name,
        family="speech",
        config=cast("Any", AcousticConfig),  # no network of tokens
        implied={"encoder": model_type},
        settings=(*_SETTINGS, *settings),
        tensors=(),
        fixed={"add_adapter": False, "adapter_attn_dim": None},
        ignored=_IGNORED,
        prefix=f"{model_type}.",
    )


ACOUSTIC = {
    "wav2vec2": _architecture("wav2vec2", "Wav2Vec2ForCTC"),
    "hubert": _architecture(
        "hubert",
        "HubertForCTC",
        Setting("feat_proj_layer_norm", "input_norm", True),
        Setting("conv_pos_batch_norm", "position_shift", False),
    ),
    "wavlm": _architecture(
        "wavlm", "WavLMForCTC", Setting("num_buckets", "buckets", 320), Setting("max_bucket_distance", "longest", 800)
    ),
}


class ImportedAcoustic(NamedTuple):
    """The parts of a model that hears: its network's settings and arrays, and its record."""

    config: AcousticConfig
    arrays: Arrays
    record: Json


def import_acoustic(checkpoint: Checkpoint) -> ImportedAcoustic:
    """Return the parts of a model that hears. Raises ModelFormatError."""
    architecture = ACOUSTIC[checkpoint.config["model_type"]]
    fields = {name: value for name, value in checkpoint.config.items() if not name.startswith(("mask_", "no_mask_"))}
    config, ignored = read_settings(architecture, fields, checkpoint.location)
    assert isinstance(config, AcousticConfig)
    theirs = TakenTensors(checkpoint, _IGNORED_TENSORS, architecture.prefix)
    sampling, warnings = read_sampling(Path(checkpoint.location))
    arrays = _arrays(theirs, config)
    labels: tuple[str, ...] = ()
    if "lm_head.weight" in theirs:
        arrays["output.weight"], arrays["output.bias"] = theirs.take("lm_head.weight"), theirs.take("lm_head.bias")
        labels, more = read_labels(checkpoint, len(arrays["output.weight"]))
        warnings += more
    elif architecture.class_name in (checkpoint.config.get("architectures") or ()):
        raise ModelFormatError(
            f"{checkpoint.location}: lacks the tensor 'lm_head.weight', which a {architecture.class_name} has"
        )
    elif others := theirs.drop(_HEADS):
        warnings.append(
            f"{checkpoint.location}: has a head for something else than CTC, which is left out: {', '.join(others)}"
        )
    theirs.check_empty(f"a {architecture.class_name}")
    config = replace(config, labels=labels, **sampling)
    shapes = {name: array.shape for name, array in arrays.items()}
    return ImportedAcoustic(config, arrays, record_of(checkpoint, shapes, ignored, warnings, {}))


def _arrays(theirs: TakenTensors, config: AcousticConfig) -> Arrays:
    """Return the arrays of the network, but for its output. Raises ModelFormatError."""
    arrays: Arrays = {}
    for i in range(len(config.convolution_widths)):
        ours, layer = f"convolutions.{i}", f"feature_extractor.conv_layers.{i}"
        arrays[f"{ours}.convolution.weight"] = theirs.take(f"{layer}.conv.weight")
        if config.convolution_bias:
            arrays[f"{ours}.convolution.bias"] = theirs.take(f"{layer}.conv.bias")
        if config.convolution_norm == "layer" or i == 0:
            arrays |= _pair(theirs, f"{ours}.norm", f"{layer}.layer_norm")
    if config.input_norm:
        arrays |= _pair(theirs, "input_norm", "feature_projection.layer_norm")
    arrays |= _pair(theirs, "project", "feature_projection.projection")
    arrays |= _pair(theirs, "norm", "encoder.layer_norm")
    arrays |= _position_arrays(theirs, config)
    for i in range(config.layers):
        ours, layer = f"blocks.{i}", f"encoder.layers.{i}"
        for kind in ("weight", "bias"):
            three = [theirs.take(f"{layer}.attention.{name}_proj.{kind}") for name in "qkv"]
            arrays[f"{ours}.attention.query_key_value.{kind}"] = np.concatenate(three)
        for own, name in (
            ("attention.out", "attention.out_proj"),
            ("norms.0", "layer_norm"),
            ("norms.1", "final_layer_norm"),
            ("up", "feed_forward.intermediate_dense"),
            ("down", "feed_forward.output_dense"),
        ):
            arrays |= _pair(theirs, f"{ours}.{own}", f"{layer}.{name}")
        if config.buckets:
            arrays |= _pair(theirs, f"{ours}.attention.gates", f"{layer}.attention.gru_rel_pos_linear")
            arrays[f"{ours}.attention.gate_scale"] = theirs.take(f"{layer}.attention.gru_rel_pos_const").reshape(-1)
    if config.buckets:
        arrays["distances"] = theirs.take("encoder.layers.0.attention.rel_attn_embed.weight")
    return arrays


def _pair(theirs: TakenTensors, ours: str, name: str) -> Arrays:
    return {f"{ours}.{kind}": theirs.take(f"{name}.{kind}") for kind in ("weight", "bias")}


def _position_arrays(theirs: TakenTensors, config: AcousticConfig) -> Arrays:
    """Return the arrays of the convolution for positions; a weight that files have as length and direction is put
    together. Raises ModelFormatError.
    """
    own = f"{_POSITIONS}.conv.weight"
    arrays = {"positions.convolution.bias": theirs.take(f"{_POSITIONS}.conv.bias")}
    for length, direction in _NORMALISED:
        if f"{_POSITIONS}.{length}" in theirs:
            lengths, directions = (
                theirs.take(f"{_POSITIONS}.{name}").astype(np.float64) for name in (length, direction)
            )
            size = np.sqrt((directions**2).sum((0, 1), keepdims=True))
            arrays["positions.convolution.weight"] = (lengths * directions / size).astype(np.float32)
            break
    else:
        arrays["positions.convolution.weight"] = theirs.take(own)
    if config.position_shift:
        norm = f"{_POSITIONS}.batch_norm"
        gain, shift, mean, variance = (
            theirs.take(f"{norm}.{name}").astype(np.float64)
            for name in ("weight", "bias", "running_mean", "running_var")
        )
        theirs.drop((f"{norm}.num_batches_tracked",))
        scale = gain / np.sqrt(variance + 1e-5)
        arrays["positions.scale"] = scale.astype(np.float32)
        arrays["positions.shift"] = (shift - mean * scale).astype(np.float32)
    return arrays
