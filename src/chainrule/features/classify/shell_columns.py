"""Options that say where files of labelled texts, or of pairs of them, have their texts and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.options import flag, given_settings
from chainrule.cli.shared.texts import RECORD_FLAGS, both_fields
from chainrule.text.corpus.reading import TEXT_FIELD, Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.base.progress import Progress
    from chainrule.cli.shared.texts import TextOptions
    from chainrule.features.classify.inputs import InputKind
    from chainrule.features.classify.labelled.pairs import Sides
    from chainrule.features.classify.labelled.texts import LabelledUnit
    from chainrule.text.corpus.records import OnBad


LabelField = Annotated[str, Parameter(help="Of labelled texts and pairs, the field or column with the label.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LabelledOptions:
    """Where a file of labelled texts, or of pairs of them, has its texts and labels."""

    field: Annotated[
        str | None,
        flag(Reading, "field"),
        Parameter(
            help="The field of a record, or the column of a table, with the text; of pairs, both, with a comma "
            "between: premise,hypothesis."
        ),
    ] = Reading.field
    label_field: LabelField = "label"
    encoding: Annotated[str, flag(Reading, "encoding")] = Reading.encoding

    def read(
        self, kind: InputKind, name: str, unit: str, config: Any, on_bad: OnBad, progress: Progress
    ) -> Sequence[Any]:
        """Return the labelled inputs of a file.

        Raises TextError, SettingError; CycloptsError where options are for texts.
        """
        from chainrule.features.classify.inputs import INPUTS
        from chainrule.features.classify.labelled.pairs import read_labelled_pairs
        from chainrule.features.classify.labelled.texts import read_labelled
        from chainrule.features.classify.units import RATING_UNIT

        if self == LabelledOptions():
            return kind.read(name, unit, config, on_bad, progress)
        if kind is INPUTS["text"]:
            return read_labelled(
                name,
                cast("LabelledUnit", unit),
                on_bad,
                field=TEXT_FIELD if self.field is None else self.field,
                label_field=self.label_field,
                encoding=self.encoding,
            )
        return read_labelled_pairs(
            name,
            self._sides(kind),
            ratings=unit == RATING_UNIT,
            on_bad=on_bad,
            fields=both_fields(self.field),
            label_field=None if self.label_field == LabelledOptions.label_field else self.label_field,
            encoding=self.encoding,
        )

    def inputs(self, kind: InputKind, name: str, config: Any, on_bad: OnBad, progress: Progress) -> Sequence[Any]:
        """Return the inputs of a file, without labels, of a kind that is read from special files. Raises as `read`."""
        from chainrule.features.classify.labelled.pairs import read_unlabelled_pairs

        if self == LabelledOptions() and kind.sides is None and kind.inputs is not None:
            return kind.inputs(name, config, progress)
        sides, fields = self._sides(kind), both_fields(self.field)
        return read_unlabelled_pairs(name, sides, on_bad=on_bad, fields=fields, encoding=self.encoding)

    def _sides(self, kind: InputKind) -> Sides:
        """Return the kind of both sides of a pair. Raises CycloptsError where inputs are no pairs."""
        if kind.sides is None:
            raise CycloptsError(
                msg=f"--field, --label-field and --encoding are for texts and pairs with labels, not {kind.plural}."
            )
        return kind.sides


DEFAULT_LABELLED = LabelledOptions()


def labelled_of(reading: TextOptions, label_field: str) -> LabelledOptions:
    """Return how to read labelled texts. Raises CycloptsError where there are options that they have no use for."""
    if not reading.has_only("field", "encoding", *RECORD_FLAGS):
        raise CycloptsError(
            msg="Of the options that say how to read texts, only --field, --encoding and those of bad records are for "
            "labelled ones."
        )
    given = {name: value for name, value in given_settings(reading).items() if name not in RECORD_FLAGS}
    return LabelledOptions(label_field=label_field, **given)
