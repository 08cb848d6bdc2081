"""How predicted labels show themselves: of texts and their words, pairs with ratings, pixels and boxes of pictures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from chainrule.base.results import Shown, row
from chainrule.base.tables import on_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.features.classify.classification import Predicted
    from chainrule.features.vision.pictures.boxes import Detection


def of_input(prediction: Predicted, name: str = "text") -> Shown:
    """Return the label of an input. name: of the field that holds it."""
    [(label, probability)], [unit] = prediction.best, prediction.units
    record = {name: unit, "label": label, "probabilities": _shares(prediction)[0]}
    return row(_line(unit, label, probability), record)


def of_units(prediction: Predicted, number: int) -> Shown:
    """Return the label of each unit of an input, such as the words of a text. number: of the input, from 1."""
    labels, shares = [label for label, _ in prediction.best], _shares(prediction)
    columns = zip(prediction.units, labels, shares, strict=True)
    lines = [_line(unit, *best) for unit, best in zip(prediction.units, prediction.best, strict=True)]
    return Shown(
        "".join(f"{line}\n" for line in lines),
        {"words": prediction.units, "labels": labels, "probabilities": shares},
        [{"text": number, "word": unit, "label": label, "probabilities": own} for unit, label, own in columns],
    )


def of_rating(prediction: Predicted) -> Shown:
    """Return the predicted rating of a pair."""
    [text], [rating] = prediction.units, prediction.means
    return row(f"{rating:.4f}\t{on_one_line(text)}", {"text": text, "rating": rating})


def of_pixels(prediction: Predicted, name: str, columns: int) -> Shown:
    """Return the shares of the labels of a picture's pixels; in JSON, the label of each as an index, row by row."""
    values = prediction.log_probs.argmax(1)
    counts = [(int((values == i).sum()), label) for i, label in enumerate(prediction.labels)]
    shares = [(label, count / len(values)) for count, label in sorted(counts, reverse=True) if count]
    return Shown(
        f"{', '.join(f'{label} {share:.1%}' for label, share in shares)}\t{on_one_line(name)}",
        {"picture": name, "names": list(prediction.labels), "labels": values.reshape(-1, columns).tolist()},
        [{"picture": name, "label": label, "share": share} for label, share in shares],
    )


def of_boxes(boxes: Sequence[Detection], name: str) -> Shown:
    """Return the boxes in a picture."""
    lines, records = [], []
    for one in boxes:
        lines.append(
            f"{one.label}\t{one.score:.6f}\t{' '.join(f'{side:.1f}' for side in one.box)}\t{on_one_line(name)}"
        )
        sides = dict(zip(("left", "top", "right", "bottom"), one.box, strict=True))
        records.append({"picture": name, "label": one.label, "score": one.score, **sides})
    shown = [{"box": list(one.box), "label": one.label, "score": one.score} for one in boxes]
    return Shown("\n".join(lines), {"picture": name, "boxes": shown}, records)


def _line(unit: str, label: str, probability: float) -> str:
    return f"{label}\t{probability:.6f}\t{on_one_line(unit)}"


def _shares(prediction: Predicted) -> list[dict[str, Any]]:
    """The probabilities of all labels, of each unit."""
    rows = prediction.log_probs.tolist()
    return [{name: math.exp(share) for name, share in zip(prediction.labels, row, strict=True)} for row in rows]
