"""The inputs of classifiers: INPUTS names each kind, with how it is read, encoded and shown. Texts and pairs are here.

Nothing here knows networks: a classifier says which kind it reads (`reads`), and what of it is labelled (`unit`).
Other kinds are rows of the table classify.inputs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from chainrule.base.arguments import as_texts
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.features.classify.classification import (
    UnitVectors,
    labelled_units,
    log_probs_of,
    measure,
    predict,
    present_texts,
)
from chainrule.features.classify.labelled.pairs import (
    SIDES,
    LabelledPair,
    Pair,
    as_pairs,
    check_pairs,
    read_labelled_pairs,
    read_unlabelled_pairs,
)
from chainrule.features.classify.labelled.texts import UnitLabels, check_labelled, read_labelled
from chainrule.features.classify.ratings import RatingMeasurement, means_of, measure_ratings, ratings_of
from chainrule.features.classify.units import RATING_UNIT, check_can
from chainrule.kinds import Lazy, Table
from chainrule.text.tokenization.config import TokenizerConfig
from chainrule.text.units import split_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from chainrule.features.classify.classification import Labeller, Predicted
    from chainrule.features.classify.labelled.pairs import Sides
    from chainrule.features.metrics.classification import Classification
    from chainrule.text.corpus.records import OnBad
    from chainrule.text.tokenization.tokenizer import Tokenizer

PAIR_UNITS = ("pair", RATING_UNIT)  # one label for two inputs, or one number


def default_network(unit: str | None) -> str:
    """Return the network that labels a unit if none is named, as measured (docs/decisions/labels.md)."""
    if unit in PAIR_UNITS:
        return "bag"
    return "lstm" if unit == "word" else "convolution-bag"


@dataclass(frozen=True)
class InputKind:
    """A kind of input. An example has `input`, `labels` (one for each labelled unit) and `place`, as Labelled has.

    units: what may be labelled in an input; the first is the default. plural: the name of inputs in the plural, for
    messages. network: one that reads them, for messages. tokenizer: the default kind of tokenizer for the texts in
    inputs; None where there are none. read: (file or folder, unit, the network's configuration, on_bad, progress) ->
    labelled examples. Raises TextError. check: (examples, unit) -> the same, checked, where they were given from
    Python. Raises TypeError, TextError. inputs: (file or folder, the network's configuration, progress) -> the inputs
    in it, without labels. Raises TextError. None where a file of inputs is a text with one on each line.
    texts: inputs -> the texts in them, that a vocabulary is learned from; none, if there are none.
    encode: (tokenizer, examples, unit, the network's configuration) -> what a network reads of each. Raises TextError.
    given: inputs without labels, as they come from Python -> the same, checked. Raises TypeError.
    present: (classifier, tokenizer, inputs) -> what the network reads of each, and its units for people. Raises
    SettingError, TextError.
    settle: (the network's configuration, inputs to learn from) -> the configuration with what these inputs decide.
    sides: what pairs are of; None where inputs are no pairs. field, shown: what JSON calls a whole input, and what it
    has there. page: (inputs, their predictions, unit) -> HTML; None where they are not drawn.
    """

    units: tuple[str, ...]
    plural: str
    network: str
    tokenizer: str | TokenizerConfig | None
    read: Callable[[str, str, Any, OnBad, Progress], Sequence[Any]]
    check: Callable[[Iterable[Any], str], Sequence[Any]]
    inputs: Callable[[str, Any, Progress], Sequence[Any]] | None
    given: Callable[[Iterable[Any]], Sequence[Any]]
    texts: Callable[[Sequence[Any]], list[str]]
    encode: Callable[[Tokenizer, Sequence[Any], str, Any], Sequence[Any]]
    present: Callable[[Any, Tokenizer, Sequence[Any]], tuple[Sequence[Any], Sequence[list[str]]]]
    settle: Callable[[Any, Sequence[Any]], Any] = lambda network, inputs: network
    sides: Sides | None = None
    field: str = "text"
    shown: Callable[[Any], str] = str
    page: Lazy | None = None

    def unit(self, given: str | None) -> str:
        """Return the unit that is labelled: the first of this kind if none is given. Raises SettingError."""
        if given is None:
            return self.units[0]
        if given not in self.units:
            other = next((name for name, kind in INPUTS.items() if given in kind.units), None)
            if other is not None:
                raise SettingError(
                    f"unit is {given!r}, which is for {INPUTS[other].plural}, and this network reads {self.plural}; "
                    f"choose a network for {INPUTS[other].plural}, such as {INPUTS[other].network}"
                )
            raise SettingError(f"unit is {given!r}; of {self.plural}, expected {' or '.join(self.units)}")
        return given

    def predict(self, classifier: Any, tokenizer: Tokenizer, inputs: Sequence[Any]) -> list[Predicted]:
        """Return the labels of the units of inputs. Raises SettingError, TextError."""
        check_can(classifier.unit, "classify")
        return predict(classifier, *self.present(classifier, tokenizer, inputs))

    def embed(self, classifier: Any, tokenizer: Tokenizer, inputs: Sequence[Any]) -> list[UnitVectors]:
        """Return the vectors of the units of inputs. Raises SettingError, TextError."""
        check_can(classifier.unit, "embed")
        if not hasattr(classifier, "vectors"):
            raise SettingError("a fine-tuned classifier has no vectors of its own; embed with the network it began as")
        read, shown = self.present(classifier, tokenizer, inputs)
        return [UnitVectors(*own) for own in zip(shown, classifier.vectors(read), strict=True)]


Presented = tuple[list[Any], list[list[str]]]


def _present_texts(classifier: Any, tokenizer: Tokenizer, texts: Sequence[str]) -> Presented:
    return present_texts(classifier, tokenizer, tokenizer.encode_texts(texts), texts)


INPUTS: Table[InputKind] = Table(
    "classify.inputs",
    {
        "text": InputKind(
            units=("text", "word"),
            plural="texts",
            network="lstm",
            tokenizer="word",
            read=lambda name, unit, config, on_bad, progress: read_labelled(name, cast("Any", unit), on_bad),
            check=cast("Any", check_labelled),
            inputs=None,
            given=as_texts,
            texts=list,
            encode=lambda tokenizer, examples, unit, config: labelled_units(tokenizer, examples, cast("Any", unit)),
            present=_present_texts,
        ),
    },
)

# A dog is the same word at the beginning of a text and within the other.
_LOWER_CASE = TokenizerConfig(kind="word", normalise=("lower",))


@cache
def _pair_kind(name: Sides) -> InputKind:
    """Return the kind of inputs that are pairs of inputs of another kind."""
    sides, side = INPUTS[name], SIDES[name]

    def read(file: str, unit: str, config: Any, on_bad: OnBad, progress: Progress) -> Sequence[LabelledPair]:
        return read_labelled_pairs(file, name, ratings=unit == RATING_UNIT, on_bad=on_bad)

    def encode(tokenizer: Tokenizer, examples: Sequence[LabelledPair], unit: str, config: Any) -> Sequence[Any]:
        """Return both sides of all pairs at once."""
        pairs = [(side.example(own, each.place) for own in each.input) for each in examples]
        rows = sides.encode(tokenizer, [example for pair in pairs for example in pair], name, config)
        return list(zip(rows[::2], rows[1::2], strict=True))

    def present(classifier: Any, tokenizer: Tokenizer, pairs: Sequence[Any]) -> Presented:
        examples = [LabelledPair(Pair(*pair), (), f"pair {i}") for i, pair in enumerate(pairs, 1)]
        shown = [[f"{side.text(pair[0])} / {side.text(pair[1])}"] for pair in pairs]
        return list(encode(tokenizer, examples, "pair", config_of(classifier))), shown

    return InputKind(
        units=PAIR_UNITS,
        plural=f"pairs of {sides.plural}",
        network=sides.network,
        tokenizer=_LOWER_CASE if name == "text" else sides.tokenizer,
        read=read,
        check=lambda examples, unit: check_pairs(examples, side.type),
        inputs=lambda file, config, progress: read_unlabelled_pairs(file, name),
        given=lambda inputs: as_pairs(inputs, side.type),
        texts=lambda pairs: sides.texts([own for pair in pairs for own in pair]),
        encode=encode,
        present=present,
        sides=name,
    )


def kind_of(reads: str, unit: str | None) -> InputKind:
    """Return the kind of inputs that a network reads, given the labelled unit. Raises SettingError."""
    if unit not in PAIR_UNITS:
        return INPUTS[reads]
    if reads not in SIDES:
        raise SettingError(f"unit is {unit!r}; {INPUTS[reads].plural} are not labelled in pairs")
    return _pair_kind(cast("Sides", reads))


def inputs_of(classifier: object) -> InputKind:
    """Return the kind of inputs that a classifier reads."""
    return kind_of(getattr(classifier, "reads", "text"), getattr(classifier, "unit", None))


def config_of(classifier: object) -> Any:
    """Return the configuration of a classifier from scratch; None for one on a language model, whose kind needs
    none.
    """
    return getattr(classifier, "config", None)


def digest_of_inputs(examples: Sequence[Any]) -> str:
    """Return the SHA-256 of inputs (by their str) and labels, whatever file they are from."""
    rows = [(str(example.input), example.labels) for example in examples]
    return hashlib.sha256(repr(rows).encode("utf-8", "surrogatepass")).hexdigest()


def assess(
    classifier: Labeller, tokenizer: Tokenizer, examples: Iterable[Any], progress: Progress = silent
) -> Classification:
    """Return the figures of a classifier on labelled inputs; an input whose label was not seen in training counts as
    wrong.

    Raises SettingError; TextError where no label was seen in training.
    """
    check_can(classifier.unit, "assess")
    examples, inputs = _encoded(classifier, tokenizer, examples)
    shown = [_unit_rows(classifier, number, example) for number, example in enumerate(examples, 1)]
    return measure(classifier, examples, inputs, progress, shown=shown)


def _unit_rows(classifier: Labeller, number: int, example: Any) -> list[dict[str, Any]]:
    """What names each labelled unit of an example in a table. number: of the example, from 1."""
    kind, unit = inputs_of(classifier), classifier.unit
    if kind.sides is not None:
        text = SIDES[kind.sides].text
        return [{"first": text(example.input[0]), "second": text(example.input[1])}]
    if unit == kind.units[0] or isinstance(example.labels, UnitLabels):
        return [{kind.field: kind.shown(example.input)}]
    if unit == "word":
        return [{kind.field: number, unit: word} for word in split_words(example.text)]
    return [{kind.field: number, unit: i} for i in range(1, len(example.labels) + 1)]


def predicts_ratings(classifier: Labeller) -> bool:
    """Return whether the labels of a classifier are the numbers of a scale."""
    return bool(classifier.unit == RATING_UNIT)


def assess_ratings(
    classifier: Labeller, tokenizer: Tokenizer, examples: Iterable[Any], progress: Progress = silent
) -> RatingMeasurement:
    """Return the figures of a classifier's predicted ratings of pairs.

    Raises SettingError; TextError where a rating is no number.
    """
    if not predicts_ratings(classifier):
        raise SettingError(f"this classifier labels; it was trained with unit={classifier.unit!r}, not 'rating'")
    examples, inputs = _encoded(classifier, tokenizer, examples)
    true = ratings_of(examples)
    predicted = means_of(log_probs_of(classifier, inputs, progress), classifier.labels)
    shown = [_unit_rows(classifier, number, example)[0] for number, example in enumerate(examples, 1)]
    figures = zip(shown, true.tolist(), predicted.tolist(), strict=True)
    items = [{**own, "rating": rating, "predicted": mean} for own, rating, mean in figures]
    return replace(measure_ratings(predicted, true), items=items)


def _encoded(
    classifier: Labeller, tokenizer: Tokenizer, examples: Iterable[Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the checked examples, and the inputs as the classifier reads them."""
    kind = inputs_of(classifier)
    checked = kind.check(examples, classifier.unit)
    return checked, kind.encode(tokenizer, checked, classifier.unit, config_of(classifier))
