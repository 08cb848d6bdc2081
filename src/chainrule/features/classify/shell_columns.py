"""Options that say where files of labelled texts, or of pairs of them, have their texts and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.options import Needs, flag, given_settings
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


StrictTest = Annotated[
    bool,
    Parameter(
        negative=(),
        help="Stop at a bad record of --test, too; by default it is reported and left out. One to learn from always "
        "stops the verb.",
    ),
    Needs("test"),
]


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
            fields=self._both_fields,
            label_field=None if self.label_field == LabelledOptions.label_field else self.label_field,
            encoding=self.encoding,
        )

    def inputs(self, kind: InputKind, name: str, config: Any, progress: Progress) -> Sequence[Any]:
        """Return the inputs of a file, without labels, of a kind that is read from special files. Raises as `read`."""
        from chainrule.features.classify.labelled.pairs import read_unlabelled_pairs

        if self == LabelledOptions() and kind.inputs is not None:
            return kind.inputs(name, config, progress)
        return read_unlabelled_pairs(name, self._sides(kind), fields=self._both_fields, encoding=self.encoding)

    def _sides(self, kind: InputKind) -> Sides:
        """Return the kind of both sides of a pair. Raises CycloptsError where inputs are no pairs."""
        if kind.sides is None:
            raise CycloptsError(
                msg=f"--field, --label-field and --encoding are for texts and pairs with labels, not {kind.plural}."
            )
        return kind.sides

    @property
    def _both_fields(self) -> tuple[str, str] | None:
        """The fields of both sides, if they are given. Raises CycloptsError."""
        if self.field is None:
            return None
        first, comma, second = self.field.partition(",")
        if not comma or not first or not second:
            raise CycloptsError(
                msg=f"--field is {self.field}; of pairs, name both columns, with a comma between: premise,hypothesis."
            )
        return first, second


DEFAULT_LABELLED = LabelledOptions()


def labelled_of(reading: TextOptions, label_field: str) -> LabelledOptions:
    """Return how to read labelled texts. Raises CycloptsError where there are options that they have no use for."""
    given = given_settings(reading)
    if given.keys() - {"field", "encoding"}:
        raise CycloptsError(
            msg="Of the options that say how to read texts, only --field and --encoding are for labelled ones."
        )
    return LabelledOptions(label_field=label_field, **given)
