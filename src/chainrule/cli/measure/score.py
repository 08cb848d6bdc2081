"""chainrule score MODEL [TEXT]: log-probabilities of texts, tokens, words, characters or bytes, line by line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import CycloptsError, Parameter

from chainrule.base.progress import silent
from chainrule.cli.shared.models import as_read, names_of, open_model
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    FurtherModels,
    ModelMarkerRule,
    ModelPath,
    ModelTokenizerName,
    Needs,
    TextFile,
    given_settings,
    refuse,
)
from chainrule.cli.shared.results import TO_SCREEN, ResultOptions
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, note_repairs, text_for
from chainrule.errors import SettingError
from chainrule.kinds import rows
from chainrule.models.config import ReadingOptions
from chainrule.verbs.text_options import SurprisalOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chainrule.evaluation.surprisal import By
    from chainrule.models.model import Model
    from chainrule.models.scoring_model import ScoringModel
    from chainrule.text.corpus.corpus import ReadSource


def score(
    model: ModelPath,
    text: TextFile = "-",
    /,
    *,
    tokens: Annotated[
        bool, Parameter(negative=(), help="Score each token: a line each, and an empty line after each text.")
    ] = False,
    words: Annotated[bool, Parameter(negative=(), help="Score each word, whatever the tokens are.")] = False,
    characters: Annotated[bool, Parameter(negative=(), help="Score each character of each text.")] = False,
    bytes: Annotated[bool, Parameter(negative=(), help="Score each byte of each text.")] = False,
    running: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Score the texts as one running text, which a network trained with --memory stream reads as such; by "
            "default, each by itself. For whole texts on lines.",
        ),
    ] = False,
    header: Annotated[
        bool, Parameter(negative=(), help="Print the names of the columns of lines first; tables have them.")
    ] = False,
    also: Annotated[FurtherModels, Needs("output")] = (),
    table: Flags[SurprisalOptions] = NO_FLAGS,
    context: Flags[ReadingOptions] = NO_FLAGS,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    reading: TextOptions = DEFAULT_READING,
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Print log-probabilities of texts, or of each token, word, character or byte.

        $ chainrule score lm/ heldout.txt --words

    Columns for texts: log P of the line with its </s>, in nats; number of
    tokens, with </s>; number of unknown tokens; the line. An unknown token
    counts as <unk>, without its spelling. Masked and bidirectional networks
    give pseudo-log-likelihoods: the sum of log P(token | all other tokens and
    </s>).

    Columns for tokens and other units: log P, as above; log P with the
    spelling of unknown tokens, as in bits per byte; start and end position in
    the normalised text (the end is one after the last character); of n-gram
    models, the length of the n-gram that was found, as KenLM's query prints it;
    the unit; <unk> if it contains an unknown token. The log-probabilities of a
    word's tokens are summed. log P(the word ends here) counts for the word
    itself; with --no-word-ends, for the next word. The sum over a text is the
    same. White space belongs to the next word. JSON keeps the fields of records.

    --output writes a table with a header, for pandas and R: the fields of
    records; sentence and position, from 1; the word and its length;
    surprisal_bits, of a word with its end, and uncorrected_bits, the sum of its
    tokens; known; ngram_length; start and stop. Without --words or the like, a
    row is a text. For studies of reading, --also adds models, --context-words
    sizes of context, --entropy, --frequencies and --previous columns. --long
    has a row for each word and model. `chainrule reading` reads such texts
    itself.
    """
    from chainrule.models.scoring_model import ScoringModel
    from chainrule.verbs.scored_texts import CountedWords, score_texts, score_units

    by = _units(tokens=tokens, words=words, characters=characters, bytes=bytes)
    settings = given_settings(table)
    ends: dict[str, Any] = {name: settings[name] for name in ("word_ends", "convention") if name in settings}
    of_lines = {"nats", "log10"} | (ends.keys() if by == "words" else set())
    if show.output is None and (others := settings.keys() - of_lines):
        wrong = next(name for name in settings if name in others)
        also_lines = ", or --words" if wrong in ends else ""
        flag = f"{'no-' * (settings[wrong] is False)}{wrong.replace('_', '-')}"
        raise CycloptsError(msg=f"--{flag} is for tables; give --output{also_lines}.")
    if running:
        beside = [by] if by else ["output"] * (show.output is not None)
        refuse(beside, "does not go with --running, which is for whole texts on lines")
    if show.in_rows:
        refuse(["header"] * header, "is for lines: tables and JSON name their columns")
    if show.json:
        refuse(["log10"] * ("log10" in settings), "is for lines and tables: the fields of JSON are in nats")
    options = SurprisalOptions(**settings, by=by or "texts")
    show.check(text)
    source = text_for([model, *also], reading, text)
    if show.output is not None:
        _write_table((model, *also), source, show, settings, by, context, tokenizer, markers)
        note_repairs(source)
        return
    with progress_bar() as progress:
        opened = open_model(model, tokenizer, markers, progress, kind=ScoringModel)
        _check_has_units(opened, model, by)
        note_convention(opened, model, ends)
        if opened.is_bidirectional and by is None:
            note("these are pseudo-log-likelihoods, not probabilities: compare them with others of this model alone")
        scorer, *more = as_read({str(model): opened}, context).values()
        if more:
            raise CycloptsError(msg="Several sizes of context are for tables; give one, or --output.")
        shown = silent if sys.stdout.isatty() else progress  # a progress bar would break into the output
        counted, form = CountedWords(), {"header": header}
        if by is None:
            show.show_all(score_texts(scorer, source, options, shown, running=running, as_json=show.json, **form))
        else:
            show.show_all(score_units(scorer, source, by, options, shown, counted, fields=show.json, **form))
    for message in counted.notes("are unknown", (by or "words").removesuffix("s")):
        note(message)
    note_repairs(source)


