"""The families of the kinds of models, by name: each is imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chainrule.base.options import config_among
from chainrule.errors import SettingError
from chainrule.kinds import kind_named, kind_of_config, kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.models.families.family import Family


class _Families(Mapping[str, "Family"]):
    def __getitem__(self, name: str) -> Family:
        kind = kind_named(name)
        if kind is None or kind.engine is None:
            raise KeyError(name)
        family: Family = kind.engine.get()
        return family

    def __iter__(self) -> Iterator[str]:
        return (name for name, kind in kinds().items() if kind.engine is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        kind = kind_named(name) if isinstance(name, str) else None
        return kind is not None and kind.engine is not None


FAMILIES = _Families()


def family_of(config: object) -> str:
    """Return the name of the family of a configuration. Raises TypeError if it is not one of any."""
    return kind_of_config(config).family


def config_of(family: str, settings: object) -> Any:
    """Return the settings of a model of a family from its JSON. Raises ModelFormatError."""
    from chainrule.neural.config.network import without_ngram_memory

    return config_among([config.get() for config in kinds()[family].configs], without_ngram_memory(settings))


def check_learns_from_text(family: str) -> None:
    """Raise SettingError where models of a family are made of something else than plain text."""
    kind = kinds()[family]
    if kind.learns_from:
        raise SettingError(f"{kind.title} is not trained on a text but made of {kind.learns_from}")


def why_no_table(family: str, engine: object) -> str:
    """Return why a model does not consist of an n-gram table alone, in words."""
    return FAMILIES[family].why_no_table(engine) or f"it is of family {family!r}, which has no n-grams"
