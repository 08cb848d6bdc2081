"""Beam search for the most probable texts, and its tree.

All prefixes go through the model in one batch. In each step, the open hypotheses of a prefix are extended by all tokens
and the `size` best extensions stay open. A </s> among the `size` best finishes its hypothesis, and so does reaching
max_tokens; finished hypotheses of both kinds compete with each other. Ties go to the better parent, then to the lower
token id. The tree may also show the path of greedy search (`with_greedy`).
"""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from chainrule.base.arguments import as_tokens
from chainrule.base.progress import Progress, silent
from chainrule.base.threads import pause
from chainrule.decoding.config import BeamConfig, SamplingConfig
from chainrule.decoding.limits import Constraints
from chainrule.decoding.next_token import Candidates, History, best_candidates
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.decoding.form import FormState
    from chainrule.decoding.sampling import Ending
    from chainrule.protocol import LanguageModel

Fate = Literal["kept", "pruned", "end", "length", "stop"]


class Hypothesis(NamedTuple):
    """A finished hypothesis.

    tokens: its token ids, without </s>. log_prob: of the tokens, and of </s> if it ended with it, in nats. score: what
    it is ranked by, see `rank_by`. attention: the weights over the source for each predicted token; None if the model
    does not attend to a source.
    """

    tokens: Int32[ndarray, " T"]
    log_prob: float
    score: float
    ending: Ending
    attention: Float32[ndarray, "predicted source"] | None = None


class TreeNode(NamedTuple):
    """A hypothesis that the search considered or, with the fate greedy, that only greedy search did.

    log_prob: that of its last token, in nats. total: that of all its tokens after the prefix. score: what it is ranked
    by, if finished.
    """

    parent: int  # its index in the tree, or -1
    token: int
    log_prob: float
    total: float
    fate: Fate | Literal["greedy"]
    score: float | None = None


class SearchResult(NamedTuple):
    """The result of one prefix's search. hypotheses: distinct, best first; there may be fewer than `best`.

    is_proven: whether no other text within the constraints can be better: nothing that left the beam was.
    """

    hypotheses: list[Hypothesis]
    tree: list[TreeNode]  # parents before children; empty unless keep_tree
    is_proven: bool


class _Node(NamedTuple):
    """A hypothesis, open or finished, as its last token and its parent."""

    parent: _Node | None
    token: int  # -1 in the root
    total: float  # log-probability since the prefix
    length: int  # predicted tokens
    tree_index: int  # -1 if the tree is not kept
    attention: Any = None  # over the source, when `token` was predicted
    form: FormState | None = None  # of the text so far, of open hypotheses

    def path(self) -> list[_Node]:
        """Return the nodes from the first token to this one."""
        path, node = [], self
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return path[::-1]

    def tokens(self) -> list[int]:
        return [node.token for node in self.path()]


@dataclass
class _Group:
    """A group of the beam of one prefix."""

    open: list[_Node]  # best first
    finished: list[tuple[float, list[int], Ending, _Node]] = field(default_factory=list)  # (-score, ...), best first


@dataclass
class _Beam:
    """The beam of one prefix."""

    prefix: list[int]
    limit: int  # tokens of a text, at most
    groups: list[_Group]
    tree: list[TreeNode]
    lost: float = -math.inf  # the largest log-probability of a hypothesis, or a bound on it, that left the beam


