"""Draws what a model is: its layers with their shapes, its position encoding, or several models by their size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from chainrule.base.files import check_new_file, replace_file
from chainrule.drawing.charts import bar_chart, heat_map_with_line
from chainrule.drawing.diagram import Diagram
from chainrule.drawing.plots import check_plot_name, svg_of, write_plot
from chainrule.errors import SettingError
from chainrule.models.any_model import AnyModel, check_model
from chainrule.models.files.opening import info, load

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure


def network_diagram(name: str, config: Any, shapes: Mapping[str, Sequence[int]]) -> Diagram:
    """Return the diagram of a network. name: of the model. shapes: of its parameters by their names."""
    from chainrule.neural.diagrams import draw_parts

    own = getattr(config, "diagram", None)
    drawn: Diagram = (draw_parts if own is None else own.get())(name, config, shapes)
    return drawn


What = Literal["network", "positions", "sizes"]


@dataclass(frozen=True)
class Drawing:
    """A drawing of a model: a diagram, or a plot."""

    drawn: Diagram | Figure

    def _repr_html_(self) -> str:
        return self._svg()

    def _svg(self) -> str:
        return self.drawn.svg() if isinstance(self.drawn, Diagram) else svg_of(self.drawn)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a diagram as .svg, a plot as .svg, .pdf or .png. Raises OutputError, SettingError."""
        target = Path(path)
        check_drawing_target(target, is_diagram=isinstance(self.drawn, Diagram), overwrite=overwrite)
        if isinstance(self.drawn, Diagram):
            with replace_file(target) as file:
                file.write(self.drawn.svg().encode())
        else:
            write_plot(self.drawn, target)


def check_drawing_target(path: Path, *, is_diagram: bool, overwrite: bool) -> None:
    """Check, before the work, that a drawing may be written. Raises OutputError, SettingError."""
    if is_diagram and path.suffix.lower() != ".svg":
        raise SettingError(f"{path}: the name of a drawing of a network must end in .svg")
    check_plot_name(path)
    check_new_file(path, overwrite=overwrite)


def draw(model: AnyModel | str | os.PathLike[str], what: What = "network") -> Drawing:
    """Draw a network: its layers with shapes and numbers of parameters, or the vectors of its positions.

    model: one that was opened, or its folder. what: network, or positions: a heat map of the vectors of all positions,
    and the dot products of the first with all others. Raises SettingError if the model is not a network, or has no such
    vectors; ModelFormatError.

    good:  chainrule.draw("lm/").save("lm.svg")
    """
    name = "model" if isinstance(model, AnyModel) else Path(model).name or str(model)
    opened = model if isinstance(model, AnyModel) else load(model)
    check_model(opened)
    network = opened.drawn_network()
    config = getattr(network, "config", None)
    if config is None:
        raise SettingError(f"{name}: a model of family {opened.family!r} has no network to draw; expected a network")
    if what == "positions":
        return Drawing(_positions(name, network))
    if what != "network":
        raise SettingError(f"what is {what!r}; expected network or positions; draw_sizes draws several models")
    shapes = {own: tuple(tensor.shape) for own, tensor in network.named_parameters()}
    return Drawing(network_diagram(name, config, shapes))


def draw_sizes(models: Sequence[str | os.PathLike[str]]) -> Drawing:
    """Draw models by their number of parameters, or n-grams, as their model cards say.

    Raises SettingError where a model says neither; ModelFormatError.
    """
    sizes: dict[str, float] = {}
    for path in models:
        known = info(path)
        size = known.parameters or sum(known.ngrams or ())
        if not size:
            raise SettingError(f"{path}: its model card has no number of parameters or n-grams")
        sizes[f"{path}"] = size
    return Drawing(bar_chart("Models by size", sizes, "parameters, or n-grams"))


def _positions(name: str, network: object) -> Figure:
    from chainrule.neural.layers.positions import position_vectors

    vectors = position_vectors(network)  # type: ignore[arg-type]
    return heat_map_with_line(
        f"{name}: the vectors of {len(vectors):,} positions",
        vectors,
        ("position", "element of the vector"),
        (vectors @ vectors[0]).tolist(),
        ("distance from the first position", "dot product with its vector"),
    )
