"""The inputs of classifiers: INPUTS has a line for each kind, with how it is read, encoded, shown and measured.

Nothing here knows networks: a classifier says which kind it reads (`reads`), and what of it is labelled (`unit`).
Also what a network over graphs must know of its training set, and how well a detector finds boxes in pictures.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.base.arguments import as_examples, as_instances, as_list, as_texts
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError, TextError
from chainrule.features.classify.classification import (
    UnitVectors,
    labelled_units,
    log_probs_of,
    measure,
    predict,
    present_texts,
)
from chainrule.features.classify.labelled_pairs import (
    LabelledPair,
    Pair,
    as_pairs,
    check_pairs,
    read_labelled_pairs,
    read_unlabelled_pairs,
)
from chainrule.features.classify.labelled_texts import Labelled, check_labelled, read_labelled
from chainrule.features.classify.ratings import RatingMeasurement, means_of, measure_ratings, ratings_of
from chainrule.features.trees.structures.arrays import edge_types, encode_labelled_graphs, encode_nodes, encode_trees
from chainrule.features.trees.structures.graph import UNITS as GRAPH_UNITS
from chainrule.features.trees.structures.graph import Graph, LabelledGraph
from chainrule.features.trees.structures.graph import labelled as labelled_graphs
from chainrule.features.trees.structures.graph_files import read_graphs, read_unlabelled_graphs
from chainrule.features.trees.structures.tree import LabelledTree, Tree
from chainrule.features.trees.structures.tree import labelled as labelled_trees
from chainrule.features.trees.structures.tree_files import UNITS, read_trees, read_unlabelled
from chainrule.features.vision.object_detection import LEAST_SCORE, BoxMeasurement, measure_boxes
from chainrule.features.vision.pictures.boxes import boxes_framed, boxes_in_picture, read_boxes
from chainrule.features.vision.pictures.labelled import check_framed, check_pictures, read_pictures, read_pixel_labels
from chainrule.features.vision.pictures.labelled import read_unlabelled as read_unlabelled_pictures
from chainrule.features.vision.pictures.picture import UNITS as PICTURE_UNITS
from chainrule.features.vision.pictures.picture import as_picture, fit_to_frame
from chainrule.text.tokenization.config import TokenizerConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from chainrule.evaluation.classification import Classification
    from chainrule.features.classify.classification import Labeller, Predicted
    from chainrule.features.classify.labelled_pairs import Sides
    from chainrule.features.trees.structures.arrays import GraphArrays
    from chainrule.features.vision.pictures.boxes import BoxLabels, Detection
    from chainrule.text.corpus.records import OnBad
    from chainrule.text.tokenization.tokenizer import Tokenizer

BOX_UNIT = "box"


def detect(
    detector: Any, pictures: Iterable[Any], least: float = 0.5, progress: Progress = silent
) -> list[list[Detection]]:
    """The boxes that a classifier of boxes finds in pictures, in pixels of each. Raises SettingError, TextError."""
    _check_detector(detector)
    if not 0 < least <= 1:
        raise SettingError(f"least is {least:g}; expected a score above 0, at most 1")
    given, frame = [as_picture(picture) for picture in pictures], detector.config.frame
    found = detector.detect([fit_to_frame(picture, frame) for picture in given], progress, least=least)
    results = []
    for picture, several in zip(given, found, strict=True):
        height, width = picture.pixels.shape[:2]
        boxes = np.array([one.box for one in several], np.float32).reshape(-1, 4)
        own = boxes_in_picture(boxes, (height, width), frame).tolist()
        results.append([one._replace(box=tuple(box)) for one, box in zip(several, own, strict=True)])
    return results


def assess_boxes(detector: Any, examples: Iterable[Any], progress: Progress = silent) -> BoxMeasurement:
    """The figures of a detector on labelled pictures. Raises SettingError, TextError."""
    _check_detector(detector)
    checked, frame = check_pictures(examples, BOX_UNIT), detector.config.frame
    true = [boxes_framed(item.input, cast("BoxLabels", item.labels), frame) for item in checked]
    if not any(map(len, true)):
        raise TextError("there is no box in these pictures; at least one is needed")
    found = detector.detect([fit_to_frame(item.input, frame) for item in checked], progress, least=LEAST_SCORE)
    return measure_boxes(found, true)


def _check_detector(detector: Any) -> None:
    """Raises SettingError."""
    if detector.unit != BOX_UNIT:
        raise SettingError(f"this classifier labels a whole {detector.unit}, not boxes; train one with unit='box'")


def check_graphs(examples: Iterable[Any], unit: str) -> list[LabelledGraph]:
    """Checks labelled graphs given from Python. Raises TypeError; TextError, also where words and numbers are mixed."""
    examples = as_examples(examples, LabelledGraph, "labelled graphs", "read_graphs")
    first = examples[0]
    other = next((each for each in examples if each.input.numbers != first.input.numbers), None)
    if other is not None:
        raise TextError(
            f"{other.place}: nodes hold {other.input.numbers or 'no'} numbers each, and in {first.place} "
            f"{first.input.numbers or 'none'}; expected words in all graphs, or as many numbers"
        )
    return [labelled_graphs(each.input, unit, each.place) for each in examples]


def settle(network: Any, graphs: Sequence[Graph]) -> Any:
    """The settings of a network, completed from training graphs: types of edges, and how numbers are standardised."""
    network = replace(network, edge_types=edge_types(graphs))
    if not graphs[0].numbers:
        return network
    numbers = np.concatenate([np.array(graph.nodes, np.float64) for graph in graphs])
    deviations = numbers.std(0)
    deviations[deviations == 0] = 1  # the same everywhere
    return replace(network, means=tuple(numbers.mean(0).tolist()), deviations=tuple(deviations.tolist()))


def encode_graphs(
    tokenizer: Tokenizer, examples: Sequence[LabelledGraph], unit: str, network: Any
) -> list[GraphArrays]:
    """The arrays that a network reads for labelled graphs. Raises TextError."""
    units = [
        [0] if unit == "graph" else [i for i, label in enumerate(each.input.labels) if label is not None]
        for each in examples
    ]
    return _encode_graphs(
        network, tokenizer, [each.input for each in examples], units, [each.place for each in examples]
    )


def present_graphs(
    classifier: Any, tokenizer: Tokenizer, graphs: Sequence[Graph]
) -> tuple[list[GraphArrays], list[list[str]]]:
    """The arrays that a network reads for graphs; and, to show, the graphs or all of their nodes. Raises TextError."""
    is_whole = classifier.unit == "graph"
    units = [[0] if is_whole else list(range(len(graph))) for graph in graphs]
    places = [f"graph {i}" for i in range(1, len(graphs) + 1)]
    inputs = _encode_graphs(classifier.config, tokenizer, graphs, units, places)
    shown = [
        [graph.text() or place] if is_whole else [graph.shown(node) for node in range(len(graph))]
        for graph, place in zip(graphs, places, strict=True)
    ]
    return inputs, shown


def _encode_graphs(
    network: Any, tokenizer: Tokenizer, graphs: Sequence[Graph], units: Sequence[list[int]], places: Sequence[str]
) -> list[GraphArrays]:
    return encode_labelled_graphs(
        tokenizer, graphs, units, places, types=network.edge_types, numbers=len(network.means)
    )


RATING_UNIT = "rating"
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
    messages. tokenizer: the default kind of tokenizer for the texts in inputs; None where there are none. read: (file
    or folder, unit, the network's configuration, on_bad, progress) -> labelled examples. Raises TextError. check:
    (examples, unit) -> the same, checked, where they were given from Python. Raises TypeError, TextError. inputs: (file
    or folder, the network's configuration, progress) -> the inputs in it, without labels. Raises TextError. None where
    a file of inputs is a text with one on each line.
    texts: inputs -> the texts in them, that a vocabulary is learned from; none, if there are none.
    encode: (tokenizer, examples, unit, the network's configuration) -> what a network reads of each. Raises TextError.
    given: inputs without labels, as they come from Python -> the same, checked. Raises TypeError.
    present: (classifier, tokenizer, inputs) -> what the network reads of each, and its units for people. Raises
    SettingError, TextError.
    settle: (the network's configuration, inputs to learn from) -> the configuration with what these inputs decide.
    """

    units: tuple[str, ...]
    plural: str
    tokenizer: str | TokenizerConfig | None
    read: Callable[[str, str, Any, OnBad, Progress], Sequence[Any]]
    check: Callable[[Iterable[Any], str], Sequence[Any]]
    inputs: Callable[[str, Any, Progress], Sequence[Any]] | None
    given: Callable[[Iterable[Any]], Sequence[Any]]
    texts: Callable[[Sequence[Any]], list[str]]
    encode: Callable[[Tokenizer, Sequence[Any], str, Any], Sequence[Any]]
    present: Callable[[Any, Tokenizer, Sequence[Any]], tuple[Sequence[Any], Sequence[list[str]]]]
    settle: Callable[[Any, Sequence[Any]], Any] = lambda network, inputs: network

    def unit(self, given: str | None) -> str:
        """What is labelled, the default where it is not given. Raises SettingError."""
        if given is None:
            return self.units[0]
        if given not in self.units:
            other = next((name for name, kind in INPUTS.items() if given in kind.units), None)
            if other is not None:
                raise SettingError(
                    f"unit is {given!r}, which is for {INPUTS[other].plural}, and this network reads {self.plural}; "
                    f"choose a network for {INPUTS[other].plural}, such as {_NETWORKS[other]}"
                )
            raise SettingError(f"unit is {given!r}; of {self.plural}, expected {' or '.join(self.units)}")
        return given

    def predict(self, classifier: Any, tokenizer: Tokenizer, inputs: Sequence[Any]) -> list[Predicted]:
        """The labels of the units of inputs. Raises SettingError, TextError."""
        if classifier.unit == BOX_UNIT:
            raise SettingError("this classifier finds boxes, which have a place beside their label; call detect")
        return predict(classifier, *self.present(classifier, tokenizer, inputs))

    def embed(self, classifier: Any, tokenizer: Tokenizer, inputs: Sequence[Any]) -> list[UnitVectors]:
        """The vectors of the units of inputs. Raises SettingError, TextError."""
        if classifier.unit == BOX_UNIT:
            raise SettingError("a classifier of boxes has no vector for a whole picture; embed with one of pictures")
        if not hasattr(classifier, "vectors"):
            raise SettingError("a fine-tuned classifier has no vectors of its own; embed with the network it began as")
        read, shown = self.present(classifier, tokenizer, inputs)
        return [UnitVectors(*own) for own in zip(shown, classifier.vectors(read), strict=True)]


