"""What `chainrule evaluate` does with models of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import WholeNumber, file_or_dash
from chainrule.cli.evaluate_captions import evaluate_captions
from chainrule.cli.screen import count_of, note, print_json, progress_bar

if TYPE_CHECKING:
    from pathlib import Path

_FILE = Parameter(allow_leading_hyphen=True, validator=file_or_dash)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PairsOptions:
    """What a model of pairs, or one that captions pictures, is measured on."""

    source: Annotated[str | None, _FILE, Parameter(help="Source texts, one a line, for a model of pairs.")] = None
    target: Annotated[str | None, _FILE, Parameter(help="Their targets, one a line.")] = None
    pictures: Annotated[
        str | None, _FILE, Parameter(help="Captioned pictures (.jsonl: image, captions), for a model that captions.")
    ] = None
    vectors: Annotated[
        str | None, _FILE, Parameter(help="With --pictures: their vectors (.npy), for a captioner trained on vectors.")
    ] = None
    beam: Annotated[
        int | None, WholeNumber, Parameter(help="How many hypotheses to keep for each source; by default 5.")
    ] = None
    max_tokens: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="The longest text, in tokens; by default twice the source's plus 20; 60 of a caption."),
    ] = None


NO_PAIRS = PairsOptions()


def evaluate_pairs(model: Path, options: PairsOptions, *, json: bool) -> None:
    """Measures a model of pairs and prints the result.

    Raises CycloptsError, SettingError, TextError, ModelFormatError.
    """
    from chainrule.api.pair_model import load_pairs
    from chainrule.decoding.beam import BeamConfig
    from chainrule.text.pairs import parallel

    if options.pictures is not None:
        if options.source is not None or options.target is not None:
            raise CycloptsError(msg="--pictures is for models that caption; leave out --source and --target.")
        evaluate_captions(model, options.pictures, options.vectors, options.beam, options.max_tokens, json=json)
        return
    if options.vectors is not None:
        raise CycloptsError(msg="--vectors needs --pictures, the captions of the pictures.")
    if options.source is None or options.target is None:
        missing = "--source" if options.source is None else "--target"
        raise CycloptsError(msg=f"{missing} is missing: a model of pairs is measured on --source and --target.")
    size = 5 if options.beam is None else options.beam
    with progress_bar() as progress:
        pairs = parallel(options.source, options.target, progress)
        measurement = load_pairs(model, progress=progress).evaluate(
            pairs,
            BeamConfig(size=size, rank_by="mean", stop="likely"),
            max_tokens=options.max_tokens,
            progress=progress,
        )
    if pairs.left_out:
        note(f"{count_of(pairs.left_out, 'pair')} left out, since one side is empty")
    if json:
        print_json(measurement.as_json())
    else:
        print(measurement)
