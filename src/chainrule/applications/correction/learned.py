"""A corrector that was learned from pairs of texts, in the lattice: what it writes joins the proposals."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Protocol

from chainrule.applications.correction.spelling import Proposal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.applications.correction.chunks import Chunk

_PROPOSED = -4.0  # log P of what was written, given what only the learned corrector proposes
_LONGEST = 4  # chunks that a proposal takes


class LearnedCorrector(Protocol):
    """P(right text | wrong text)."""

    def propose(self, texts: Sequence[str]) -> list[list[str]]:
        """For each text, what may have been meant by it."""

    def log_probs(self, texts: Sequence[str], meant: Sequence[str]) -> Float64[ndarray, " texts"]:
        """log P(meant | text) of each pair, in nats."""


def with_rewritings(
    chunks: Sequence[Chunk], rows: Sequence[Sequence[Proposal]], rewritings: Sequence[str]
) -> list[list[Proposal]]:
    """The proposals for each chunk, with those parts of other texts that differ from it there, if they are short."""
    given = [chunk.text for chunk in chunks]
    best: list[dict[tuple[int, str], float]] = [{(one.chunks, one.text): one.log_prob for one in row} for row in rows]
    for rewriting in rewritings:
        if not (words := rewriting.split()):
            continue
        for kind, i, j, a, b in SequenceMatcher(None, given, words, autojunk=False).get_opcodes():
            if kind == "equal":
                continue
            if i == j:  # something was lost: it stands before the next chunk, or after the last one
                is_end = i == len(given)
                i, j, a, b = (i - 1, j, a - 1, b) if is_end else (i, j + 1, a, b + 1)
            elif a == b and j < len(given):  # something was put in
                j, b = j + 1, b + 1
            if j - i <= _LONGEST and i >= 0 and a >= 0 and not any(chunk.kept and chunk.words for chunk in chunks[i:j]):
                best[i].setdefault((j - i, " ".join(words[a:b])), _PROPOSED)
    return [[Proposal(*key, log_prob) for key, log_prob in row.items()] for row in best]