Presented = tuple[list[Any], list[list[str]]]


def _present_texts(classifier: Any, tokenizer: Tokenizer, texts: Sequence[str]) -> Presented:
    return present_texts(classifier, tokenizer, tokenizer.encode_texts(texts), texts)


def _check_trees(examples: Iterable[Any], unit: str) -> list[LabelledTree]:
    examples = as_examples(examples, LabelledTree, "labelled trees", "read_trees")
    return [labelled_trees(each.input, unit, each.place) for each in examples]


def _present_trees(classifier: Any, tokenizer: Tokenizer, trees: Sequence[Tree]) -> Presented:
    nodes = [[tree.root] if classifier.unit == "tree" else list(range(len(tree))) for tree in trees]
    places, config = [f"tree {i}" for i in range(1, len(trees) + 1)], classifier.config
    inputs = encode_nodes(tokenizer, trees, nodes, places, config.binarise, config.most_children)
    shown = [[tree.text(node) for node in own] for tree, own in zip(trees, nodes, strict=True)]
    return list(inputs), shown


def _present_pictures(classifier: Any, tokenizer: Tokenizer, inputs: Sequence[Any]) -> Presented:
    pictures = [as_picture(given) for given in inputs]
    frame = classifier.config.frame
    if classifier.unit == "pixel":
        for picture in pictures:
            check_framed(picture, frame)
    pixels = [fit_to_frame(picture, frame) for picture in pictures]
    if classifier.unit == "pixel":
        places = [f"{column},{row}" for row in range(frame.height) for column in range(frame.width)]
        return list(pixels), [places] * len(pictures)
    return list(pixels), [[picture.name] for picture in pictures]


