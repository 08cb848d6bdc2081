"""chainrule attend MODEL TEXT [TARGET] -o FILE: where a network looks, as a page or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Overwrite
from chainrule.cli.models import opened
from chainrule.cli.screen import progress
from chainrule.errors import OutputError, SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chainrule.neural.maps import Weights
    from chainrule.progress import Progress
    from chainrule.report.attention import AttentionMap


def attend(
    model: Annotated[Path, Parameter(help="The folder of a Transformer, or of a model of one text given another.")],
    text: Annotated[str, Parameter(help="The text that is read; of pairs, the source.", allow_leading_hyphen=True)],
    target: Annotated[
        str | None,
        Parameter(help="Of pairs: the target; by default what the model writes.", allow_leading_hyphen=True),
    ] = None,
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"), help="A page, .html, or a picture, .svg.")],
    overwrite: Overwrite = False,
) -> None:
    """Show where a network looks: maps of all its layers and heads.

    Each row of a map is a token that looks, each column one that is looked at;
    </s> stands before a text, and after one that is read from both sides. Of
    pairs, a row of the target is the token that the model writes there, as in
    translate --alignments and --json: the target is read from </s> on, and
    written up to </s>. The page needs no other file, no script and no network.
    """
    from chainrule.files import check_writable, replaced
    from chainrule.report.attention import attention_page, attention_svg

    if output.suffix.lower() not in (".html", ".svg"):
        raise CycloptsError(msg=f"--output {output}: its name must end in .html or .svg.")
    if output.exists() and not overwrite:
        raise OutputError(f"{output}: exists already; say --overwrite to replace it, or choose another name")
    if not output.parent.is_dir():
        raise OutputError(f"{output}: there is no folder {output.parent} to write it in; make it first")
    check_writable(output.parent)
    with progress() as told:
        heading, maps = _maps(model, text, target, told)
    draw = attention_svg if output.suffix.lower() == ".svg" else attention_page
    with replaced(output) as file:
        file.write(draw(heading, maps).encode())
    count = sum(len(each.weights) for each in maps)
    print(f"{output}: {count} map{'s' * (count != 1)}")


def _maps(path: Path, text: str, target: str | None, told: Progress) -> tuple[str, list[AttentionMap]]:
    """A heading, and the maps. Raises ModelFormatError, SettingError."""
    from chainrule.conditional import FAMILY
    from chainrule.configuration import read_config

    if path.is_dir() and read_config(path).family == FAMILY:
        return _of_pair(path, text, target)
    if target is not None:
        raise SettingError(
            f"{path}: a language model reads one text; leave out the second, {target!r}, or give a model of pairs"
        )
    return _of_text(path, text, told)


def _of_pair(path: Path, source: str, target: str | None) -> tuple[str, list[AttentionMap]]:
    from chainrule.conditional import load_pairs
    from chainrule.neural.maps import maps_of_pair

    model = load_pairs(path)
    if target is None:
        written = model.write([source])[0]
        if not written:
            raise SettingError("the source is empty; give a text with a token in it at least")
        target = written[0].text
    ids, target_ids = model.sources([source])[0], model.target.encode_texts([target]).ids[:-1]
    shown = model.target.shown(target_ids.tolist())
    read, reads, writes = [*model.source.shown(ids.tolist()), "</s>"], ["</s>", *shown], [*shown, "</s>"]
    sides = {"source": (read, read), "target": (writes, reads), "target on source": (writes, read)}
    return f"{source} → {target}", _titled(maps_of_pair(model.model, ids, target_ids), sides)


def _of_text(path: Path, text: str, told: Progress) -> tuple[str, list[AttentionMap]]:
    from chainrule.neural.maps import maps_of_text

    model = opened(path, None, None, told)
    read, maps = maps_of_text(model.scorer, model.tokenizer.encode_texts([text]).ids[:-1])
    tokens = model.tokenizer.shown(read.tolist())
    return text, _titled(maps, {"text": (tokens, tokens)})


def _titled(maps: list[Weights], sides: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> list[AttentionMap]:
    from chainrule.report.attention import AttentionMap

    return [
        AttentionMap(
            title=f"{each.sides}, layer {each.layer}",
            rows=sides[each.sides][0],
            columns=sides[each.sides][1],
            weights=each.weights,
        )
        for each in maps
    ]
