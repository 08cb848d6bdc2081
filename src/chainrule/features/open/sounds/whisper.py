"""Whisper's checkpoints: the network, how sound becomes frames, and the special tokens."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.errors import ModelFormatError
from chainrule.features.open.architectures.pairs.whisper import WHISPER
from chainrule.features.open.importing import open_sides, record_of
from chainrule.features.open.mapping import Tensors, arrays_of, read_settings, rows_of
from chainrule.features.open.sounds.processors import PREPROCESSOR, preprocessing
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.features.seq2seq.network.saving import shapes_of_pair
from chainrule.features.speech.whisper.config import WhisperConfig
from chainrule.storage.config_json import CONFIG
from chainrule.storage.hugging_face import GENERATION_CONFIG, TOKENIZER
from chainrule.text.tokenization.subword import Subword

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import ndarray

    from chainrule.storage.hugging_face import Checkpoint
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Json = dict[str, Any]

_EXTRACTOR = "WhisperFeatureExtractor"
_FIELDS = {"sampling_rate": "rate", "n_fft": "frame", "hop_length": "hop"}  # of the preprocessor, and ours
_FIXED = {"feature_extractor_type": _EXTRACTOR, "dither": 0.0, "padding_value": 0.0, "do_normalize": False}
_ENDED = "<|endoftext|>"
_MULTILINGUAL = 51_865  # tokens of the smallest multilingual model


class ImportedWhisper(NamedTuple):
    """The parts of a Whisper model."""

    config: WhisperConfig
    arrays: dict[str, ndarray]
    record: Json
    tokenizer: Tokenizer


def import_whisper(checkpoint: Checkpoint) -> ImportedWhisper:
    """Return the parts of the Whisper model in a checkpoint. Raises ModelFormatError, SettingError."""
    network, ignored = read_settings(WHISPER, checkpoint.config, checkpoint.location)
    assert isinstance(network, Seq2SeqConfig)
    frames = _frames_of(Path(checkpoint.location), network)
    tensors = Tensors(WHISPER, checkpoint)
    tensors.check_layers(network.encoder_layers + network.decoder_layers)
    rows = rows_of(WHISPER, tensors)
    sides = open_sides(checkpoint, rows, rows)
    numbering, splitter = sides.target_numbering, sides.target.splitter
    assert isinstance(splitter, Subword)
    special = _special_tokens(checkpoint, splitter.numbers, network, numbering.ours().tolist())
    size = sides.target.vocabulary_size
    own = {field.name: getattr(network, field.name) for field in fields(network)}
    config = WhisperConfig(**{**own, **numbering.settings(), **frames, **special, "tokens": size})
    shapes = shapes_of_pair(config, (0, size))
    arrays: dict[str, ndarray] = {}
    numberings = {"source": numbering, "target": numbering}
    for name, array in arrays_of(WHISPER, config, numberings, shapes, tensors):
        arrays[f"body.{name}"] = array
    record = record_of(
        checkpoint,
        {name: array.shape for name, array in arrays.items()},
        ignored,
        sides.warnings,
        {"tokens": numbering._asdict()},
    )
    return ImportedWhisper(config, arrays, record, sides.target)


def _frames_of(folder: Path, config: Seq2SeqConfig) -> Json:
    """Return the settings that say how sound becomes frames, by the preprocessor's file. Raises ModelFormatError."""
    settings, path = preprocessing(folder), folder / PREPROCESSOR
    if not settings:
        raise ModelFormatError(
            f"{folder}: has no {PREPROCESSOR}, which says how sound becomes frames; transformers writes one: "
            f"{_EXTRACTOR}(feature_size={config.source_width}).save_pretrained(folder)"
        )
    hop = settings.get("hop_length", 160)
    seconds, rate = settings.get("chunk_length", 30), settings.get("sampling_rate", 16_000)
    expected = {**_FIXED, "feature_size": config.source_width}
    for name, value in expected.items():
        if (own := settings.get(name, value)) != value:
            raise ModelFormatError(f"{path}: {name} is {own!r}, which does not suit this model; expected {value!r}")
    if any(type(own) is not int for own in (hop, seconds, rate)) or rate * seconds != config.source_rows * hop:
        raise ModelFormatError(
            f"{path}: chunk_length {seconds!r} and hop_length {hop!r} at {rate!r} samples a second do not make the "
            f"{config.source_rows:,} frames that the encoder reads, twice max_source_positions in {CONFIG}"
        )
    return {ours: settings[name] for name, ours in _FIELDS.items() if name in settings}


