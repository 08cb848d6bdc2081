"""A page that shows inputs with the labels that a classifier gives them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.base.files import check_new_file, replace_file
from chainrule.errors import SettingError
from chainrule.pictures.picture import as_picture
from chainrule.report.labels import DrawnGraph, DrawnPicture, labelled_graphs_page, labelled_pictures_page

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from chainrule.applications.classification import Predicted
    from chainrule.structures.graph import Graph


def check_page(classifier: Any, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Raises SettingError where there is no drawing of what a classifier reads, or the name does not end in .html;
    OutputError if the page cannot be written.
    """
    target, reads = Path(path), getattr(classifier, "reads", "text")
    if reads not in _PAGES:
        raise SettingError(f"this classifier reads a {reads}; pages are drawn of a {', a '.join(_PAGES)}")
    if target.suffix.lower() != ".html":
        raise SettingError(f"{target}: the name of a page must end in .html")
    check_new_file(target, overwrite=overwrite)


def draw_labels(
    classifier: Any, inputs: Sequence[Any], found: Sequence[Predicted], path: str | os.PathLike[str], *, overwrite: bool
) -> None:
    """Writes the page. found: the labels of the inputs. Raises as `check_page`, and OutputError."""
    check_page(classifier, path, overwrite=overwrite)
    page = _PAGES[classifier.reads](inputs, found, classifier.unit)
    with replace_file(Path(path)) as file:
        file.write(page.encode())


def _graphs_page(graphs: Sequence[Graph], found: Sequence[Predicted], unit: str) -> str:
    drawn = []
    for number, (graph, predicted) in enumerate(zip(graphs, found, strict=True), 1):
        names = [graph.shown(node) for node in range(len(graph))]
        title, labels = f"Graph {number}", predicted.best
        if unit == "graph":
            [(label, probability)] = labels
            title, labels = f"{title}: {label}, {probability:.1%}", []
        drawn.append(DrawnGraph(title, names, graph.edges, labels))
    return labelled_graphs_page("Labelled graphs", drawn)


def _pictures_page(inputs: Sequence[Any], found: Sequence[Predicted], unit: str) -> str:
    pictures = [as_picture(given) for given in inputs]
    drawn = [DrawnPicture(own.name, own.pixels, of.log_probs) for own, of in zip(pictures, found, strict=True)]
    return labelled_pictures_page("Labelled pictures", found[0].labels if found else (), drawn)


# (inputs, their labels, what of them is labelled) -> HTML, by what a classifier reads.
_PAGES: dict[str, Callable[[Sequence[Any], Sequence[Predicted], str], str]] = {
    "graph": _graphs_page,
    "picture": _pictures_page,
}
