"""Beam search: the likeliest texts of a model, as far as a beam of some width finds them.

All prefixes go through the model together. From the hypotheses of one prefix and all their next tokens the `size` best
open ones are kept; a </s> among the `size` best ends its hypothesis, and max_tokens cuts it. The texts of at most
max_tokens tokens that end, and the beginnings of that length, are all that can happen up to there, and compete with
each other. Of equals, that with the better parent is kept, then that of the lower id.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.base.tokens import as_tokens
from chainrule.decoding.candidates import Candidates, Rules, best
from chainrule.decoding.constraints import Constraints
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.decoding.sampling import Ending
    from chainrule.protocol import LanguageModel

LARGEST = 4096  # hypotheses that stay open
LARGEST_ALPHA = 10
Fate = Literal["kept", "pruned", "end", "length", "stop"]


@dataclass(frozen=True, kw_only=True)
class BeamConfig:
    """size: how many hypotheses stay open. best: how many texts are given back.
    rank_by: what a hypothesis is ranked by: its log-probability (total), that over its number of predicted tokens
    (mean), or over ((5 + tokens) / 6)^alpha (wu: Wu et al. 2016, equation 14). coverage: the weight of their penalty
    for source positions that got little attention. groups: the beam is divided into so many, each of which pays
    `diversity` nats for a token that the groups before it took in the same step (Vijayakumar et al. 2018). must_end:
    only texts that end with </s>. stop: a search ends when nothing better can come (sure), or when nothing open would
    be better if it ended now (likely), which under other ranks than total is much sooner.

    Raises SettingError.
    """

    size: int = 5
    best: int = 1
    rank_by: Literal["total", "mean", "wu"] = "total"
    alpha: float = 0.6
    coverage: float = 0.0
    groups: int = 1
    diversity: float = 0.5
    must_end: bool = False
    stop: Literal["sure", "likely"] = "sure"

    def __post_init__(self) -> None:
        for name in ("size", "best", "groups"):
            if getattr(self, name) < 1:
                what = "a beam" if name == "size" else name
                raise SettingError(f"{what} of {getattr(self, name)}; expected 1 or more")
        if self.size > LARGEST:
            raise SettingError(f"a beam of {self.size}; expected at most {LARGEST}: wider ones gain nothing")
        if self.best > self.size:
            raise SettingError(f"a beam of {self.size} cannot give the {self.best} best; widen it")
        if self.size % self.groups:
            raise SettingError(f"a beam of {self.size} cannot be divided into {self.groups} groups of one size")
        if self.rank_by not in ("total", "mean", "wu"):
            raise SettingError(f"rank_by is {self.rank_by!r}; choose total, mean or wu")
        if self.stop not in ("sure", "likely"):
            raise SettingError(f"stop is {self.stop!r}; choose sure or likely")
        if self.alpha > LARGEST_ALPHA:
            raise SettingError(f"alpha is {self.alpha}; expected 0 to {LARGEST_ALPHA}, about 1 as a rule")
        for name in ("alpha", "coverage", "diversity"):
            if not 0 <= getattr(self, name) < math.inf:
                raise SettingError(f"{name} is {getattr(self, name)}; expected 0 or more")

    def divisor(self, length: int) -> float:
        """What the log-probability of `length` predicted tokens, </s> among them, is divided by; it never falls."""
        if self.rank_by == "total" or length == 0:
            return 1.0
        return float(length) if self.rank_by == "mean" else ((5 + length) / 6) ** self.alpha


class Hypothesis(NamedTuple):
    """tokens: without </s>. log_prob: nats, of the tokens, and of </s> where it ended. score: what it is ranked by.
    attention: where each predicted token looked in the source, if the model tells.
    """

    tokens: Int32[ndarray, " T"]
    log_prob: float
    score: float
    ending: Ending
    attention: Float32[ndarray, "predicted source"] | None = None


class TreeNode(NamedTuple):
    """A hypothesis that the search looked at. log_prob: of its last token; total: of it and all before it, since the
    prefix. score: what it is ranked by, if it is finished.
    """

    parent: int  # its place in the tree, or -1
    token: int
    log_prob: float
    total: float
    fate: Fate
    score: float | None = None


class Found(NamedTuple):
    """hypotheses: the best first, each another; fewer than asked for where the beam found fewer."""

    hypotheses: list[Hypothesis]
    tree: list[TreeNode]  # empty unless it was asked for; parents before children


class _Node(NamedTuple):
    """A hypothesis that may grow, or one that has just ended."""

    parent: _Node | None
    token: int  # meaningless in the root
    total: float  # log-probability since the prefix
    length: int  # predicted tokens
    place: int  # in the tree
    attention: Any = None  # over the source, when `token` was predicted

    def path(self) -> list[_Node]:
        """From the first token on."""
        path, node = [], self
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return path[::-1]

    def tokens(self) -> list[int]:
        return [node.token for node in self.path()]


@dataclass
class _Group:
    """What one group of one prefix's beam holds."""

    open: list[_Node]  # best first
    finished: list[tuple[float, list[int], Ending, _Node]] = field(default_factory=list)  # best first: minus the score


