"""The family of classifiers: each rests on a model of another family, or on a network of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.errors import SettingError
from chainrule.families.family import Family, name_of_family, refuse
from chainrule.training.finetuning_config import FineTuningConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chainrule.families.family import Arrays, Json
    from chainrule.neural.classifier import Classifier
    from chainrule.neural.labelling.boxes import BoxDetector
    from chainrule.neural.labelling.classifier import ScratchClassifier


def classifier_family(families: Mapping[str, Family]) -> Family:
    """The family of classifiers that rest on models of these families."""

    def take_apart(model: Classifier | ScratchClassifier) -> tuple[Json, Arrays]:
        from chainrule.neural import classifier_saving

        return classifier_saving.take_apart(model, lambda config: name_of_family(config, families))

    def put_together(
        settings: Json, arrays: Arrays, vocabulary_size: int
    ) -> Classifier | ScratchClassifier | BoxDetector:
        from chainrule.neural import classifier_saving

        bases = {name: family.config for name, family in families.items() if family.embeds}
        return classifier_saving.put_together(settings, arrays, vocabulary_size, bases)

    return Family(
        FineTuningConfig,
        token_bytes=4,
        train=refuse(
            SettingError, "a classifier learns from labelled inputs: chainrule train classifier, or chainrule finetune"
        ),
        take_apart=take_apart,
        put_together=put_together,
        job="classify",
    )