def _units(**asked: bool) -> By | None:
    """The unit to score by; None for whole texts. Raises CycloptsError if several are chosen."""
    names = [name for name, is_asked in asked.items() if is_asked]
    if len(names) > 1:
        raise CycloptsError(msg=f"Choose one of {' and '.join(f'--{name}' for name in names)}.")
    return cast("By", names[0]) if names else None


def _check_has_units(model: ScoringModel, path: Path, by: By | None) -> None:
    """Raises SettingError where parts of texts have no scores."""
    if by is not None and model.is_bidirectional:
        raise SettingError(
            f"{path}: --{by} is for models that continue texts; one of family {model.family!r} fills gaps, and scores "
            f"whole texts: leave --{by} out"
        )


def note_convention(model: Model, path: Path, settings: Mapping[str, Any]) -> None:
    """Says where a convention of how words end has no effect. settings: the options that were given."""
    from chainrule.evaluation.surprisal import word_borders

    convention = settings.get("convention", "chainrule")
    if convention != "chainrule" and word_borders(model.tokenizer) is None:
        note(f"--convention {convention} has no effect on {path}, whose tokens are whole words")


def _write_table(
    paths: tuple[Path, ...],
    source: ReadSource,
    show: ResultOptions,
    settings: dict[str, Any],
    by: By | None,
    context: Flags[ReadingOptions],
    tokenizer: ModelTokenizerName,
    markers: ModelMarkerRule,
) -> None:
    from chainrule.models.scoring_model import ScoringModel

    with progress_bar() as progress:
        models = {
            name: open_model(path, tokenizer, markers, progress, kind=ScoringModel)
            for name, path in zip(names_of(paths), paths, strict=True)
        }
        for opened, path in zip(models.values(), paths, strict=True):
            _check_has_units(opened, path, by)
        surprisal = rows("score")["table"].get()
        table = surprisal(source, as_read(models, context), by=by or "texts", progress=progress, **settings)
        table.save(cast("Path", show.output), overwrite=show.overwrite)
    for opened, path in zip(models.values(), paths, strict=True):
        note_convention(opened, path, settings)
    for message in table.notes():
        note(message)