def _encode_pictures(tokenizer: Tokenizer, examples: Sequence[Any], unit: str, config: Any) -> list[Any]:
    if unit == "pixel":
        for example in examples:
            check_framed(example.input, config.frame)
    return [fit_to_frame(example.input, config.frame) for example in examples]


_NETWORKS = {"text": "lstm", "tree": "tree", "picture": "resnet", "graph": "graph"}  # that read a kind of inputs
_PICTURE_READERS = {"picture": read_pictures, "pixel": read_pixel_labels, "box": read_boxes}

INPUTS: dict[str, InputKind] = {
    "text": InputKind(
        units=("text", "word"),
        plural="texts",
        tokenizer="word",
        read=lambda name, unit, config, on_bad, progress: read_labelled(name, cast("Any", unit), on_bad),
        check=cast("Any", check_labelled),
        inputs=None,
        given=as_texts,
        texts=list,
        encode=lambda tokenizer, examples, unit, config: labelled_units(tokenizer, examples, cast("Any", unit)),
        present=_present_texts,
    ),
    "tree": InputKind(
        units=UNITS,
        plural="trees",
        tokenizer="whitespace",
        read=lambda name, unit, config, on_bad, progress: read_trees(name, unit, on_bad),
        check=_check_trees,
        inputs=lambda name, config, progress: read_unlabelled(name),
        given=lambda inputs: as_instances(inputs, Tree, "trees"),
        texts=lambda trees: [tree.text() for tree in trees],
        encode=lambda tokenizer, examples, unit, config: encode_trees(
            tokenizer, examples, unit, config.binarise, config.most_children
        ),
        present=_present_trees,
    ),
    "picture": InputKind(
        units=PICTURE_UNITS,
        plural="pictures",
        tokenizer=None,
        read=lambda name, unit, config, on_bad, progress: _PICTURE_READERS[unit](name, config.frame, on_bad, progress),
        check=check_pictures,
        inputs=lambda name, config, progress: read_unlabelled_pictures(name, config.frame, progress),
        given=lambda inputs: as_list("inputs", inputs),
        texts=lambda pictures: [],
        encode=_encode_pictures,
        present=_present_pictures,
    ),
    "graph": InputKind(
        units=GRAPH_UNITS,
        plural="graphs",
        tokenizer="whitespace",
        read=lambda name, unit, config, on_bad, progress: read_graphs(name, unit, on_bad),
        check=check_graphs,
        inputs=lambda name, config, progress: read_unlabelled_graphs(name),
        given=lambda inputs: as_instances(inputs, Graph, "graphs"),
        texts=lambda graphs: [text for graph in graphs if (text := graph.text())],
        encode=encode_graphs,
        present=present_graphs,
        settle=settle,
    ),
}


