"""config.json read as settings of ours, and written from them, by an architecture's table.

What a config.json asks for and is not supported is refused by name; nothing is passed over but what a table says
changes no number.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from chainrule.errors import ModelFormatError, SettingError
from chainrule.neural.config import TransformerConfig
from chainrule.open_models.architecture import REQUIRED, Rule, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.config.seq2seq import ConditionalConfig
    from chainrule.open_models.architecture import Architecture

    Json = dict[str, Any]

# Fields of any model that change no number that a network gives.
_IGNORED = {
    *("architectures", "model_type", "vocab_size", "torch_dtype", "dtype", "transformers_version", "_name_or_path"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "sep_token_id", "use_cache"),
    *("initializer_range", "task_specific_params", "id2label", "label2id", "problem_type", "finetuning_task"),
    *("output_attentions", "output_hidden_states", "return_dict", "use_return_dict", "torchscript", "use_bfloat16"),
    *("tf_legacy_loss", "tokenizer_class", "prefix", "gradient_checkpointing", "attn_implementation"),
    *("_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal", "unsloth_fixed"),
    *("_model_name_or_path", "unk_token_id"),  # written by transformers' reader of GGUF
    *("chunk_size_feed_forward", "unsloth_version", "is_llama_config", "transformers.js_config", "mlx"),
    *("output_past", "num_labels", "xla_device"),  # of transformers 2 and 3
    # What older files say of how texts are generated:
    *("max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty"),
    *("temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size"),
    *("encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores", "suppress_tokens"),
    *("return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values"),
    *("exponential_decay_length_penalty", "begin_suppress_tokens"),
}
_FIXED: dict[str, Any] = {
    "is_encoder_decoder": False,
    "add_cross_attention": False,
    "cross_attention_hidden_size": None,
}
_FIXED |= {"pruned_heads": {}, "is_decoder": False, "tie_encoder_decoder": False}
# Settings of ours that change nothing in a network that has been trained, or that the vocabulary decides on.
_NO_MATTER = {
    *("memory", "begins_with", "ends", "banned", "initialisation", "zero_projections", "cutoffs", "noise_samples"),
    *("noise_power", "dropout", "attention_dropout", "embedding_dropout", "masks", "masked_share", "random_share"),
    *("kept_share", "closed_by", "text_pooling", "unit_length", "most_tokens"),
}


def read_settings(
    architecture: Architecture, config: Json, location: str
) -> tuple[NetworkConfig | ConditionalConfig, list[str]]:
    """The settings of our network, and the fields that were ignored. location: the file, for messages.

    Raises ModelFormatError where a field is missing, or asks for what is not supported.
    """
    settings: Json = {**architecture.implied}
    known: set[str] = set()
    for row in architecture.settings:
        names = (row.theirs,) if isinstance(row, Setting) else row.fields
        known |= set(names)
        try:
            settings |= _setting(row, config) if isinstance(row, Setting) else row.read(config)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ModelFormatError(f"{location}: {' and '.join(n for n in names if n in config)}: {error}") from error
    fixed = {**_FIXED, **architecture.fixed}
    for name, value in fixed.items():
        if name not in known and config.get(name, value) not in (value, None):
            raise ModelFormatError(
                f"{location}: {name} is {config[name]!r}, which is not supported; expected {value!r} of a "
                f"{architecture.model_type}"
            )
    ignored = {*_IGNORED, *architecture.ignored}
    for name, value in config.items():
        if name not in known and name not in fixed and name not in ignored and value is not None:
            raise ModelFormatError(
                f"{location}: {name} is {value!r:.80}, and its effect in a {architecture.model_type} is not known "
                "here; if it changes no number, take it out of the file"
            )
    try:
        network = architecture.config(**settings)
    except (SettingError, TypeError) as error:
        raise ModelFormatError(f"{location}: {_in_their_terms(architecture, str(error))}") from error
    return network, sorted(name for name in config if name in architecture.ignored)


def write_settings(architecture: Architecture, config: NetworkConfig | ConditionalConfig) -> Json:
    """The fields of config.json that say what the network is."""
    config = _filled_in(config)
    written: Json = {"architectures": [architecture.class_name], "model_type": architecture.model_type}
    for row in architecture.settings:
        if isinstance(row, Rule):
            written |= row.write(config)
            continue
        value = getattr(config, row.ours)
        if row.values is not None:
            value = next((theirs for theirs, ours in row.values.items() if ours == value), None)
        written[row.theirs] = value
    return {**written, **architecture.fixed}


def differences(architecture: Architecture, config: NetworkConfig | ConditionalConfig) -> list[str]:
    """The settings of a network that an architecture of others cannot have: what reading back would change."""
    if type(config) is not architecture.config:
        return [f"{architecture.family} as the family"]
    filled = _filled_in(config)
    try:
        back = _filled_in(read_settings(architecture, write_settings(architecture, config), "")[0])
    except ModelFormatError as error:
        return [str(error).removeprefix(": ")]
    pairs = [(each.name, getattr(filled, each.name), getattr(back, each.name)) for each in fields(config)]
    return [f"{name}={own!r}" for name, own, other in pairs if name not in _NO_MATTER and own != other]


def _setting(row: Setting, config: Mapping[str, Any]) -> Json:
    """Raises ValueError."""
    value = config.get(row.theirs, row.default)
    if value is REQUIRED:
        raise ValueError(f"{row.theirs} is missing")
    if value is None and row.default is not REQUIRED:
        value = row.default
    if row.values is None:
        return {row.ours: value}
    if not isinstance(value, str | int) or value not in row.values:
        raise ValueError(f"{value!r} is not supported; known are {', '.join(map(str, row.values))}")
    return {row.ours: row.values[value]}


def _in_their_terms(architecture: Architecture, message: str) -> str:
    """A message that begins with the name of a setting of ours, with that of the field of config.json instead."""
    ours, is_, rest = message.partition(" is ")
    theirs = {row.ours: row.theirs for row in architecture.settings if isinstance(row, Setting)}
    return f"{theirs.get(ours, ours)}{is_}{rest}".replace(" is None; ", " is null; ", 1)


def _filled_in(config: NetworkConfig | ConditionalConfig) -> NetworkConfig | ConditionalConfig:
    """The same network, with what is left to defaults said, and what has no effect at its default."""
    if not isinstance(config, TransformerConfig):
        return config
    config = replace(
        config,
        norm_epsilon=config.epsilon,
        key_value_heads=config.key_heads,
        head_width=config.width_of_heads,
        feed_forward_width=config.hidden_width,
        rotary_width=config.rotated_width if config.positions == "rotary" else None,
    )
    without_effect = {
        "rotary_base": config.positions != "rotary",
        "position_offset": config.positions != "learned",
        "without_biases": not config.biases,
        "shared_norm": not config.parallel,
        "window_every": config.window is None,
        **dict.fromkeys(("rotary_factor",), config.rotary_scaling == "none"),
        **dict.fromkeys(
            ("rotary_low_factor", "rotary_high_factor", "rotary_trained_context"), config.rotary_scaling != "llama3"
        ),
    }
    defaults: Json = {each.name: each.default for each in fields(config)}
    return replace(config, **{name: defaults[name] for name, is_idle in without_effect.items() if is_idle})
