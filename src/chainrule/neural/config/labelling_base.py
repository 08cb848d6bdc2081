"""What the settings of all networks that label have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chainrule.base.options import check_settings, setting
from chainrule.neural.config.network import MAX_WIDTH


@dataclass(frozen=True, kw_only=True)
class LabellingConfig:
    """The fields that all networks that label have. Raises SettingError."""

    reads: ClassVar[str] = "text"

    width: int = setting(150, "numbers in a hidden vector", least=1, below=MAX_WIDTH)
    dropout: float = setting(
        0.5, "share of numbers dropped of what the first layer and the labels' layer read", least=0, below=1
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, kw_only=True)
class WordsConfig(LabellingConfig):
    """Of networks that read tokens, in a row or at the nodes of a tree or graph."""

    embedding_width: int = setting(100, "numbers in the vector of a token", least=1, below=MAX_WIDTH)
    token_dropout: float = setting(
        0.0, "share of the vocabulary whose vectors are dropped in a batch", least=0, below=1
    )
