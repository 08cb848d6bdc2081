"""The fields of vLLM's requests in our words. Knows no models and no HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping

_GUIDED = {"json": "json_schema", "regex": "regex", "choice": "choices", "grammar": "grammar"}
_FORMS = {f"guided_{theirs}": ours for theirs, ours in _GUIDED.items()}
_ALWAYS = {"skip_special_tokens": True, "modalities": ["text"]}  # the only values, with which nothing changes


def in_our_words(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request with those of vLLM as ours: `guided_json` is `json_schema`.

    Raises SettingError, whose message begins with the field.
    """
    own = {name: value for name, value in fields.items() if value is not None}
    for name, ours in _FORMS.items():
        if name in own:
            _put(own, name, ours, own.pop(name))
    asked = own.pop("structured_outputs", {})
    if not isinstance(asked, dict):
        raise SettingError(f"structured_outputs is {json.dumps(asked)[:60]}; expected an object, such as {{}}")
    for theirs, value in asked.items():
        name = f"structured_outputs.{theirs}"
        if theirs in _GUIDED and value is not None:
            _put(own, name, _GUIDED[theirs], value)
        elif theirs == "json_object" and value is True:
            _put(own, name, "json_schema", {"type": "object"})
        elif value not in (None, False):
            raise SettingError(f"{name[:60]}: expected one of {', '.join([*_GUIDED, 'json_object'])}")
    for name, value in _ALWAYS.items():
        if own.pop(name, value) != value:
            raise SettingError(f"{name} is {json.dumps(fields[name])[:60]}; expected {json.dumps(value)}, or none")
    return own


def _put(own: dict[str, Any], name: str, ours: str, value: Any) -> None:
    """Put a field of vLLM among ours. Raises SettingError."""
    if ours in own:
        raise SettingError(f"{name}: it is {ours} here, which is there, too; send one")
    if ours == "json_schema" and isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise SettingError(f"{name} is no JSON: {error}") from None
    own[ours] = value
