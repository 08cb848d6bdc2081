"""Settings of word vectors, and what counts as a co-occurrence; does not import NumPy, so that help is quick."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from chainrule.base.options import check_settings, option
from chainrule.errors import SettingError

Method = Literal["skipgram", "cbow", "glove"]
Loss = Literal["negative", "hierarchical", "softmax"]


@dataclass(frozen=True, kw_only=True)
class VectorsConfig:
    """Defaults are word2vec.c's where nothing else is said. Raises SettingError.

    good:  VectorsConfig(method="cbow", dimensions=300, subwords="3-6")
    """

    method: Method = option(
        "skipgram",
        "skipgram: a word predicts those around it; cbow: those around it predict a word (Mikolov 2013); glove: "
        "logarithms of co-occurrences (Pennington 2014)",
    )
    loss: Loss | None = option(
        None,
        "negative: against words from the noise distribution, the default; hierarchical: by a Huffman tree; softmax: "
        "exact, over all words, for small vocabularies; glove has its own",
    )
    dimensions: int = option(100, "how many numbers a vector has", least=1, below=1 << 16)
    window: int | None = option(
        None,
        "words on each side: of up to 5, a random number; with glove 15, as in GloVe's demo",
        least=1,
        below=1 << 12,
    )
    epochs: int | None = option(None, "passes over the text: 5; with glove 15, as in GloVe's demo", least=1)
    rate: float | None = option(
        None,
        "the learning rate at the start: 0.025, with cbow 0.05; with subwords 0.05, as fastText; with glove 0.05, its "
        "own",
        least=0,
    )
    negatives: int = option(5, "random words for each pair, with the loss negative", least=1, below=1 << 10)
    noise_power: float | None = option(
        None, "random words are drawn by their counts to this power: 0.75; with subwords 0.5, as fastText", least=0
    )
    sample: float | None = option(
        None,
        "occurrences of words with a larger share than this are left out at random: 0.001; with subwords 0.0001, as "
        "fastText; 0: none; glove leaves none out",
        least=0,
        below=1,
    )
    subwords: str | None = option(
        None, "character n-grams of so many characters have vectors too, and a word is their mean: 3-6, as fastText"
    )
    buckets: int = option(2_000_000, "n-grams are hashed to so many, as fastText's", least=1, below=1 << 31)
    x_max: float = option(100.0, "glove: co-occurrences from this on weigh alike; GloVe's", least=0)
    power: float = option(0.75, "glove: rarer ones weigh their share of it to this power; GloVe's", least=0)
    seed: int = option(1, "the same seed gives the same vectors, on any number of threads", least=0)

    def __post_init__(self) -> None:
        check_settings(self)
        ngram_lengths(self.subwords)
        if self.method == "glove":
            for name in ("loss", "subwords", "sample", "noise_power"):
                if getattr(self, name) is not None:
                    raise SettingError(f"{name} is for skipgram and cbow; glove has none")
        of_glove, of_negative = self.method == "glove", self.method != "glove" and self.loss in (None, "negative")
        purposes = {
            "negatives": (of_negative, "for skipgram and cbow with the loss negative"),
            "buckets": (self.subwords is not None, "for subwords"),
            "x_max": (of_glove, "for the method glove"),
            "power": (of_glove, "for the method glove"),
        }
        for name, (applies, purpose) in purposes.items():
            if not applies and getattr(self, name) != getattr(type(self), name):
                raise SettingError(f"{name} is {purpose}; leave it out")
        if self.rate == 0 or self.x_max == 0:
            raise SettingError("rate or x_max is 0; expected more")

    def resolved(self) -> VectorsConfig:
        """Return the settings with the defaults that depend on the method."""
        is_glove, has_subwords = self.method == "glove", self.subwords is not None
        usual: dict[str, object] = {
            "window": 15 if is_glove else 5,
            "epochs": 15 if is_glove else 5,
            "rate": 0.05 if is_glove or has_subwords or self.method == "cbow" else 0.025,
        }
        if not is_glove:
            usual |= {
                "loss": "negative",
                "noise_power": 0.5 if has_subwords else 0.75,
                "sample": 1e-4 if has_subwords else 1e-3,
            }
        given = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return VectorsConfig(**{name: usual.get(name) if value is None else value for name, value in given.items()})  # type: ignore[arg-type]


def ngram_lengths(subwords: str | None) -> tuple[int, int] | None:
    """Return the shortest and the longest n-grams of a setting such as 3-6. Raises SettingError."""
    if subwords is None:
        return None
    match = re.fullmatch(r"(\d{1,3})-(\d{1,3})", subwords)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise SettingError(f"subwords is {subwords!r}; expected the shortest and the longest n-grams, such as 3-6")
    return int(match[1]), int(match[2])


Weighting = Literal["distance", "flat"]
Sides = Literal["both", "left", "right"]


@dataclass(frozen=True, kw_only=True)
class CooccurrenceConfig:
    """What counts as a co-occurrence, as GloVe's. Raises SettingError.

    window: words to each side within a document. weighting: a distance of d counts 1/d, or as much as any other.
    sides: both, so that the counts are symmetric; or only contexts left, or right, of a word.
    """

    window: int = option(
        15,
        "count pairs of words at most this far apart, instead of n-grams; GloVe uses 15",
        least=1,
        below=1 << 12,
        shown=False,
    )
    weighting: Weighting = option(
        "distance",
        "with --window: pairs d words apart count 1/d (distance, as GloVe) or 1 (flat)",
        needs="window",
    )
    sides: Sides = option(
        "both",
        "with --window: on which side of a word its contexts are; both gives symmetric counts",
        needs="window",
    )

    def __post_init__(self) -> None:
        check_settings(self)
