"""What `chainrule evaluate` and `chainrule compare` do with models of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.arguments import WholeNumber, file_or_dash
from chainrule.cli.shared.screen import count_of, note, print_json, progress_bar

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.base.progress import Progress
    from chainrule.decoding.config import BeamConfig
    from chainrule.text.parallel import Pairs

_FILE = Parameter(allow_leading_hyphen=True, validator=file_or_dash)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PairsOptions:
    """What a model of pairs is measured on."""

    source: Annotated[str | None, _FILE, Parameter(help="Source texts, one a line, for a model of pairs.")] = None
    target: Annotated[str | None, _FILE, Parameter(help="Their targets, one a line.")] = None
    pairs: Annotated[
        str | None,
        _FILE,
        Parameter(help="Both in one file, as `train translation --pairs` reads it: tabs, JSON lines, conversations."),
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
    from chainrule.api.seq2seq.seq2seq_model import load_pairs

    with progress_bar() as progress:
        pairs, beam = _read(options, progress)
        loaded = load_pairs(model, progress=progress)
        measurement = loaded.evaluate(pairs, beam, max_tokens=options.max_tokens, progress=progress)
    _note_left_out(pairs)
    shortened = loaded.generator.shorten(pairs.sources).shortened
    if shortened:
        note(f"{count_of(shortened, 'source')} longer than the model reads; see long_sources of chainrule info {model}")
    if json:
        print_json(measurement.as_json())
    else:
        print(measurement)


def compare_pairs(models: tuple[str, ...], options: PairsOptions, *, json: bool) -> None:
    """Measures models of pairs and prints a table. Raises as `evaluate_pairs`."""
    from chainrule.base.files import describe_duplicate
    from chainrule.comparison.supervised import compare_pairs as compare

    if not models:
        raise CycloptsError(msg="MODELS are missing; give the folders of models of pairs to compare.")
    twice = describe_duplicate(models)
    if twice is not None:
        raise CycloptsError(msg=f"MODELS name {twice}; a model is compared with others.")
    with progress_bar() as progress:
        pairs, beam = _read(options, progress)
        table = compare(models, pairs, beam, max_tokens=options.max_tokens, progress=progress)
    _note_left_out(pairs)
    if json:
        print_json(table.as_json())
    else:
        print(table)


def _read(options: PairsOptions, progress: Progress) -> tuple[Pairs, BeamConfig]:
    """The pairs, and how texts are searched for. Raises CycloptsError, TextError, SettingError."""
    from chainrule.decoding.config import BeamConfig
    from chainrule.text.parallel import pairs_of

    beam = BeamConfig(size=5 if options.beam is None else options.beam, rank_by="mean", stop="likely")
    if options.pairs is not None:
        if options.source is not None or options.target is not None:
            raise CycloptsError(msg="--pairs has both sides; leave out --source and --target.")
        return pairs_of([options.pairs], ("source", "target"), progress), beam
    if options.source is None or options.target is None:
        missing = "--source" if options.source is None else "--target"
        raise CycloptsError(
            msg=f"{missing} is missing: a model of pairs is measured on --source and --target, or on --pairs."
        )
    return pairs_of([options.source, options.target], ("source", "target"), progress), beam


def _note_left_out(pairs: Pairs) -> None:
    if pairs.left_out:
        note(f"{count_of(pairs.left_out, 'pair')} left out, since one side is empty")
