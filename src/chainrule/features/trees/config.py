"""Settings of language models of trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chainrule.base.options import check_settings, option
from chainrule.errors import SettingError
from chainrule.neural.config.network import LAYERS, MAX_LAYERS, MAX_WIDTH


@dataclass(frozen=True, kw_only=True)
class TreeConfig:
    """A language model of trees: an LSTM from the root down.

    Each node is given those above it, and the elder siblings of all these
    (after Zhang, Lu and Lapata 2016).

    Reads trees: brackets, CoNLL-U (.conllu) or JSON lines. A tree is a text of
    brackets, as in ( saw She -HEAD- ( man the -HEAD- ) ), and only trees have a
    probability.
    """

    reads: ClassVar[str] = "tree"

    width: int = option(200, "numbers in a hidden vector, and in that of a token", least=1, below=MAX_WIDTH)
    layers: int = option(1, LAYERS, least=1, below=MAX_LAYERS)
    dropout: float = option(0.3, "share of numbers dropped of what each layer, and the output, reads", least=0, below=1)
    tied: bool = option(True, "the vectors of tokens are the output's weights, too")
    brackets: tuple[int, ...] = option((), "the tokens ( and )", least=3, is_rare=True)

    def __post_init__(self) -> None:
        check_settings(self)
        if len(self.brackets) not in (0, 2) or len(set(self.brackets)) != len(self.brackets):
            raise SettingError(f"brackets are {self.brackets}; expected two different tokens, ( and )")
