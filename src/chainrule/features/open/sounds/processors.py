"""The files beside a speech checkpoint: how sounds become samples, and what the outputs of CTC stand for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.errors import ModelFormatError
from chainrule.storage.hugging_face import TOKENIZER_CONFIG, VOCABULARY, read_json

if TYPE_CHECKING:
    from chainrule.storage.hugging_face import Checkpoint

    Json = dict[str, Any]

PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
_ADDED, _SPECIAL = "added_tokens.json", "special_tokens_map.json"
_LANGUAGE_MODEL = "language_model"  # a folder that pyctcdecode writes
_TOKENIZERS = ("Wav2Vec2CTCTokenizer", "Wav2Vec2Tokenizer", None)
_MARKERS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_DELIMITER = "|"


def optional_json(folder: Path, name: str) -> Json:
    """Return the JSON object in a file; empty if there is no such file. Raises ModelFormatError."""
    return read_json(folder / name) if (folder / name).exists() else {}


def preprocessing(folder: Path) -> Json:
    """Return the settings of what makes features of sounds; empty without such a file. Raises ModelFormatError."""
    inner = optional_json(folder, PROCESSOR).get("feature_extractor")
    return optional_json(folder, PREPROCESSOR) or (inner if isinstance(inner, dict) else {})


def read_sampling(folder: Path) -> tuple[Json, list[str]]:
    """Return the rate of the samples that a network reads, and whether they are normalised, with warnings.

    Raises ModelFormatError.
    """
    settings = preprocessing(folder)
    rate, normalised = settings.get("sampling_rate", 16_000), settings.get("do_normalize", True)
    place = f"{folder}: {PREPROCESSOR}"
    if type(rate) is not int or not 1000 <= rate <= 192_000:
        raise ModelFormatError(f"{place}: sampling_rate is {rate!r}; expected samples a second, 1000 to 192000")
    if settings.get("feature_size", 1) != 1:
        raise ModelFormatError(f"{place}: feature_size is {settings['feature_size']!r}; expected 1, for samples")
    warnings = []
    if not settings:
        warnings = [f"{place} is missing: sounds are taken at 16,000 samples a second and normalised"]
    return {"rate": rate, "normalised": bool(normalised)}, warnings


def read_labels(checkpoint: Checkpoint, size: int) -> tuple[tuple[str, ...], list[str]]:
    """Return what the outputs of CTC stand for, the blank as an empty label, with warnings. size: how many there are.

    Raises ModelFormatError.
    """
    folder, config = Path(checkpoint.location), checkpoint.tokenizer_config
    place = f"{folder}: {VOCABULARY}"
    kind = config.get("tokenizer_class")
    if kind not in _TOKENIZERS:
        raise ModelFormatError(
            f"{folder}: {TOKENIZER_CONFIG}: tokenizer_class is {kind!r}, which is not supported; expected "
            f"{_TOKENIZERS[0]!r}"
        )
    if not (folder / VOCABULARY).exists():
        raise ModelFormatError(
            f"{place} is missing, which says what the {size} outputs stand for; copy it from where the model is from"
        )
    ids = _ids(read_json(folder / VOCABULARY), config.get("target_lang"), place)
    if len(ids) > size:
        raise ModelFormatError(f"{place}: has {len(ids)} tokens, but the head has {size} outputs; expected as many")
    markers = {
        name: _content(config.get(name, optional_json(folder, _SPECIAL).get(name, own)))
        for name, own in _MARKERS.items()
    }
    ids = {**ids, **_added(folder, config), **ids}
    for marker in markers.values():  # which others number after all tokens, where the vocabulary lacks them
        if marker is not None and marker not in ids:
            ids[marker] = len(ids)
    by_id = {number: token for token, number in ids.items() if number < size}
    if missing := sorted(set(range(size)) - by_id.keys()):
        raise ModelFormatError(
            f"{place}: has {len(by_id)} tokens for the {size} outputs of the head, and none with the id {missing[0]}; "
            "expected a token for each"
        )
    blank = markers["pad_token"]
    if blank is None or ids.get(blank, size) >= size:
        raise ModelFormatError(f"{place}: lacks the pad token {blank!r}, which is CTC's blank")
    delimiter, space = config.get("word_delimiter_token", _DELIMITER), config.get("replace_word_delimiter_char", " ")
    labels = []
    for number in range(size):
        token = by_id[number]
        label = "" if token == blank else space if token == _content(delimiter) else token
        labels.append(label.lower() if config.get("do_lower_case") else label)
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise ModelFormatError(f"{place}: several tokens are written as {twice[0]!r}; expected distinct ones")
    return tuple(labels), _warnings(folder)


def _ids(vocabulary: Json, language: object, place: str) -> dict[str, int]:
    """Return tokens with their ids. language: the one of several vocabularies. Raises ModelFormatError."""
    if isinstance(language, str) and isinstance(vocabulary.get(language), dict):
        vocabulary = vocabulary[language]
    for token, number in vocabulary.items():
        if type(number) is not int or number < 0:
            raise ModelFormatError(f"{place}: {token!r} has the id {number!r:.80}; expected a whole number")
    return vocabulary


def _added(folder: Path, config: Json) -> dict[str, int]:
    """Return tokens beside the vocabulary, with their ids. Raises ModelFormatError."""
    decoder = config.get("added_tokens_decoder")
    rows = decoder.items() if isinstance(decoder, dict) else ()
    own: dict[Any, int] = {_content(token): int(number) for number, token in rows if str(number).isdigit()}
    added = {**optional_json(folder, _ADDED), **own}
    return {token: number for token, number in added.items() if isinstance(token, str) and type(number) is int}


def _content(token: object) -> str | None:
    """Return a token, which files have as a string or as an object."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _warnings(folder: Path) -> list[str]:
    inside = folder / _LANGUAGE_MODEL
    files = (
        sorted(path for path in inside.iterdir() if path.suffix in (".bin", ".arpa", ".binary", ".klm"))
        if inside.is_dir()
        else []
    )
    return [f"{files[0]} is a language model for this network; it counts where --lm names it"] if files else []
