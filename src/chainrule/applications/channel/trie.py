"""Words as a trie of arrays: the nodes of one depth lie together, in the order of the words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.applications.channel.channel_kernels import NO_WORD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32, Int64
    from numpy import ndarray


class Trie(NamedTuple):
    """characters[n]: the code point that leads to node n. children[n] .. children[n + 1]: the nodes after it, by
    character.

    words[n]: the word that ends at node n, or NO_WORD. Node 0 is the root.
    """

    characters: Int32[ndarray, " nodes"]
    children: Int64[ndarray, " nodes+1"]
    words: Int64[ndarray, " nodes"]

    @classmethod
    def of(cls, words: Sequence[str]) -> Trie:
        """The trie of sorted, distinct words that are not empty."""
        codes = np.array(words).view(np.uint32).reshape(len(words), -1).astype(np.int32)  # (words, longest), 0 after
        differs = np.ones(codes.shape, np.bool_)
        differs[1:] = np.logical_or.accumulate(codes[1:] != codes[:-1], axis=1)
        lengths = np.array([len(word) for word in words])
        characters, parents, ends = [np.zeros(1, np.int32)], [], [np.full(1, NO_WORD, np.int64)]
        above, size = np.zeros(len(words), np.int64), 1
        for depth in range(codes.shape[1]):
            is_node = differs[:, depth] & (lengths > depth)
            ids = size + np.cumsum(is_node) - 1
            end = np.full(int(is_node.sum()), NO_WORD, np.int64)
            is_end = lengths == depth + 1
            end[ids[is_end] - size] = np.flatnonzero(is_end)
            characters.append(codes[is_node, depth])
            parents.append(above[is_node])
            ends.append(end)
            above, size = ids, size + end.size
        counts = np.bincount(np.concatenate(parents), minlength=size)
        return cls(np.concatenate(characters), np.concatenate([[1], 1 + np.cumsum(counts)]), np.concatenate(ends))