# A dog is the same word at the beginning of a text and within the other.
_LOWER_CASE = TokenizerConfig(kind="word", normalise=("lower",))


def _pair_kind(name: Sides, side_type: type, as_example: Callable[[Any, str], Any]) -> InputKind:
    """Pairs of inputs of a kind. as_example: (side, place) -> an example that this kind encodes."""
    sides = INPUTS[name]

    def read(file: str, unit: str, config: Any, on_bad: OnBad, progress: Progress) -> Sequence[LabelledPair]:
        return read_labelled_pairs(file, name, ratings=unit == RATING_UNIT, on_bad=on_bad)

    def encode(tokenizer: Tokenizer, examples: Sequence[LabelledPair], unit: str, config: Any) -> Sequence[Any]:
        """Both sides of all pairs at once."""
        pairs = [(as_example(side, each.place) for side in each.input) for each in examples]
        rows = sides.encode(tokenizer, [example for pair in pairs for example in pair], name, config)
        return list(zip(rows[::2], rows[1::2], strict=True))

    def present(classifier: Any, tokenizer: Tokenizer, pairs: Sequence[Any]) -> Presented:
        examples = [LabelledPair(Pair(*pair), (), f"pair {i}") for i, pair in enumerate(pairs, 1)]
        shown = [[f"{_shown(pair[0])} / {_shown(pair[1])}"] for pair in pairs]
        return list(encode(tokenizer, examples, "pair", config_of(classifier))), shown

    return InputKind(
        units=PAIR_UNITS,
        plural=f"pairs of {sides.plural}",
        tokenizer=_LOWER_CASE if name == "text" else sides.tokenizer,
        read=read,
        check=lambda examples, unit: check_pairs(examples, side_type),
        inputs=lambda file, config, progress: read_unlabelled_pairs(file, name),
        given=lambda inputs: as_pairs(inputs, side_type),
        texts=lambda pairs: sides.texts([side for pair in pairs for side in pair]),
        encode=encode,
        present=present,
    )


