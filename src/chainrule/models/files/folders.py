"""Opens model folders of ours that hold an engine and a tokenizer, and adapters with the model that they stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import opening_folder
from chainrule.kinds import kind_named
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.tokenizers import tokenizer_from
from chainrule.storage.model_folder import SPELLER_ARRAYS, TOKENIZER, VOCABULARY_ARRAYS, base_of, open_model
from chainrule.storage.sources import local_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chainrule.models.model import Model
    from chainrule.models.open_options import OpenOptions
    from chainrule.ngram.speller import MixedSpeller, Speller
    from chainrule.storage.safetensors import MappedFile
    from chainrule.text.tokenization.tokenizer import Tokenizer


def build_model(
    family: str,
    engine: Any,
    tokenizer: Tokenizer,
    record: dict[str, Any] | None = None,
    speller: Speller | MixedSpeller | None = None,
    *,
    mapped: MappedFile | None = None,
) -> Model:
    """Return a model of a family, as the class that its row names. The arguments are those of `Model`."""
    kind = kind_named(family)
    assert kind is not None  # whoever made the engine knows the family
    model: Model = kind.model.get()(family, engine, tokenizer, record, speller, mapped=mapped)
    return model


def open_text_model(path: Path, options: OpenOptions, load: Callable[..., Model]) -> Model:
    """Open a folder of ours that has one tokenizer. load: opens the base of an adapter.

    Raises ModelFormatError, SettingError.
    """
    from chainrule.ngram.speller import speller_from_arrays

    entry, arrays, texts, mapped = open_model(path)
    if "adapter" in entry.settings:
        said = entry.settings["adapter"]
        named = [said.get("beside"), said.get("base")] if isinstance(said, dict) else []
        return open_adapter(path, base_of(path, *named), load, exact=options.is_exact)
    if options.copy:
        arrays = {name: array.copy() for name, array in arrays.items()}
        mapped.check()
    with opening_folder(path):
        weights = {
            name: array for name, array in arrays.items() if not name.startswith((VOCABULARY_ARRAYS, SPELLER_ARRAYS))
        }
        spelling = {
            name.removeprefix(SPELLER_ARRAYS): array
            for name, array in arrays.items()
            if name.startswith(SPELLER_ARRAYS)
        }
        learner = tokenizer_from(entry.tokenizer, arrays, VOCABULARY_ARRAYS, texts.get(TOKENIZER))
        engine = FAMILIES[entry.family].from_state(entry.settings, weights, learner.vocabulary_size)
        speller = speller_from_arrays(spelling, learner.vocabulary)
    mapped_file = None if options.copy else mapped
    model = build_model(entry.family, engine, learner, entry.record, speller, mapped=mapped_file)
    return model.unpack() if options.is_exact and _is_in_blocks(model) else model


def _is_in_blocks(model: Model) -> bool:
    if model.record.get("quantised") is not True or not FAMILIES[model.family].embeds:
        return False
    from chainrule.neural.quantization import rounds_activations

    return rounds_activations(model.engine.network)


def open_adapter(path: Path, base: Path, load: Callable[..., Model], *, exact: bool) -> Model:
    """Open a model with an adapter, from a folder of ours or from what others write, on the model at another path.

    load: opens that.

    Raises ModelFormatError, SettingError.
    """
    from chainrule.models.files.adapters import adapted, open_base

    own = open_base(base, exact, load)
    engine, record = adapted(local_path(path, is_whole=True), own)
    model = build_model(own.family, engine, own.tokenizer, record, own.speller)
    model.base = own
    return model