@dataclass(frozen=True)
class _Search:
    """The beam of one prefix."""

    prefix: list[int]
    groups: list[_Group]
    tree: list[TreeNode]


def search(
    model: LanguageModel[Any],
    prefixes: Sequence[Int32[ndarray, " prefix"]],
    config: BeamConfig | None = None,
    constraints: Constraints | None = None,
    *,
    until: Callable[[Sequence[int]], bool] | None = None,
    attention: Callable[[Any], Float32[ndarray, "B source"]] | None = None,
    keep_tree: bool = False,
    progress: Progress = silent,
) -> list[Found]:
    """The best texts after each prefix.

    A prefix's search stops when as many texts as asked for are at least as good as anything open can become, so that no
    better one is lost. until(tokens since the prefix): whether a hypothesis stops there. attention(state): where the
    prediction of the next token looks in the source, NaN past its end; for coverage and alignments. Raises
    SettingError.
    """
    config, constraints = config or BeamConfig(), constraints or Constraints()
    constraints.check(model)
    if config.must_end and model.end in constraints.banned:
        raise SettingError(
            "texts must end by themselves (must_end), but their end, </s>, is banned; leave one of them out"
        )
    if config.coverage and attention is None:
        raise SettingError("coverage needs a model that attends to a source; set it to 0, or give attention")
    searches = _roots(model, prefixes, config, constraints, keep_tree=keep_tree)
    starts = [np.array([*made.prefix, *constraints.begin], np.int32) for made in searches]
    state = model.select(model.start(starts), np.repeat(np.arange(len(starts), dtype=np.int32), config.groups))
    for length in range(len(constraints.begin), constraints.max_tokens + config.must_end):
        progress("searching", length, constraints.max_tokens)
        candidates = _candidates(model, state, config, constraints, length, searches)
        looked = None if attention is None else attention(state)
        kept: list[tuple[int, _Node]] = []  # rows of the state, and what they become
        row = 0
        for made in searches:
            taken: Counter[int] = Counter()
            for group in made.groups:
                rows = range(row, row + len(group.open))
                row = rows.stop
                most = None if keep_tree else 2 * (config.size // config.groups)  # each parent has one </s>
                children = _children(group, candidates, rows, looked, config.diversity, taken, most)
                chosen = list(_fates(children, config, constraints, until, model.end))
                taken.update(child.token for child, fate in chosen if fate != "pruned")
                grown = _entered(chosen, made, group, config, keep_tree=keep_tree)
                group.open = [node for _, node in grown]
                if grown and _may_improve(group, config, constraints):
                    kept += grown
                else:
                    group.open = []
        if not kept:
            break
        parents, nodes = zip(*kept, strict=True)
        tokens = np.array([node.token for node in nodes], np.int32)
        state = model.advance(model.select(state, np.array(parents, np.int32)), tokens)
    return [Found(_best(made, config), made.tree) for made in searches]


def _roots(
    model: LanguageModel[Any],
    prefixes: Sequence[Int32[ndarray, " prefix"]],
    config: BeamConfig,
    constraints: Constraints,
    *,
    keep_tree: bool,
) -> list[_Search]:
    """The searches before their first step: what texts must begin with is there already, and scored."""
    begin = np.array(constraints.begin, np.int32)
    scores = model.score([begin] * len(prefixes), prefixes=prefixes, end=False)
    searches = []
    for prefix, row in zip(prefixes, scores, strict=True):
        made = _Search(as_tokens(prefix).tolist(), [], [])
        node = _Node(None, -1, 0.0, 0, -1)
        for token, log_prob in zip(begin.tolist(), row.tolist(), strict=True):
            child = _Node(node, token, node.total + log_prob, node.length + 1, len(made.tree) if keep_tree else -1)
            if keep_tree:
                made.tree.append(TreeNode(node.place, token, log_prob, child.total, "kept"))
            node = child
        made.groups.extend(_Group([node]) for _ in range(config.groups))
        if begin.size == constraints.max_tokens and not config.must_end:  # nothing may be added
            for group in made.groups:
                group.finished.append((-node.total / config.divisor(node.length), node.tokens(), "length", node))
        searches.append(made)
    return searches


def _candidates(
    model: LanguageModel[Any],
    state: Any,
    config: BeamConfig,
    constraints: Constraints,
    length: int,
    searches: list[_Search],
) -> Candidates:
    """Enough of the best next tokens of each open hypothesis: its group's size, </s>, and those that others took."""
    if length == constraints.max_tokens:  # nothing but </s> may come
        log_probs = model.next_log_probs(state)[:, model.end : model.end + 1]
        return Candidates(np.full(log_probs.shape, model.end, np.int32), log_probs, log_probs.astype(np.float64))
    texts: list[list[int]] = []
    if constraints.no_repeat:
        texts = [[*made.prefix, *node.tokens()] for made in searches for group in made.groups for node in group.open]
    return best(model, state, config.size + 1, Rules(constraints, length, texts))


class _Child(NamedTuple):
    """A hypothesis with one more token. Children sort by cost (what groups pay for the same token included)."""

    cost: float
    rank: int  # of its parent
    token: int
    row: int  # of its parent in the state
    log_prob: float
    parent: _Node
    attention: Any


def _children(
    group: _Group,
    candidates: Candidates,
    rows: range,
    looked: Float32[ndarray, "B source"] | None,
    diversity: float,
    taken: Counter[int],
    most: int | None,
) -> list[_Child]:
    """What the open hypotheses of a group can become, best first; at most so many."""
    found = []
    part = slice(rows.start, rows.stop)
    of_rows = zip(
        *(of[part].tolist() for of in (candidates.tokens, candidates.log_probs, candidates.weights)), strict=True
    )
    for rank, (parent, (tokens, log_probs, weights)) in enumerate(zip(group.open, of_rows, strict=True)):
        for token, log_prob, weight in zip(tokens, log_probs, weights, strict=True):
            if weight > -math.inf:
                found.append((diversity * taken[token] - parent.total - log_prob, rank, token, log_prob))
    return [
        _Child(
            cost, rank, token, rows[rank], log_prob, group.open[rank], None if looked is None else looked[rows[rank]]
        )
        for cost, rank, token, log_prob in sorted(found)[:most]
    ]


def _fates(
    children: list[_Child],
    config: BeamConfig,
    constraints: Constraints,
    until: Callable[[Sequence[int]], bool] | None,
    end: int,
) -> Iterator[tuple[_Child, Fate]]:
    """What becomes of the children: the best that do not end fill the beam; </s> counts only among the best."""
    size = free = config.size // config.groups
    for place, child in enumerate(children):
        if child.token == end:
            yield child, "end" if place < size else "pruned"
        elif not free:
            yield child, "pruned"
        else:
            free -= 1
            if until is not None and until([*child.parent.tokens(), child.token]):
                yield child, "stop"
            else:
                is_cut = not config.must_end and child.parent.length + 1 == constraints.max_tokens
                yield child, "length" if is_cut else "kept"


def _entered(
    chosen: list[tuple[_Child, Fate]], made: _Search, group: _Group, config: BeamConfig, *, keep_tree: bool
) -> list[tuple[int, _Node]]:
    """The children that stay open, with the rows of their parents; those that end are put with the finished ones."""
    kept: list[tuple[int, _Node]] = []
    for child, fate in chosen:
        total, length = child.parent.total + child.log_prob, child.parent.length + 1
        node = _Node(child.parent, child.token, total, length, len(made.tree), child.attention)
        score = None
        if fate == "kept":
            kept.append((child.row, node))
        elif fate != "pruned":
            score = total / config.divisor(length)
            if config.coverage:
                score += config.coverage * _uncovered(node)
            insort(group.finished, (-score, node.tokens(), fate, node), key=lambda entry: entry[:2])
        if keep_tree:
            made.tree.append(TreeNode(child.parent.place, child.token, child.log_prob, total, fate, score))
    return kept


def _may_improve(group: _Group, config: BeamConfig, constraints: Constraints) -> bool:
    """Whether an open hypothesis can still become better than one of those that the group would give, or is likely to.

    Tokens only lower a log-probability, divisors never fall and coverage never adds: so the most that can become of a
    hypothesis is its own log-probability over the divisor of the longest text.
    """
    wanted = -(-config.best // config.groups)
    if len(group.finished) < wanted:
        return True
    longest = constraints.max_tokens if config.stop == "sure" else group.open[0].length
    most = max(node.total for node in group.open) / config.divisor(longest + 1)
    return -group.finished[wanted - 1][0] < most


def _uncovered(node: _Node) -> float:
    """The sum, over the source, of log min(1, the attention that it got): Wu et al. 2016, equation 14."""
    rows = [step.attention for step in node.path() if step.attention is not None]
    if not rows:
        return 0.0
    with np.errstate(divide="ignore"):
        return float(np.nansum(np.log(np.minimum(np.sum(rows, axis=0, dtype=np.float64), 1))))


def _best(made: _Search, config: BeamConfig) -> list[Hypothesis]:
    """The best finished ones of all groups, each text once."""
    per_group = -(-config.best // config.groups)
    found: dict[tuple[int, ...], Hypothesis] = {}
    entries = sorted(
        (entry for group in made.groups for entry in group.finished[:per_group]), key=lambda entry: entry[:2]
    )
    for cost, tokens, ending, node in entries:
        rows = [step.attention for step in node.path() if step.attention is not None]
        text = tokens[:-1] if ending == "end" else tokens
        attention = np.array(rows, np.float32) if rows else None
        found.setdefault(tuple(tokens), Hypothesis(np.array(text, np.int32), node.total, -cost, ending, attention))
    return list(found.values())[: config.best]
