"""The options of the explorer as one file; flags are made from them, so it is light."""

from __future__ import annotations

from dataclasses import dataclass

from chainrule.base.options import Options, option


@dataclass(frozen=True, kw_only=True)
class PageOptions(Options):
    """How the explorer becomes one file that computes in the page."""

    text: str | None = option(
        None,
        "static: the text that the page opens with; by default an example that the model keeps",
        hyphens=True,
        needs="static",
        shown=False,
    )
    int8: bool = option(
        False,
        "static: quantise the matrices of a Transformer to eight bits, as compact does; scores then are those of "
        "the quantised model",
        is_switch=True,
        needs="static",
    )