def _special_tokens(checkpoint: Checkpoint, numbers: dict[str, int], config: Seq2SeqConfig, ours: list[int]) -> Json:
    """Return the settings that name special tokens, by generation_config.json, else by their names in tokenizer.json.

    ours: our id of each of theirs. Raises ModelFormatError.
    """
    said = {**checkpoint.config, **checkpoint.generation_config}
    location = f"{checkpoint.location}: {GENERATION_CONFIG}"

    def checked(name: str, read: Callable[[Any], Any]) -> Any:
        try:
            return None if said.get(name) is None else read(said[name])
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise ModelFormatError(f"{location}: {name} is {said[name]!r:.80}; expected ids of its tokens") from error

    def our_id(number: Any) -> int:
        if type(number) is not int or not 0 <= number < len(ours):
            raise ValueError
        return ours[number]

    def our_ids(several: Any) -> tuple[int, ...]:
        return tuple(our_id(number) for number in several)

    def by_name(mapping: Any) -> dict[str, int]:
        return {name.strip("<|>"): our_id(number) for name, number in mapping.items()}

    def named(*names: str) -> int | None:
        return next((ours[numbers[name]] for name in names if name in numbers), None)

    def head_of(layer: int, head: int) -> int:
        if not (0 <= layer < config.decoder_layers and 0 <= head < config.heads):
            raise ValueError
        return layer * config.heads + head

    no_timestamps = checked("no_timestamps_token_id", our_id) or named("<|notimestamps|>")
    end = numbers.get(_ENDED, said.get("eos_token_id"))
    if no_timestamps is None or type(end) is not int:
        raise ModelFormatError(
            f"{checkpoint.location}: neither {GENERATION_CONFIG} nor {TOKENIZER} has "
            f"{'<|notimestamps|>' if no_timestamps is None else _ENDED}; get or write these files again"
        )
    by_code = checked("lang_to_id", by_name)
    tasks = checked("task_to_id", by_name)
    if by_code is None:
        codes = (name for name in numbers if re.fullmatch(r"<\|[a-z]{2,3}\|>", name))
        by_code = {name.strip("<|>"): ours[numbers[name]] for name in codes}
    if tasks is None:
        tasks = {name: token for name in ("transcribe", "translate") if (token := named(f"<|{name}|>")) is not None}
    # English models have the tokens of languages too, but one text token less.
    is_multilingual = checked("is_multilingual", bool)
    if is_multilingual is None:
        is_multilingual = said.get("lang_to_id") is not None or len(ours) >= _MULTILINGUAL
    heads = checked("alignment_heads", lambda pairs: tuple(head_of(*pair) for pair in pairs))
    half = range(config.decoder_layers // 2 * config.heads, config.decoder_layers * config.heads)
    languages, tasks = (found if is_multilingual else {} for found in (by_code, tasks))
    return {
        "text": max((ours[number] for number in range(end)), default=2) + 1,
        "no_timestamps": no_timestamps,
        "previous": named("<|startofprev|>"),
        "no_speech": named("<|nospeech|>", "<|nocaptions|>"),
        "languages": tuple(languages),
        "language_tokens": tuple(languages.values()),
        "tasks": tuple(tasks),
        "task_tokens": tuple(tasks.values()),
        "suppressed": checked("suppress_tokens", our_ids) or (),
        "suppressed_first": checked("begin_suppress_tokens", our_ids) or (),
        "latest_first": checked("max_initial_timestamp_index", int),
        "alignment_heads": heads or tuple(half),
    }
