"""Models that label texts, words, trees and other inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from chainrule.api.model import Model
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.base.arguments import as_texts

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from chainrule.applications.labelling import Predicted
    from chainrule.evaluation.classification import Classification
    from chainrule.neural.classifier import Classifier


class ClassifierModel(Model):
    """A network that labels inputs, or their units, such as words."""

    wanted: ClassVar[str] = "labels texts"

    def classify(self, inputs: Iterable[Any]) -> list[Predicted]:
        """The labels of inputs, such as texts, or of their units, such as words.

        Raises MarkerError; SettingError where inputs are not what it reads.

        good:  [predicted] = classifier.classify(["a text"]); predicted.best
        """
        from chainrule.applications.labelled_inputs import inputs_of

        kind = inputs_of(self.classifier)
        inputs = as_texts(inputs) if self.classifier.reads == "text" else list(inputs)
        return kind.predict(self.classifier, self.tokenizer, inputs)

    def draw(self, inputs: Iterable[Any], path: str | os.PathLike[str], *, overwrite: bool = False) -> list[Predicted]:
        """The labels of inputs, as `classify`; they are drawn on a page, .html, that needs no other file.

        So far of graphs. Raises SettingError, OutputError, and what `classify` raises.

        good:  classifier.draw(graphs, "labels.html")
        """
        from chainrule.api.draw_labels import check_page, draw_labels

        inputs = list(inputs)
        check_page(self.classifier, path, overwrite=overwrite)
        found = self.classify(inputs)
        draw_labels(self.classifier, inputs, found, path, overwrite=overwrite)
        return found

    @shows_progress
    def assess(self, examples: Iterable[Any], progress: ProgressOption = None) -> Classification:
        """How well a classifier does on labelled inputs; a label that training has not seen counts as wrong.

        examples: as `read_labelled` gives them for texts. Raises TextError where it knows none of the
        labels.

        good:  classifier.assess(chainrule.read_labelled("heldout.tsv")).accuracy
        """
        progress = callback(progress)
        from chainrule.applications.labelled_inputs import assessed

        return assessed(self.classifier, self.tokenizer, examples, progress)

    @property
    def classifier(self) -> Classifier:
        """The engine. Raises ModelFormatError as `engine`."""
        return cast("Classifier", self.engine)