def search(
    model: LanguageModel[Any],
    prefixes: Sequence[Int32[ndarray, " prefix"]],
    config: BeamConfig | None = None,
    constraints: Constraints | None = None,
    *,
    limits: Sequence[int] | None = None,
    until: Callable[[Sequence[int]], bool] | None = None,
    attention: Callable[[Any], Float32[ndarray, "B source"]] | None = None,
    keep_tree: bool = False,
    progress: Progress = silent,
) -> list[SearchResult]:
    """Search the best texts after each prefix.

    The search of a prefix stops once `best` finished hypotheses are at least as good as any open one can become.
    limits: the most tokens of a text after each prefix, in place of max_tokens. until: a function from the tokens after
    the prefix to whether the hypothesis stops there. attention: a function from a state to the attention of the next
    prediction over the source, NaN past its end; for coverage and alignments.
    Raises SettingError if the settings contradict each other or the model.
    """
    config, constraints = config or BeamConfig(), constraints or Constraints()
    constraints.check(model)
    if config.must_end and model.end in constraints.banned:
        raise SettingError(
            "must_end keeps only texts that end with </s>, but </s> is banned; remove one of the two settings"
        )
    if config.coverage and attention is None:
        raise SettingError("coverage needs a model that attends to a source; set it to 0")
    limits = [constraints.max_tokens] * len(prefixes) if limits is None else limits
    if any(limit < len(constraints.begin) for limit in limits):
        raise SettingError(f"begin has {len(constraints.begin)} tokens, more than a limit, {min(limits)}; raise it")
    state, attended_first = _begun(model, prefixes, constraints.begin, attention)
    beams = _roots(model, prefixes, limits, config, constraints, attended_first, keep_tree=keep_tree)
    longest = max(limits, default=0)
    places = [i for i, beam in enumerate(beams) for group in beam.groups if group.open]
    state = model.select(state, np.array(places, np.int32))
    for length in range(len(constraints.begin), longest + config.must_end):
        progress("searching", length, longest)
        candidates = _candidates(model, state, config, constraints, length, beams)
        attended = None if attention is None else attention(state)
        kept: list[tuple[int, _Node]] = []  # the open hypotheses, each with its parent's row in the state
        row = 0
        for beam in beams:
            used: Counter[int] = Counter()
            for group in beam.groups:
                rows = range(row, row + len(group.open))
                row = rows.stop
                limit = None if keep_tree else 2 * (config.size // config.groups)  # each parent has one </s>
                children, lost = _expand(group, candidates, rows, attended, config, used, limit)
                chosen = list(_decide_fates(children, config, beam.limit, until, model.end))
                pruned = (child.parent.total + child.log_prob for child, fate in chosen if fate == "pruned")
                beam.lost = max(beam.lost, lost, max(pruned, default=-math.inf))
                used.update(child.token for child, fate in chosen if fate != "pruned")
                grown = _enter(chosen, beam, group, config, keep_tree=keep_tree)
                group.open = [node for _, node in grown]
                if grown and _may_improve(group, config, beam.limit):
                    kept += grown
                else:
                    group.open = []
        if not kept:
            break
        parents, nodes = zip(*kept, strict=True)
        tokens = np.array([node.token for node in nodes], np.int32)
        state = model.advance(model.select(state, np.array(parents, np.int32)), tokens)
        pause()
    return [_result(beam, config) for beam in beams]


def _begun(
    model: LanguageModel[Any],
    prefixes: Sequence[Int32[ndarray, " prefix"]],
    begin: Sequence[int],
    attention: Callable[[Any], Float32[ndarray, "B source"]] | None,
) -> tuple[Any, list[Float32[ndarray, "B source"]]]:
    """Return the state after the tokens that texts begin with, and the attention when each of them was predicted."""
    if attention is None:
        return model.start([np.array([*as_tokens(prefix), *begin], np.int32) for prefix in prefixes]), []
    state, attended = model.start(prefixes), []
    for token in begin:
        attended.append(attention(state))
        state = model.advance(state, np.full(len(prefixes), token, np.int32))
    return state, attended


def _roots(
    model: LanguageModel[Any],
    prefixes: Sequence[Int32[ndarray, " prefix"]],
    limits: Sequence[int],
    config: BeamConfig,
    constraints: Constraints,
    attended: Sequence[Float32[ndarray, "B source"]],
    *,
    keep_tree: bool,
) -> list[_Beam]:
    """Return the beams before the first step. The tokens that texts must begin with are scored here.

    attended: when each of these tokens was predicted; empty if the model does not attend to a source.
    """
    begin = np.array(constraints.begin, np.int32)
    scores = model.score([begin] * len(prefixes), prefixes=prefixes, end=False)
    beams = []
    for i, (prefix, limit, row) in enumerate(zip(prefixes, limits, scores, strict=True)):
        beam = _Beam(as_tokens(prefix).tolist(), limit, [], [])
        node = _Node(None, -1, 0.0, 0, -1)
        rows = [step[i] for step in attended] or [None] * begin.size
        for token, log_prob, weights in zip(begin.tolist(), row.tolist(), rows, strict=True):
            total, tree_index = node.total + log_prob, len(beam.tree) if keep_tree else -1
            child = _Node(node, token, total, node.length + 1, tree_index, weights)
            if keep_tree:
                beam.tree.append(TreeNode(node.tree_index, token, log_prob, child.total, "kept"))
            node = child
        node = node._replace(form=constraints.begin_form())
        beam.groups.extend(_Group([node]) for _ in range(config.groups))
        if begin.size == limit and not config.must_end:  # no token can follow
            for group in beam.groups:
                group.finished.append((-node.total / config.divisor(node.length), node.tokens(), "length", node))
                group.open = []
        beams.append(beam)
    return beams


def _candidates(
    model: LanguageModel[Any],
    state: Any,
    config: BeamConfig,
    constraints: Constraints,
    length: int,
    beams: list[_Beam],
) -> Candidates:
    """Return the best next tokens of each open hypothesis: enough for a full beam and </s>, whatever other groups
    choose.

    Where a text has reached its limit, only </s> may follow.
    """
    is_full = np.array([beam.limit == length for beam in beams for group in beam.groups for _ in group.open])
    ends = None
    if is_full.any():
        log_probs = model.next_log_probs(state)[:, model.end : model.end + 1]
        ends = Candidates(np.full(log_probs.shape, model.end, np.int32), log_probs, log_probs.astype(np.float64))
        if is_full.all():
            return ends
    histories: list[History] = []
    if constraints.no_repeat or constraints.form is not None:
        open_nodes = [(beam, node) for beam in beams for group in beam.groups for node in group.open]
        histories = [History([*beam.prefix, *node.tokens()], len(beam.prefix), node.form) for beam, node in open_nodes]
    rules = constraints.rules(length, model.end, SamplingConfig())
    candidates = best_candidates(model, state, config.size + 1, rules, histories)
    if ends is not None:
        for column, only in zip(candidates, ends, strict=True):
            column[is_full, :1] = only[is_full]
        candidates.weights[is_full, 1:] = -np.inf
    return candidates


class _Child(NamedTuple):
    """An open hypothesis extended by one token. Children sort by cost."""

    cost: float  # minus the log-probability, plus the diversity penalty
    rank: int  # of its parent
    token: int
    row: int  # of its parent in the state
    log_prob: float
    parent: _Node
    attention: Any


def _expand(
    group: _Group,
    candidates: Candidates,
    rows: range,
    attended: Float32[ndarray, "B source"] | None,
    config: BeamConfig,
    used: Counter[int],
    limit: int | None,
) -> tuple[list[_Child], float]:
    """Return the extensions of a group's open hypotheses, best first, at most `limit`; and a bound on all others."""
    children = []
    lost = -math.inf
    part = slice(rows.start, rows.stop)
    columns = (candidates.tokens, candidates.log_probs, candidates.weights)
    by_row = zip(*(column[part].tolist() for column in columns), strict=True)
    for rank, (parent, (tokens, log_probs, weights)) in enumerate(zip(group.open, by_row, strict=True)):
        for token, log_prob, weight in zip(tokens, log_probs, weights, strict=True):
            if weight > -math.inf:
                children.append((config.diversity * used[token] - parent.total - log_prob, rank, token, log_prob))
        if len(weights) > config.size and weights[-1] > -math.inf:  # tokens that are not listed are no likelier
            lost = max(lost, parent.total + log_probs[-1])
    children.sort()
    if limit is not None and len(children) > limit:
        lost = max(lost, -children[limit][0])
    attention = [None] * len(rows) if attended is None else attended[part]
    best = [
        _Child(cost, rank, token, rows[rank], log_prob, group.open[rank], attention[rank])
        for cost, rank, token, log_prob in children[:limit]
    ]
    return best, lost


def _decide_fates(
    children: list[_Child],
    config: BeamConfig,
    limit: int,
    until: Callable[[Sequence[int]], bool] | None,
    end: int,
) -> Iterator[tuple[_Child, Fate]]:
    """Decide what becomes of each child: the best that do not end fill the beam; </s> must be among the best."""
    size = free = config.size // config.groups
    for index, child in enumerate(children):
        if child.token == end:
            yield child, "end" if index < size else "pruned"
        elif not free:
            yield child, "pruned"
        else:
            free -= 1
            if until is not None and until([*child.parent.tokens(), child.token]):
                yield child, "stop"
            else:
                is_cut = not config.must_end and child.parent.length + 1 == limit
                yield child, "length" if is_cut else "kept"


def _enter(
    chosen: list[tuple[_Child, Fate]], beam: _Beam, group: _Group, config: BeamConfig, *, keep_tree: bool
) -> list[tuple[int, _Node]]:
    """Add finished children to the group's finished hypotheses; return open ones with their parents' rows."""
    kept: list[tuple[int, _Node]] = []
    for child, fate in chosen:
        total, length = child.parent.total + child.log_prob, child.parent.length + 1
        node = _Node(child.parent, child.token, total, length, len(beam.tree), child.attention)
        score = None
        if fate == "kept":
            if child.parent.form is not None:
                form = child.parent.form.copy()
                form.add(child.token)
                node = node._replace(form=form)
            kept.append((child.row, node))
        elif fate != "pruned":
            score = total / config.divisor(length)
            if config.coverage:
                score += config.coverage * _uncovered(node)
            insort(group.finished, (-score, node.tokens(), fate, node), key=lambda entry: entry[:2])
        if keep_tree:
            beam.tree.append(TreeNode(child.parent.tree_index, child.token, child.log_prob, total, fate, score))
    return kept


def _may_improve(group: _Group, config: BeamConfig, limit: int) -> bool:
    """Return whether an open hypothesis can still (or, with stop likely, will probably) beat those that the group
    returns.

    More tokens only lower a log-probability, divisors never shrink and coverage is never positive: so a hypothesis
    scores at most its own log-probability over the divisor of the longest text.
    """
    returned = (config.size if config.stop == "full" else config.best + config.groups - 1) // config.groups
    if len(group.finished) < returned or config.stop == "full":
        return len(group.finished) < returned
    longest = limit if config.stop == "sure" else group.open[0].length
    bound = max(node.total for node in group.open) / config.divisor(longest + 1)
    return -group.finished[returned - 1][0] < bound


def _uncovered(node: _Node) -> float:
    """Return the sum over source positions of log min(1, total attention to it): Wu et al. 2016, equation 14."""
    rows = [step.attention for step in node.path() if step.attention is not None]
    if not rows:
        return 0.0
    with np.errstate(divide="ignore"):
        return float(np.nansum(np.log(np.minimum(np.sum(rows, axis=0, dtype=np.float64), 1))))


def _result(beam: _Beam, config: BeamConfig) -> SearchResult:
    hypotheses = _best_hypotheses(beam, config)
    is_plain = config.rank_by == "total" and config.groups == 1 and not config.coverage
    is_proven = is_plain and bool(hypotheses) and beam.lost <= hypotheses[-1].log_prob
    return SearchResult(hypotheses, beam.tree, is_proven)


def _best_hypotheses(beam: _Beam, config: BeamConfig) -> list[Hypothesis]:
    """Return the best finished hypotheses of all groups, without duplicates."""
    per_group = -(-config.best // config.groups)
    hypotheses: dict[tuple[int, ...], Hypothesis] = {}
    entries = sorted(
        (entry for group in beam.groups for entry in group.finished[:per_group]), key=lambda entry: entry[:2]
    )
    for cost, tokens, ending, node in entries:
        rows = [step.attention for step in node.path() if step.attention is not None]
        text = tokens[:-1] if ending == "end" else tokens
        attention = np.array(rows, np.float32) if rows else None
        hypotheses.setdefault(tuple(tokens), Hypothesis(np.array(text, np.int32), node.total, -cost, ending, attention))
    return list(hypotheses.values())[: config.best]


@dataclass(frozen=True)
class SearchTree:
    """What a beam search considered, and what greedy search takes: the likeliest token at each step.

    nodes: parents before children. best, greedy: the indices of the nodes of the best text and of the greedy one, in
    the order of their tokens. score: of the best text. greedy_score: of the greedy one, by the rule of the beam.
    """

    nodes: Sequence[TreeNode]
    best: tuple[int, ...]
    score: float
    greedy: tuple[int, ...]
    greedy_score: float

    @property
    def fork(self) -> int | None:
        """The step, from 0, at which greedy search first differs from the best text; None: both are the same text."""
        if self.best == self.greedy:
            return None
        pairs = zip(self.best, self.greedy, strict=False)
        return next(
            (i for i, (best, greedy) in enumerate(pairs) if best != greedy), min(len(self.best), len(self.greedy))
        )

    def depths(self) -> list[int]:
        """Return the step of each node, from 0."""
        depths: list[int] = []
        for node in self.nodes:
            depths.append(depths[node.parent] + 1 if node.parent >= 0 else 0)
        return depths


def with_greedy(
    model: LanguageModel[Any],
    prefix: Int32[ndarray, " prefix"],
    nodes: Sequence[TreeNode],
    config: BeamConfig,
    constraints: Constraints,
    until: Callable[[Sequence[int]], bool] | None = None,
) -> SearchTree:
    """Return the tree of a finished search with the path of greedy search, which is run here under the same
    constraints.

    Where it leaves the beam, nodes with the fate `greedy` are added. The other arguments are those of the search.
    """
    single = BeamConfig(must_end=config.must_end, size=1)
    [result] = search(model, [prefix], single, constraints, until=until, keep_tree=True)
    way = _path_to_best(result.tree)
    merged, greedy = _merged(nodes, [result.tree[i] for i in way])
    best = _path_to_best(nodes)
    total = merged[greedy[-1]].total if greedy else 0.0
    return SearchTree(
        merged, best, nodes[best[-1]].score or 0.0 if best else 0.0, greedy, total / config.divisor(len(greedy))
    )


def _path_to_best(nodes: Sequence[TreeNode]) -> tuple[int, ...]:
    """Return the indices of the nodes of the best finished text."""
    scores = {i: node.score for i, node in enumerate(nodes) if node.score is not None}
    i = max(scores, key=lambda i: scores[i], default=-1)
    path = []
    while i >= 0:
        path.append(i)
        i = nodes[i].parent
    return tuple(path[::-1])


def _merged(nodes: Sequence[TreeNode], way: Sequence[TreeNode]) -> tuple[list[TreeNode], tuple[int, ...]]:
    """Return the nodes, with those of a path that they lack, and the indices of the path's nodes."""
    merged = list(nodes)
    children: dict[tuple[int, int], int] = {}
    for i, node in enumerate(nodes):  # of the groups of a diverse beam, the one that kept it
        key = node.parent, node.token
        if key not in children or nodes[children[key]].fate == "pruned":
            children[key] = i
    parent, path = -1, []
    for node in way:
        i = children.get((parent, node.token), len(merged))
        if i == len(merged):
            merged.append(TreeNode(parent, node.token, node.log_prob, node.total, "greedy"))
        path.append(i)
        parent = i
    return merged, tuple(path)
