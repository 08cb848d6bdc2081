"""What heads and layers of a Transformer do: how log P changes where one is removed, or reads another text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from chainrule.errors import SettingError
from chainrule.evaluation.choices import join
from chainrule.evaluation.continuations import Pair, split_pairs
from chainrule.features.inspect.intervention import Removal, Unit, log_probs_without, units_of
from chainrule.features.inspect.pages import effects_page, write_inspection
from chainrule.models.any_model import check_kind
from chainrule.models.language_models import CausalModel
from chainrule.models.progress_line import ProgressOption, callback, shows_progress

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int32
    from numpy import ndarray

    from chainrule.models.model import Model

_SHOWN = 8  # parts whose effect a page shows along the text


@dataclass(frozen=True, kw_only=True)
class CausalEffects:
    """The change in log P of the tokens of a text, in nats, where a part of a Transformer is replaced.

    done: what was done, in words. tokens: those that are predicted; the watched ones are `watched`. log_probs: before
    anything is replaced. parts: of a layer. by_token: the change, by layer and part. together: the change where the
    heads that were named are replaced all at once; None where none were.
    """

    heading: str
    done: str
    tokens: Sequence[str]
    watched: slice
    log_probs: Float32[ndarray, " T"]
    parts: Sequence[str]
    by_token: Float32[ndarray, "layers parts T"]
    heads: Sequence[str] = ()
    together: Float32[ndarray, " T"] | None = None

    def __repr__(self) -> str:
        return f"<CausalEffects: {self.heading!r}, {self.contents}>"

    @property
    def effects(self) -> Float64[ndarray, "layers parts"]:
        """The change in log P of the watched tokens, by layer and part: below 0 where the part is needed."""
        return np.asarray(self.by_token[:, :, self.watched].sum(2, dtype=np.float64))

    @property
    def contents(self) -> str:
        """What matters most, in a sentence."""
        some = self.effects[:, : self.parts.index("attention") or None]  # heads, where there are any
        layer, part = divmod(int(np.argmax(np.abs(some))), some.shape[1])
        before = float(self.log_probs[self.watched].sum(dtype=np.float64))
        says = f"log P {before:.2f} nats; most by layer {layer + 1}, {self.parts[part]}: {some[layer, part]:+.2f}"
        if self.together is None:
            return says
        change = float(self.together[self.watched].sum(dtype=np.float64))
        return f"{says}; {' and '.join(self.heads)} at once: {change:+.2f}"

    @property
    def page(self) -> str:
        """Self-contained HTML."""
        order = np.argsort(-np.abs(self.effects).ravel(), kind="stable")[:_SHOWN]
        along = []
        for layer, part in zip(*np.unravel_index(order, self.effects.shape), strict=True):
            along.append((f"layer {layer + 1}, {self.parts[part]}", self.by_token[layer, part]))
        if self.together is not None:
            along.insert(0, (" and ".join(self.heads), self.together))
        watched = self.tokens[self.watched]
        what = f"{self.done}; the change in log P of “{' '.join(watched)}”, in nats. {self.contents}."
        return effects_page(self.heading, what, self.tokens, self.parts, self.effects, along)

    def to_dict(self) -> dict[str, Any]:
        """All numbers: log P before, and the change by layer, part and token."""
        record: dict[str, Any] = {
            "text": self.heading,
            "done": self.done,
            "tokens": list(self.tokens),
            "watched": [self.watched.start, self.watched.stop],
            "log_probs": self.log_probs.round(6).tolist(),
            "parts": list(self.parts),
            "change": self.by_token.round(6).tolist(),
        }
        if self.together is not None:
            record |= {"heads": list(self.heads), "together": self.together.round(6).tolist()}
        return record

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the page, .html, or all numbers, .json. Raises OutputError, SettingError."""
        write_inspection(self, path, overwrite=overwrite)


@shows_progress
def causal_effects(
    model: Model,
    text: str,
    *,
    remove: Removal | None = None,
    patch: str | None = None,
    answer: str | None = None,
    heads: Sequence[tuple[int, int]] = (),
    progress: ProgressOption = None,
) -> CausalEffects:
    """As `inspect` with remove or patch."""
    if (remove is None) == (patch is None):
        raise SettingError("give either remove, zero or mean, or patch, another text; answer and heads go with one")
    if remove is not None and remove not in get_args(Removal):
        raise SettingError(f"remove is {remove!r}; expected {' or '.join(get_args(Removal))}")
    network = check_kind(model, CausalModel).engine
    units = units_of(network)
    chosen = _chosen(heads, units)
    tokens, watched = _tokens_of(model, text, answer)
    by: Removal | Int32[ndarray, " T"]
    if patch is None:
        assert remove is not None
        by, done = remove, "removed" if remove == "zero" else "replaced by its mean so far"
    else:
        by, done = model.tokenizer.encode_texts([patch]).ids[:-1], f"as it is for “{patch}”"
        expected = watched.start or len(tokens)
        if len(by) != expected:
            raise SettingError(
                f"the text has {expected:,} tokens and the one to patch from has {len(by):,}: outputs are replaced "
                "token by token, so give one with as many"
            )
    groups = [[], *([unit] for layer in units for unit in layer), *([chosen] if chosen else [])]
    rows = log_probs_without(network, tokens, groups, by, callback(progress))
    change = rows[1:] - rows[:1]
    count = len(units) * len(units[0])
    return CausalEffects(
        heading=text if answer is None else text + join(text, answer),
        done=f"Each part {done}",
        tokens=model.tokenizer.shown(tokens.tolist()),
        watched=watched,
        log_probs=rows[0],
        parts=[f"head {unit.part + 1}" if isinstance(unit.part, int) else unit.part for unit in units[0]],
        by_token=change[:count].reshape(len(units), len(units[0]), -1),
        heads=[str(unit) for unit in chosen],
        together=change[count] if chosen else None,
    )


def _chosen(heads: Sequence[tuple[int, int]], units: list[list[Unit]]) -> list[Unit]:
    layers, most = len(units), sum(isinstance(unit.part, int) for unit in units[0])
    for layer, head in heads:
        if not (1 <= layer <= layers and 1 <= head <= most):
            raise SettingError(f"there is no head {layer}.{head}; expected layer 1 to {layers} and head 1 to {most}")
    return list(dict.fromkeys(units[layer - 1][head - 1] for layer, head in heads))


def _tokens_of(model: Model, text: str, answer: str | None) -> tuple[Int32[ndarray, " T"], slice]:
    """The tokens of a text and its answer, and those of them that are watched: the answer's, or all."""
    if answer is None:
        tokens = model.tokenizer.encode_texts([text]).ids[:-1]
        return tokens, slice(0, len(tokens))
    encoded, [given] = split_pairs([Pair(text, join(text, answer))], model.tokenizer)
    tokens = encoded.ids[:-1]
    if given == len(tokens):
        raise SettingError("the answer is empty; give some text")
    return tokens, slice(given, len(tokens))
