"""The settings of an n-gram model, and what counting on disk will take.

Does not import Numba, so that the command line can show the settings at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from chainrule.base.memory import bytes_shown
from chainrule.base.options import option
from chainrule.errors import SettingError

MAX_ORDER = 24
FAST, COMPACT = "fast", "compact"  # the layouts of a table; see ngram/trie/table.py and ngram/compact/table.py
SHARDS = "shards"  # fast tables that share out the n-grams; see ngram/saving.py

Smoothing = Literal[
    "maximum-likelihood",
    "laplace",
    "lidstone",
    "jelinek-mercer",
    "witten-bell",
    "absolute",
    "good-turing",
    "kneser-ney",
    "kneser-ney-backoff",
    "modified-kneser-ney",
    "modified-kneser-ney-backoff",
    "stupid-backoff",
]
WeightsBy = Literal["count", "level"]
Begins = Literal["one", "all"]

SMOOTHINGS: tuple[str, ...] = get_args(Smoothing)
BACKING_OFF = ("good-turing", "kneser-ney-backoff", "modified-kneser-ney-backoff")  # not interpolated
ONE_DISCOUNT = ("absolute", "kneser-ney", "kneser-ney-backoff")
DISCOUNTING = (*ONE_DISCOUNT, "modified-kneser-ney", "modified-kneser-ney-backoff", "good-turing")
TUNABLE = ("lidstone", "jelinek-mercer", "absolute", "kneser-ney", "modified-kneser-ney")
_ROUNDING = 1e-6  # how far the sum of weights may be from one
_NOT_PRUNED = ("maximum-likelihood", "laplace", "lidstone")  # no lower order could receive the mass of pruned n-grams
# The settings that apply to some smoothings only.
_ONLY_FOR = {
    "discount": ONE_DISCOUNT,
    "pseudocount": ("lidstone",),
    "weights": ("jelinek-mercer",),
    "weights_by": ("jelinek-mercer",),
    "backoff_weight": ("stupid-backoff",),
    "interpolate_unigrams": ("jelinek-mercer", "witten-bell", "absolute", "kneser-ney", "modified-kneser-ney"),
    "strict_discounts": DISCOUNTING,
    "kenlm_compatible": ("modified-kneser-ney",),
}


@dataclass(frozen=True, kw_only=True)
class NGramConfig:
    """An n-gram model: by default interpolated modified Kneser-Ney (Chen and Goodman 1998), with KenLM's conventions.

    order: N; contexts are N - 1 tokens long.
    smoothing: how counts become probabilities; the modules of `estimation/` hold the formulas.
    prune: drops n-grams seen at most this often: a threshold for each order, from unigrams (always 0) up; the last one
    repeats.
    discount: for absolute and Kneser-Ney, a constant for each order, from unigrams up; the last one repeats. If empty,
    discounts are estimated.
    pseudocount: what Lidstone adds to every count.
    weights: for Jelinek-Mercer, the share of each order in the probability, from unigrams up; they sum to one. One
    number more, at the beginning, is the share of the uniform distribution, without which unseen words have no
    probability. If empty, weights are estimated.
    weights_by: `level`: one Jelinek-Mercer weight for each order; `count`: one for each order and range of the
    context's count. backoff_weight: the factor of stupid backoff. open_vocabulary: whether <unk> gets a share of the
    mass for unseen words; if not, <unk> has a probability only where the training text contains it. begins: whether a
    document begins with one <s>, or with order - 1 of them, so that every context is full. interpolate_unigrams:
    whether unigrams are interpolated with the uniform distribution; if not, <unk> gets all of that mass, shared equally
    with the types of the vocabulary that the text lacks (lmplz's option of the same name). strict_discounts: raise an
    error for an order whose discounts cannot be estimated; do not fall back to 0.5, 1, 1.5. kenlm_compatible:
    reproduces a bug of lmplz (its issue 427) that shows only on tiny corpora: the suffixes of the last n-gram enter the
    counts of counts with their raw counts.
    """

    order: int = option(5, "the longest n-grams; contexts are order - 1 tokens long", flag=None)
    smoothing: Smoothing = option("modified-kneser-ney", "how counts become probabilities")
    prune: tuple[int, ...] = option(
        (0,),
        "drop n-grams seen at most this often, by order, unigrams first (0); the last number repeats: 0 0 1. Put texts "
        "before it",
    )
    discount: tuple[float, ...] = option(
        (),
        "for absolute and kneser-ney: the constants to subtract from counts, by order, unigrams first; the last "
        "repeats. By default they are estimated",
    )
    pseudocount: float = option(0.5, "for lidstone: the constant to add to each count")
    weights: tuple[float, ...] = option(
        (),
        "for jelinek-mercer: the share of each order, unigrams first; they sum to 1, as 0.3 0.7. One number more, in "
        "front, is the share of the uniform distribution. By default they are estimated",
    )
    weights_by: WeightsBy = option(
        "count", "for jelinek-mercer: a weight for each order, or for each order and size of count"
    )
    backoff_weight: float = option(0.4, "for stupid-backoff: the factor for each word of context dropped")
    open_vocabulary: bool = option(True, "reserve probability for <unk>, even if the text has none")
    begins: Begins = option("one", "begin documents with one <s>, or with order - 1 of them")
    interpolate_unigrams: bool = option(True, "interpolate all unigrams with the uniform distribution, not <unk> alone")
    strict_discounts: bool = option(
        False, "fail where discounts cannot be estimated, instead of using fixed ones", is_switch=True
    )
    kenlm_compatible: bool = option(False, "reproduce a bug of lmplz that shows only on tiny texts", is_switch=True)

    def __post_init__(self) -> None:
        if not _is_whole(self.order):
            raise SettingError(f"order is {self.order!r}; expected a whole number")
        if not isinstance(self.prune, tuple) or not all(map(_is_whole, self.prune)):
            raise SettingError(f"prune is {_listed(self.prune)}; expected whole numbers for the orders, such as 0 0 1")
        for name in ("open_vocabulary", "interpolate_unigrams", "strict_discounts", "kenlm_compatible"):
            if not isinstance(getattr(self, name), bool):
                raise SettingError(f"{name} is {getattr(self, name)!r}; expected True or False")
        for name, choices in (
            ("smoothing", SMOOTHINGS),
            ("weights_by", ("count", "level")),
            ("begins", ("one", "all")),
        ):
            if getattr(self, name) not in choices:
                raise SettingError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(choices)}")
        if not 1 <= self.order <= MAX_ORDER:
            raise SettingError(f"order {self.order} is not possible: an n-gram model has an order of 1 to {MAX_ORDER}")
        self._check_prune()
        self._check_parameters()

    def _check_prune(self) -> None:
        negative = [threshold for threshold in self.prune if threshold < 0]
        if negative:
            raise SettingError(
                f"prune has a threshold of {negative[0]}; n-grams seen at most that often are dropped, so give 0 or "
                "more"
            )
        if not self.prune or self.prune[0] != 0:
            raise SettingError(
                f"prune {_listed(self.prune)} must begin with 0: unigrams are the vocabulary and are not pruned by "
                "count"
            )
        if len(self.prune) > self.order:
            raise SettingError(
                f"prune has {len(self.prune)} thresholds for a model of order {self.order}; give at most one for each "
                "order"
            )
        if list(self.prune) != sorted(self.prune):
            raise SettingError(
                f"prune {_listed(self.prune)} must not decrease from one order to the next, or kept n-grams would "
                "lose their contexts"
            )
        if self.prune[-1] > 0 and self.smoothing in _NOT_PRUNED:
            raise SettingError(
                f"{self.smoothing} cannot be pruned: no lower order would receive the mass of the pruned n-grams; "
                "choose another smoothing, or no pruning"
            )

    def _check_parameters(self) -> None:
        for name, smoothings in _ONLY_FOR.items():
            if self.smoothing not in smoothings and getattr(self, name) != getattr(NGramConfig, name):
                raise SettingError(
                    f"{self.smoothing} has no {name}; only {', '.join(smoothings)} "
                    f"{'has' if len(smoothings) == 1 else 'have'} it"
                )
        if not isinstance(self.discount, tuple) or not all(_is_between(value, 0, 1) for value in self.discount):
            raise SettingError(
                f"discount is {_listed(self.discount)}; expected numbers from 0 to 1 for the orders, such as 0.5 0.75"
            )
        if len(self.discount) > self.order:
            raise SettingError(
                f"discount has {len(self.discount)} numbers for a model of order {self.order}; give at most one for "
                "each order"
            )
        self._check_weights()
        if not _is_between(self.pseudocount, 0, 1e6) or self.pseudocount == 0:
            raise SettingError(f"pseudocount is {self.pseudocount!r}; expected a number above 0 and up to a million")
        if not _is_between(self.backoff_weight, 0, 1) or self.backoff_weight == 0:
            raise SettingError(f"backoff_weight is {self.backoff_weight!r}; expected a number above 0 and up to 1")
        if not self.open_vocabulary and not self.interpolate_unigrams:
            raise SettingError(
                "interpolate_unigrams=False gives <unk> all unseen mass, but open_vocabulary=False gives it none; "
                "choose one of the two"
            )

    def _check_weights(self) -> None:
        if not isinstance(self.weights, tuple) or not all(_is_between(value, 0, 1) for value in self.weights):
            raise SettingError(
                f"weights is {_listed(self.weights)}; expected numbers from 0 to 1 for the orders, such as 0.3 0.7"
            )
        if not self.weights:
            return
        if len(self.weights) not in (self.order, self.order + 1):
            raise SettingError(
                f"weights is {_listed(self.weights)}; expected {self.order} numbers, one for each order, unigrams "
                "first; or one more, in front of them, for the uniform distribution"
            )
        if abs(sum(self.weights) - 1) > _ROUNDING:
            raise SettingError(f"weights {_listed(self.weights)} sum to {sum(self.weights):g}; they must sum to 1")
        if self.weights_by != NGramConfig.weights_by:
            raise SettingError(
                "weights_by says how weights are estimated, and weights are given; choose one of the two"
            )

    @property
    def unknown_has_whole_mass(self) -> bool:
        """Whether P(<unk>) is the probability of all unseen words together, not of a single one."""
        return not self.interpolate_unigrams or self.smoothing in BACKING_OFF

    @property
    def folder_only(self) -> str:
        """What an ARPA file cannot express about this model; empty if nothing."""
        if self.smoothing == "stupid-backoff":
            return "stupid-backoff, whose scores do not sum to one,"
        return "a model of documents that begin with several <s>" if self.begins == "all" else ""

    @property
    def needs_whole_counts(self) -> bool:
        """Whether estimation needs all counts in memory, beside the probabilities or to find weights."""
        finds_weights = self.smoothing == "jelinek-mercer" and not self.weights
        return self.smoothing in BACKING_OFF or finds_weights

    def threshold(self, order: int) -> int:
        """Return the count above which n-grams of an order are kept."""
        return self.prune[min(order, len(self.prune)) - 1]

    def min_count(self, order: int) -> int:
        """Return the count below which n-grams of an order are pruned; unigrams never are."""
        return 0 if order == 1 else self.threshold(order) + 1

    def given_discount(self, order: int) -> float | None:
        """Return the constant that `discount` sets for an order; None where it is to be estimated."""
        return self.discount[min(order, len(self.discount)) - 1] if self.discount else None


def check_tunable(config: object) -> None:
    """Raise SettingError where the model has nothing to tune on a held-out text."""
    if not isinstance(config, NGramConfig):
        raise SettingError("only n-gram models can be tuned on a held-out text")
    if config.smoothing not in TUNABLE:
        raise SettingError(
            f"{config.smoothing} has nothing to tune; {', '.join(TUNABLE)} have weights, discounts or a constant"
        )
    if config.weights:
        raise SettingError("both weights and a text to tune them on are given; choose one of the two")
    if config.discount:
        raise SettingError("both a discount and a text to tune it on are given; choose one of the two")


def check_limitable(config: object, *, tuned: bool) -> None:
    """Raise SettingError where the memory for counting cannot be limited."""
    if not isinstance(config, NGramConfig):
        raise SettingError("only the counting of n-grams can be limited in memory; leave memory out")
    if tuned or config.needs_whole_counts:
        what = "tuning" if tuned else config.smoothing
        raise SettingError(
            f"{what} needs all counts in memory, which therefore cannot be limited; leave memory out, or choose "
            f"{'no text to tune on' if tuned else 'another smoothing'}"
        )


def _listed(values: object) -> str:
    """Return a tuple as on the command line; any other value as Python writes it."""
    return " ".join(map(repr, values)) or "empty" if isinstance(values, tuple) else f"{values!r}, which is not a tuple"


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_between(value: object, low: float, high: float) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and low <= float(value) <= high  # type: ignore[arg-type]


@dataclass(frozen=True)
class DiskPlan:
    """How a text is counted on disk.

    run_tokens: about how many tokens are counted at a time. memory: how many bytes may be held. bytes: the size of the
    temporary files in `folder`.
    """

    tokens: int
    run_tokens: int
    memory: int
    bytes: int
    folder: str

    def __str__(self) -> str:
        runs = -(-self.tokens // self.run_tokens)
        return (
            f"counting {self.tokens:,} tokens in {runs:,} run{'s' * (runs != 1)} on disk, with about "
            f"{bytes_shown(self.bytes)} of temporary files in {self.folder}"
        )


def ignore_plan(plan: DiskPlan) -> None:
    """Do nothing, as a callback for plans."""
