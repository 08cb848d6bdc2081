"""The family of models that write given a source: language models only once they have one."""

from __future__ import annotations

from chainrule.errors import ModelFormatError, SettingError
from chainrule.models.families.family import Family, unsupported

GIVEN = Family(
    token_bytes=0,
    to_state=unsupported(SettingError, "a model is not saved together with its source; save the model itself"),
    from_state=unsupported(ModelFormatError, "needs a source: chainrule.load(path)"),
)
