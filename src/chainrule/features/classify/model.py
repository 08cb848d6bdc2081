"""ClassifierModel: labels texts, words, trees and other inputs; draws a page of inputs with their predicted labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from chainrule.base.files import check_new_file, replace_file
from chainrule.errors import SettingError
from chainrule.kinds import rows
from chainrule.models.model import Model
from chainrule.models.progress_line import ProgressOption, callback, shows_progress

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.drawing.drawn import Drawn
    from chainrule.features.classify.classification import Predicted, UnitVectors
    from chainrule.features.classify.network.classifier import FineTunedClassifier
    from chainrule.features.classify.ratings import RatingMeasurement
    from chainrule.features.metrics.classification import Classification
    from chainrule.kinds import Lazy
    from chainrule.neural.inspection import LayerGates


class ClassifierModel(Model):
    """A network that labels inputs, or units of inputs, such as words."""

    capability: ClassVar[str] = "labels texts"

    @property
    def reads_pictures(self) -> bool:
        """As `Model.reads_pictures`."""
        return getattr(self.classifier, "reads", "text") == "picture"

    def gates(self, tokens: Int32[ndarray, " T"]) -> tuple[Int64[ndarray, " T"], list[LayerGates]]:
        """Return the same as `Model.gates`, for a text classifier with recurrent layers."""
        from chainrule.features.classify.network.inspection import gates_of_classifier

        return gates_of_classifier(self.classifier, tokens)

    def inspect_pictures(self, pictures: Any, **options: Any) -> Drawn:
        """Return the same as `AnyModel.inspect_pictures`, for a classifier of pictures."""
        inspect = rows("classify.inspect").get(getattr(self.classifier, "reads", "text"))
        if inspect is None:
            raise SettingError(f"this is a classifier of a {self.classifier.reads}; inspect takes one of pictures")
        drawn: Drawn = inspect.get()(self, pictures, **options)
        return drawn

    def classify(self, inputs: Iterable[Any]) -> list[Predicted]:
        """Return the labels of inputs, such as texts, or of their units, such as words.

        Raises MarkerError, TypeError; SettingError where inputs are not what it reads.

        good:  [predicted] = classifier.classify(["a text"]); predicted.best
        """
        from chainrule.features.classify.inputs import inputs_of

        return inputs_of(self.classifier).predict(self.classifier, self.tokenizer, self._checked(inputs))

    def embed(self, inputs: Iterable[Any]) -> Float32[ndarray, "units D"]:
        """Return a vector for each input, or for each of all units: what the network predicts labels from.

        Raises SettingError where it was fine-tuned, or inputs are not what it reads; MarkerError, TextError.
        """
        found = self.embed_units(inputs)
        return np.concatenate([own.vectors for own in found]) if found else np.empty((0, 0), np.float32)

    def embed_units(self, inputs: Iterable[Any]) -> list[UnitVectors]:
        """Return the vectors of `embed` for each input by itself, with its units. Raises as `embed`."""
        from chainrule.features.classify.inputs import inputs_of

        return inputs_of(self.classifier).embed(self.classifier, self.tokenizer, self._checked(inputs))

    def _checked(self, inputs: Iterable[Any]) -> Sequence[Any]:
        from chainrule.features.classify.inputs import inputs_of

        return inputs_of(self.classifier).given(inputs)

    def draw(self, inputs: Iterable[Any], path: str | os.PathLike[str], *, overwrite: bool = False) -> list[Predicted]:
        """Return the labels of inputs, as `classify` gives them, which are also drawn on a page (.html) that needs no
        other file.

        So far only for classifiers of graphs. Raises SettingError, OutputError, and what `classify` raises.

        good:  classifier.draw(graphs, "labels.html")
        """
        inputs = list(inputs)
        check_page(self.classifier, path, overwrite=overwrite)
        found = self.classify(inputs)
        draw_labels(self.classifier, inputs, found, path, overwrite=overwrite)
        return found

    @shows_progress
    def assess(self, examples: Iterable[Any], progress: ProgressOption = None) -> Classification:
        """Return how well a classifier does on labelled inputs; a label that training has not seen counts as wrong.

        examples: as `read_labelled` gives them for texts. Raises TextError where it knows none of the
        labels.

        good:  classifier.assess(chainrule.read_labelled("heldout.tsv")).accuracy
        """
        progress = callback(progress)
        from chainrule.features.classify.inputs import assess

        return assess(self.classifier, self.tokenizer, examples, progress)

    @shows_progress
    def detect(
        self, pictures: Iterable[Any], *, least: float = 0.5, progress: ProgressOption = None
    ) -> list[list[Any]]:
        """Return the boxes of each picture, each a Detection, best first, in its own pixels.

        least: the lowest score of a box that is kept. pictures: paths, pixels or `Picture`s. Raises SettingError where
        it was not trained with unit="box"; TextError.

        good:  [boxes] = detector.detect(["street.jpg"]); boxes[0].label
        """
        found: list[list[Any]] = rows("classify.boxes")["detect"].get()(
            self.classifier, pictures, least, callback(progress)
        )
        return found

    @shows_progress
    def assess_boxes(self, examples: Iterable[Any], progress: ProgressOption = None) -> Any:
        """Return a BoxMeasurement of a classifier of the unit box: average precision at an overlap of 0.5.

        examples: as `read_boxes` gives them. Raises SettingError; TextError where there is no box.
        """
        return rows("classify.boxes")["assess"].get()(self.classifier, examples, callback(progress))

    @shows_progress
    def assess_ratings(self, pairs: Iterable[Any], progress: ProgressOption = None) -> RatingMeasurement:
        """Return how well a classifier of the unit rating predicts those of pairs.

        pairs: as `read_labelled_pairs` gives them, with ratings. Raises SettingError; TextError where a rating is no
        number.
        """
        progress = callback(progress)
        from chainrule.features.classify.inputs import assess_ratings

        return assess_ratings(self.classifier, self.tokenizer, pairs, progress)

    @property
    def classifier(self) -> FineTunedClassifier:
        """The engine. Raises ModelFormatError as `engine`."""
        return cast("FineTunedClassifier", self.engine)


def check_page(classifier: Any, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Raise SettingError where there is no drawing of what a classifier reads, or the name does not end in .html;
    OutputError if the page cannot be written.
    """
    from chainrule.features.classify.inputs import INPUTS

    target, reads = Path(path), getattr(classifier, "reads", "text")
    if INPUTS[reads].page is None:
        drawn = ", a ".join(name for name, kind in INPUTS.items() if kind.page is not None)
        raise SettingError(f"this classifier reads a {reads}; pages are drawn of a {drawn}")
    if target.suffix.lower() != ".html":
        raise SettingError(f"{target}: the name of a page must end in .html")
    check_new_file(target, overwrite=overwrite)


def draw_labels(
    classifier: Any, inputs: Sequence[Any], found: Sequence[Predicted], path: str | os.PathLike[str], *, overwrite: bool
) -> None:
    """Write the page. found: the predicted labels of the inputs. Raises as `check_page`, and OutputError."""
    from chainrule.features.classify.inputs import INPUTS

    check_page(classifier, path, overwrite=overwrite)
    page = cast("Lazy", INPUTS[classifier.reads].page).get()
    with replace_file(Path(path)) as file:
        file.write(page(inputs, found, classifier.unit).encode())
