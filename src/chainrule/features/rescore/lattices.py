"""Lattices: hypotheses of a recogniser for an utterance, as a graph without cycles whose arcs have words and scores."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chainrule.errors import TextError
    from chainrule.features.rescore.lists.nbest import Line

ACOUSTIC = "acoustic"


class Arc(NamedTuple):
    """An arc of a lattice.

    word: "" where the arc has none. scores: in nats, higher is better, in the order of the lattice's names.
    """

    source: int
    target: int
    word: str
    scores: tuple[float, ...]
    line: Line


@dataclass(frozen=True)
class Lattice:
    """A lattice that has been checked: every node is on a path from the first node, 0, to a final one.

    Nodes are numbered so that arcs lead to higher numbers. finals: the scores of ending at a node.
    """

    id: str
    names: tuple[str, ...]  # of the scores
    arcs: Sequence[Sequence[Arc]]  # by source
    finals: Mapping[int, tuple[float, ...]]
    place: str  # for messages: "lat.txt, line 7"
    priors: tuple[str, ...] = ()  # names of the scores of a weaker language model


class Unreadable(NamedTuple):
    """A lattice that is wrong: its utterance, and what is wrong."""

    id: str
    error: TextError


def build_lattice(
    id: str,
    head: Line,
    names: tuple[str, ...],
    priors: tuple[str, ...],
    start: int,
    arcs: Sequence[Arc],
    finals: Mapping[int, tuple[float, ...]],
) -> Lattice:
    """Number the nodes of a lattice anew, and check it. head: the line where it begins.

    Raises TextError where it has no final node, a cycle, a node that cannot be reached, or one that leads nowhere.
    """
    if not finals:
        raise head.error(f"the lattice of {id} has no final node; was it cut short?")
    arcs_from, arcs_to = defaultdict(list), defaultdict(list)
    for arc in arcs:
        arcs_from[arc.source].append(arc)
        arcs_to[arc.target].append(arc)
    waiting = {node: len(into) for node, into in arcs_to.items()}
    others = sorted({arc.source for arc in arcs} - {start, *waiting})
    if others:
        line = arcs_from[others[0]][0].line
        raise line.error(f"in the lattice of {id}, nothing leads to node {others[0]}; expected paths from node {start}")
    order = [] if waiting.get(start) else [start]
    for node in order:  # which grows
        for arc in arcs_from[node]:
            waiting[arc.target] -= 1
            if not waiting[arc.target]:
                order.append(arc.target)
    if len(order) < len({start, *waiting}):
        arc = _on_a_cycle(arcs, set(order))
        raise arc.line.error(f"the lattice of {id} has a cycle through node {arc.source}; expected none")
    for node in finals:
        if node not in waiting and node != start:
            raise head.error(f"in the lattice of {id}, nothing leads to the final node {node}; was it cut short?")
    leads_on: set[int] = set()
    for node in reversed(order):
        if node in finals or any(arc.target in leads_on for arc in arcs_from[node]):
            leads_on.add(node)
            continue
        line = next((arc.line for arc in arcs_to[node]), head)
        raise line.error(
            f"in the lattice of {id}, node {node} leads to no final node; was the lattice cut short? If not, remove "
            "such nodes first, as fstconnect does"
        )
    numbers = {node: number for number, node in enumerate(order)}
    renumbered = [
        [arc._replace(source=numbers[node], target=numbers[arc.target]) for arc in arcs_from[node]] for node in order
    ]
    return Lattice(id, names, renumbered, {numbers[node]: own for node, own in finals.items()}, head.place, priors)


def _on_a_cycle(arcs: Sequence[Arc], outside: set[int]) -> Arc:
    """Return an arc of a cycle. outside: nodes before all cycles."""
    into = {arc.target: arc for arc in arcs if arc.source not in outside}
    node, seen = next(iter(into)), set()
    while node not in seen:  # backwards, from where every node has an arc into it from such a node
        seen.add(node)
        node = into[node].source
    return into[node]
