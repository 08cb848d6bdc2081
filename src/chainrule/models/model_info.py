"""ModelInfo: what is known of a model: its family, size and origin, and what its figures may be compared with.

`ModelParts` is what a model is made of, for functions that `Model` calls and that do not import it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.tables import text_of_rows
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.origin import name_before

if TYPE_CHECKING:
    from chainrule.ngram.speller import MixedSpeller, Speller
    from chainrule.text.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """What is known of a model. `record` says how it was made, as its config.json does.

    parameters: the number of a network's parameters. ngrams: the number of an n-gram model's n-grams, by order. bytes:
    the size of its data files; None where it is in no file. signature: what its figures may be compared with, the
    model's part of `Measurement.signature`; None where it is no distribution over texts by itself.
    """

    family: str
    tokenizer: str
    vocabulary_size: int
    parameters: int | None
    ngrams: list[int] | None
    bytes: int | None
    signature: str | None
    record: dict[str, Any]

    def rows(self) -> list[tuple[str, str]]:
        """Return names and values as on the model card, to be read by people."""
        from chainrule.models.files.model_card import model_rows

        return model_rows(
            self.family, self.tokenizer, self.vocabulary_size, self.record, size=self.bytes, signature=self.signature
        )

    def __repr__(self) -> str:
        return f"<ModelInfo>\n{self}"

    def __str__(self) -> str:
        return text_of_rows(self.rows())

    def _repr_html_(self) -> str:
        from chainrule.drawing.pages import html_table

        return html_table(f"{self.family} model", [], self.rows())

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name, without the record: a row for pandas.

        ngrams: the number of n-grams of all orders together.
        """
        figures = {name: value for name, value in self.as_json().items() if name != "record"}
        return {**figures, "ngrams": None if self.ngrams is None else sum(self.ngrams)}

    def as_json(self) -> dict[str, Any]:
        """Return all that is known, for JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def info_of_model(parts: ModelParts, *, size: int | None = None) -> ModelInfo:
    """Return the info of a model. size: its bytes on disk, where they are known."""
    from chainrule.text.tokenization.subword import Subword

    tokenizer = parts.tokenizer
    splitter, chosen = tokenizer.splitter, getattr(getattr(parts.engine, "network", None), "begin", None)
    before = name_before(parts.record, splitter, chosen) if isinstance(splitter, Subword) else None
    return ModelInfo(
        family=parts.family,
        tokenizer=f"{tokenizer.name} (loses: {tokenizer.loses}; literal markers in a text: "
        f"{tokenizer.markers if tokenizer.sees_markers else 'read like any other text'}"
        f"{'' if before is None else f'; a text is read after {before}'})",
        vocabulary_size=tokenizer.vocabulary_size,
        parameters=_parameters(parts.record),
        ngrams=_ngrams(parts.record),
        bytes=size,
        signature=_signature(parts),
        record=parts.record,
    )


def info_of_network(
    family: str, tokenizer: str, vocabulary_size: int, record: dict[str, Any], *, size: int | None = None
) -> ModelInfo:
    """Return the info of a network that is no distribution over texts by itself. tokenizer: in words. size: as
    above.
    """
    return ModelInfo(
        family=family,
        tokenizer=tokenizer,
        vocabulary_size=vocabulary_size,
        parameters=_parameters(record),
        ngrams=None,
        bytes=size,
        signature=None,
        record=record,
    )


def size_of(record: dict[str, Any]) -> str:
    """Return the number of n-grams or parameters, with a comma before it, for a line about a model."""
    parameters, ngrams = _parameters(record), _ngrams(record)
    if ngrams is not None:
        return f", {sum(ngrams):,} n-grams"
    return "" if parameters is None else f", {parameters:,} parameters"


def _parameters(record: dict[str, Any]) -> int | None:
    """Return the number of parameters; None unless it is an integer, since people may edit records."""
    parameters = record.get("parameters")
    return parameters if isinstance(parameters, int) else None


def _ngrams(record: dict[str, Any]) -> list[int] | None:
    ngrams = record.get("ngrams")
    is_list = isinstance(ngrams, list) and all(isinstance(size, int) for size in ngrams)
    return ngrams if is_list else None


def _signature(parts: ModelParts) -> str | None:
    from chainrule.evaluation.likelihood import model_signature, token_signature

    if FAMILIES[parts.family].job != "continue":
        return None
    kind = FAMILIES[parts.family].measure_options(parts.engine)
    seen = {name: kind[name] for name in ("context", "is_distribution") if name in kind}
    stream_scoring = FAMILIES[parts.family].stream_scoring(parts.engine)
    return f"{token_signature(parts.tokenizer)}|{model_signature(parts.speller, stream_scoring, **seen)}"


class ModelParts(NamedTuple):
    """The parts of a `Model`. engine: what the family trains, mostly a LanguageModel."""

    family: str
    engine: Any
    tokenizer: Tokenizer
    speller: Speller | MixedSpeller
    record: dict[str, Any]
