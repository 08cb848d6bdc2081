"""What `chainrule evaluate` does with minimal pairs and suites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclopts import CycloptsError

from chainrule.cli.shared.models import as_read, open_model
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import bad_records, both_fields

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.cli.shared.options import Flags
    from chainrule.cli.shared.results import ResultOptions
    from chainrule.cli.shared.texts import TextOptions
    from chainrule.evaluation.pseudo_likelihood import Pseudo
    from chainrule.models.config import ReadingOptions
    from chainrule.models.scoring_model import ScoringModel
    from chainrule.text.tokenization.vocabulary import Markers

_PSEUDO = {
    "original": "each token given all others",
    "word-l2r": "each token without the rest of its word",
    None: "each token without the rest of its word, where the network is masked",
}


def _one_size(path: Path, model: ScoringModel, context: Flags[ReadingOptions]) -> Any:
    """Return the model with the limit of context that was given, if any. Raises SettingError, CycloptsError."""
    judge, *more = as_read({str(path): model}, context).values()
    if more:
        raise CycloptsError(msg="Several sizes of context are for TEXTS; give one with --minimal-pairs or --suite.")
    return judge


def show_pairs(
    model: Path,
    files: tuple[str, ...],
    tokenizer: str | None,
    markers: Markers | None,
    reading: TextOptions,
    context: Flags[ReadingOptions],
    ends: bool,
    pseudo: Pseudo | None,
    show: ResultOptions,
) -> None:
    """Show the accuracy on minimal pairs."""
    from chainrule.models.scoring_model import ScoringModel

    read = reading.reading
    with progress_bar() as progress:
        judge = _one_size(model, open_model(model, tokenizer, markers, progress, kind=ScoringModel), context)
        with bad_records(reading, "skip", *files) as bad:
            judged = judge.judge_pairs(
                files,
                progress,
                ends=ends,
                pseudo=pseudo,
                fields=both_fields(read.field),
                encoding=read.encoding,
                bad_records=bad,
            )
    if judge.is_bidirectional:
        note(f"by pseudo-log-likelihoods, {_PSEUDO[pseudo]}")
    show.show(judged)


def show_suites(
    model: Path,
    files: tuple[str, ...],
    tokenizer: str | None,
    markers: Markers | None,
    reading: TextOptions,
    context: Flags[ReadingOptions],
    word_ends: bool,
    show: ResultOptions,
) -> None:
    """Show the accuracy on suites."""
    from chainrule.models.language_models import CausalModel

    with progress_bar() as progress:
        judge = _one_size(model, open_model(model, tokenizer, markers, progress, kind=CausalModel), context)
        with bad_records(reading, "skip", *files) as bad:
            judged = judge.judge_suites(files, progress, word_ends=word_ends, bad_records=bad)
    show.show(judged)
