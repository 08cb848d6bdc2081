"""The passages behind a prediction: where similar states were, and what came next there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.arguments import check_least
from chainrule.base.tables import count_of, text_table
from chainrule.errors import SettingError
from chainrule.models.any_model import check_kind
from chainrule.models.language_models import CausalModel
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.features.neighbours.model import NeighbourModel, NeighbourState
    from chainrule.features.neighbours.states import Similar
    from chainrule.models.model import Model
    from chainrule.text.tokenization.tokenizer import Tokenizer

_CONTEXT = 8  # tokens of a passage


class Passage(NamedTuple):
    """A place where the network's state was similar.

    weight: its part of the model's distribution. context: the tokens before, as text. token: the one that came next, as
    people read it. tokens_ago: where it is in the text that is read; document: in the text of the neighbours, from 1.
    """

    weight: float
    context: str
    token: str
    tokens_ago: int | None = None
    document: int | None = None

    @property
    def place(self) -> str:
        """Where it is, in words."""
        ago = self.tokens_ago
        return f"document {self.document:,}" if ago is None else f"{count_of(ago, 'token')} ago"


@dataclass(frozen=True)
class Passages:
    """The passages behind a prediction, those with the largest weights first. counted: the weight of all there are."""

    rows: tuple[Passage, ...]
    counted: float

    def __str__(self) -> str:
        cells = [[f"{row.weight:.6f}", row.token, row.context, row.place] for row in self.rows]
        return text_table(["weight", "next", "after", "where"], cells)

    def to_records(self) -> list[dict[str, Any]]:
        """Return all rows."""
        return [row._asdict() for row in self.rows]

    def as_json(self) -> list[dict[str, Any]]:
        """Return all rows."""
        return self.to_records()

    def notes(self) -> Iterator[str]:
        """Yield how much of the distribution comes from neighbours."""
        shown = sum(row.weight for row in self.rows)
        yield f"these have {shown:.1%} of the probability, all neighbours together {self.counted:.1%}"


def passages(model: Model, prompt: str = "", top: int = 10) -> Passages:
    """Return the passages that count most for what a model expects after a prompt.

    model: of `with_neighbours`, or a mixture that has one. Raises SettingError if it is neither, MarkerError.

    good:  print(chainrule.passages(chainrule.load("knn/"), "the king of"))
    """
    check_least("top", top, 1)
    causal = check_kind(model, CausalModel)
    state = causal.language_model.start([causal.tokenizer.encode_texts([prompt]).ids[:-1]])
    found = passages_of(causal, state, top)
    if found is None:
        raise SettingError(
            "the model has no neighbours; chainrule mix NETWORK, with --neighbours or --neural-cache, gives it some"
        )
    return found


def passages_of(model: CausalModel, state: Any, top: int) -> Passages | None:
    """Return the passages for the first row of a state; None of a model without neighbours."""
    parts = [*_looking(model.language_model, state, 1.0)]
    rows = [row for engine, own, weight in parts for row in _rows(engine, own, weight, model.tokenizer, top)]
    best = sorted(rows, key=lambda row: -row.weight)[:top]
    return (
        Passages(tuple(best), sum(weight * sum(_counts(engine, own)) for engine, own, weight in parts))
        if parts
        else None
    )


def components_of(engine: Any, state: Any, tokens: Int32[ndarray, " tokens"]) -> list[dict[str, Any]] | None:
    """Return the name and weight of the network, the cache and the datastore in the first row of a state, with what
    they give to some tokens; None for an engine without neighbours.
    """
    from chainrule.features.neighbours.model import NeighbourModel

    if not isinstance(engine, NeighbourModel):
        return None
    names, counted = ("network", "cache", "neighbours"), _counts(engine, state)
    weights = [1 - sum(counted), *counted]
    return [
        {"name": name, "weight": weight, "probs": rows[0, tokens].astype(np.float64).tolist()}
        for name, weight, rows in zip(names, weights, engine.parts_of(state), strict=True)
        if weight
    ]


def _looking(engine: Any, state: Any, weight: float) -> Iterator[tuple[NeighbourModel, NeighbourState, float]]:
    """Yield each engine with neighbours that an engine has, its state, and its weight."""
    from chainrule.features.neighbours.model import NeighbourModel
    from chainrule.mixture.components import RescaledUnknown

    if isinstance(engine, RescaledUnknown):
        engine = engine.model
    if isinstance(engine, NeighbourModel):
        yield engine, state, weight
    components = getattr(engine, "components", None)
    if components is not None:
        for part, own, share in zip(components.models, state.parts, engine.weights_of(state)[0].tolist(), strict=True):
            yield from _looking(part, own, weight * share)


def _counts(engine: NeighbourModel, state: NeighbourState) -> tuple[float, float]:
    """Return the weights of the cache and the datastore in the first row: 0 where there are no states."""
    found, (_, cache, store) = engine.found(state)[0], engine.weights
    has_cache, has_store = (own is not None and bool(own.any()[0]) for own in (found.cache, found.store))
    return cache * has_cache, store * has_store


def _rows(
    engine: NeighbourModel, state: NeighbourState, weight: float, tokenizer: Tokenizer, top: int
) -> Iterator[Passage]:
    found = engine.found(state)[0]
    if found.cache is not None:
        tokens = state.recents[0].tokens.cpu().numpy().astype(np.int32)
        for place, share in _best(found.cache, engine.sharpness[0], top):
            ago = len(tokens) - place
            yield Passage(weight * engine.weights[1] * share, *_read(tokens, place, tokenizer), tokens_ago=ago)
    if found.store is not None and engine.store is not None:
        for place, share in _best(found.store, engine.sharpness[1], top):
            document = 1 + int(np.count_nonzero(engine.store.tokens[:place] == END))
            read = _read(engine.store.tokens, place, tokenizer)
            yield Passage(weight * engine.weights[2] * share, *read, document=document)


def _best(similar: Similar, sharpness: float, top: int) -> list[tuple[int, float]]:
    """Return the numbers of the states that count most, and their shares."""
    shares = similar.shares(sharpness)[0].cpu().numpy()
    places = similar.places[0].cpu().numpy()
    order = np.lexsort((places, -shares))[:top]
    return [(int(places[i]), float(shares[i])) for i in order if shares[i] > 0]


def _read(tokens: Int32[ndarray, " T"], place: int, tokenizer: Tokenizer) -> tuple[str, str]:
    """Return the text before a place, within its document, and the token there."""
    before = tokens[max(0, place - _CONTEXT) : place]
    if (ends := np.flatnonzero(before == END)).size:
        before = before[ends[-1] + 1 :]
    [token] = tokenizer.shown(tokens[place : place + 1].tolist())
    return tokenizer.decode(before.tolist()), token
