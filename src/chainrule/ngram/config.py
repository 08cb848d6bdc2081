"""The settings of an n-gram model; free of Numba, so that the command line can show them at once."""

from __future__ import annotations

from dataclasses import dataclass

from chainrule.errors import SettingError

MAX_ORDER = 24


@dataclass(frozen=True, kw_only=True)
class NGramConfig:
    """Interpolated modified Kneser-Ney (Chen and Goodman 1998), with KenLM's conventions.

    order: of the model; contexts are order - 1 tokens long.
    prune: drops n-grams seen at most this often: one number for each order from the unigrams' (always 0) on, the last
    one repeats.
    interpolate_unigrams: whether unigrams share in the uniform distribution; without it, <unk> gets all of that mass,
    in equal parts with the types of the vocabulary that the text lacks, if there are any (lmplz calls it so).
    strict_discounts: an order whose discounts cannot be estimated is an error, and does not fall back to 0.5, 1, 1.5.
    kenlm_compatible: repeats a known slip of lmplz (its issue 427) that shows only on tiny corpora: the suffixes of the
    last n-gram enter
        the counts of counts with their raw counts.
    """

    order: int = 5
    prune: tuple[int, ...] = (0,)
    interpolate_unigrams: bool = True
    strict_discounts: bool = False
    kenlm_compatible: bool = False

    def __post_init__(self) -> None:
        if not _is_whole(self.order):
            raise SettingError(f"order is {self.order!r}; expected a whole number")
        if not isinstance(self.prune, tuple) or not all(map(_is_whole, self.prune)):
            raise SettingError(f"prune is {self.prune!r}; expected a tuple of whole numbers, such as (0, 0, 1)")
        for name in ("interpolate_unigrams", "strict_discounts", "kenlm_compatible"):
            if not isinstance(getattr(self, name), bool):
                raise SettingError(f"{name} is {getattr(self, name)!r}; expected True or False")
        if not 1 <= self.order <= MAX_ORDER:
            raise SettingError(f"order {self.order} is not possible: an n-gram model has an order of 1 to {MAX_ORDER}")
        if not self.prune or self.prune[0] != 0:
            raise SettingError(
                f"prune {self.prune} must begin with 0: unigrams are the vocabulary and are not pruned by count"
            )
        if len(self.prune) > self.order:
            raise SettingError(
                f"prune has {len(self.prune)} thresholds for a model of order {self.order}; give one for each at most"
            )
        if list(self.prune) != sorted(self.prune):
            raise SettingError(
                f"prune {self.prune} must not fall from one order to the next, or contexts would go missing"
            )

    def threshold(self, order: int) -> int:
        """n-grams of this order are kept if seen more often than this."""
        return self.prune[min(order, len(self.prune)) - 1]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
