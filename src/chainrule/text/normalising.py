"""Optional normalisation of text before tokenization: Unicode normal forms and lower case."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from chainrule.errors import SettingError
from chainrule.text.block import byte_array

if TYPE_CHECKING:
    from jaxtyping import UInt8
    from numpy import ndarray

Normalisation = Literal["nfc", "nfkc", "lower"]
_FORMS: dict[Normalisation, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}
_STEPS = (*_FORMS, "lower")


@dataclass(frozen=True)
class Normaliser:
    """Normalises text; by default, does nothing. Idempotent. Raises SettingError.

    nfc composes characters with their marks; nfkc also replaces compatibility characters (½ by 1⁄2); lower is
    str.lower, applied after the normal form, which is then applied again. Data: Python's `unicodedata`.
    """

    steps: tuple[Normalisation, ...] = ()

    def __post_init__(self) -> None:
        for step in self.steps:
            if step not in _STEPS:
                raise SettingError(f"there is no normalisation called {step!r}; choose among {', '.join(_STEPS)}")
        if len(set(self.steps)) < len(self.steps):
            raise SettingError(f"a normalisation is named twice: {', '.join(self.steps)}")
        if set(_FORMS) <= set(self.steps):
            raise SettingError("nfc and nfkc are alternatives; choose one of them")
        object.__setattr__(self, "steps", tuple(step for step in _STEPS if step in self.steps))

    def __call__(self, text: UInt8[ndarray, " bytes"], document_end: int) -> UInt8[ndarray, " bytes"]:
        """text: valid UTF-8, each document ended by the byte `document_end`. Documents are normalised separately."""
        if not self.steps:
            return text
        data = text.tobytes()
        if data.isascii():
            return byte_array(data.lower()) if "lower" in self.steps else text
        end = bytes([document_end])
        # Normal forms do not cross ASCII characters; but 0xFF, which can also end documents, is not valid UTF-8.
        parts = [data] if document_end < 0x80 else data.split(end)
        return byte_array(end.join(self._normalise(part.decode()).encode() for part in parts))

    def _normalise(self, text: str) -> str:
        form = next((_FORMS[step] for step in self.steps if step in _FORMS), None)
        if form is not None:
            text = unicodedata.normalize(form, text)
        if "lower" in self.steps:
            text = text.lower()
            text = text if form is None else unicodedata.normalize(form, text)
        return text


AS_IT_IS = Normaliser()