def _shown(side: str | Tree) -> str:
    return side if isinstance(side, str) else side.text()


# By what a network reads, as INPUTS: one label, or one rating, for two inputs.
PAIRS: dict[str, InputKind] = {
    "text": _pair_kind("text", str, lambda text, place: Labelled(text, (), place)),
    "tree": _pair_kind("tree", Tree, lambda tree, place: LabelledTree(tree, (), place)),
}


def kind_of(reads: str, unit: str | None) -> InputKind:
    """The kind of inputs that a network reads, given the labelled unit. Raises SettingError."""
    if unit not in PAIR_UNITS:
        return INPUTS[reads]
    if reads not in PAIRS:
        raise SettingError(f"unit is {unit!r}; {INPUTS[reads].plural} are not labelled in pairs")
    return PAIRS[reads]


def inputs_of(classifier: object) -> InputKind:
    """The kind of inputs that a classifier reads."""
    return kind_of(getattr(classifier, "reads", "text"), getattr(classifier, "unit", None))


def config_of(classifier: object) -> Any:
    """The configuration of a classifier from scratch; None for one on a language model, whose kind needs none."""
    return getattr(classifier, "config", None)


def digest_of_inputs(examples: Sequence[Labelled]) -> str:
    """The SHA-256 of inputs (by their str) and labels, whatever file they are from."""
    rows = [(str(example.input), example.labels) for example in examples]
    return hashlib.sha256(repr(rows).encode("utf-8", "surrogatepass")).hexdigest()


def assess(
    classifier: Labeller, tokenizer: Tokenizer, examples: Iterable[Any], progress: Progress = silent
) -> Classification:
    """The figures of a classifier on labelled inputs; an input whose label was not seen in training counts as wrong.

    Raises SettingError; TextError where no label was seen in training.
    """
    if predicts_ratings(classifier):
        raise SettingError("this classifier predicts ratings; measure them with assess_ratings")
    if classifier.unit == BOX_UNIT:
        raise SettingError("this classifier finds boxes; measure them with assess_boxes")
    examples, inputs = _encoded(classifier, tokenizer, examples)
    return measure(classifier, examples, inputs, progress)


def predicts_ratings(classifier: Labeller) -> bool:
    """Whether the labels of a classifier are the numbers of a scale."""
    return bool(classifier.unit == RATING_UNIT)


def assess_ratings(
    classifier: Labeller, tokenizer: Tokenizer, examples: Iterable[Any], progress: Progress = silent
) -> RatingMeasurement:
    """The figures of a classifier's predicted ratings of pairs.

    Raises SettingError; TextError where a rating is no number.
    """
    if not predicts_ratings(classifier):
        raise SettingError(f"this classifier labels; it was trained with unit={classifier.unit!r}, not 'rating'")
    examples, inputs = _encoded(classifier, tokenizer, examples)
    true = ratings_of(examples)
    return measure_ratings(means_of(log_probs_of(classifier, inputs, progress), classifier.labels), true)


def _encoded(
    classifier: Labeller, tokenizer: Tokenizer, examples: Iterable[Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    """The checked examples, and the inputs as the classifier reads them."""
    kind = inputs_of(classifier)
    checked = kind.check(examples, classifier.unit)
    return checked, kind.encode(tokenizer, checked, classifier.unit, config_of(classifier))
