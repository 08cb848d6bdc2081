"""The verbs generate (samples texts, or searches for the likeliest), next (the next-token distribution) and fill.

`fill` predicts tokens for a gap, "the [MASK] bit the man", given both sides.
"""

from __future__ import annotations

import math
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.results import Shown, table
from chainrule.base.tables import text_table
from chainrule.cli.shared.models import names_of, note_drafts, open_model
from chainrule.cli.shared.options import (
    NO_FLAGS,
    BeamFlags,
    Draft,
    FurtherModels,
    LimitFlags,
    ModelMarkerRule,
    ModelPath,
    ModelTokenizerName,
    Needs,
    NetworkPath,
    SamplingFlags,
    Seed,
    TreeFile,
    WholeNumber,
    beam_config,
    check_tree,
    draw_seed,
    flag,
    given_settings,
    refuse_sampling,
)
from chainrule.cli.shared.parts import flags_of_parts, parts_of, run_part, with_flags
from chainrule.cli.shared.results import TO_SCREEN, ResultOptions
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.decoding.config import Limits, SamplingConfig
from chainrule.errors import prefix_errors
from chainrule.kinds import rows
from chainrule.models.config import GenerateOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.decoding.config import BeamConfig
    from chainrule.decoding.text_generator import SearchedTexts, Text, TextDecoder
    from chainrule.models.model import Model
    from chainrule.models.scoring_model import ScoringModel

SHOWN = 5  # unknown words of a prompt to name


def generate(
    model: ModelPath,
    prompt: Annotated[str, flag(GenerateOptions, "prompt")] = "",
    /,
    *,
    number: Annotated[int, flag(GenerateOptions, "n"), Parameter(name=("--number", "-n"))] = 1,
    seed: Seed = None,
    stream: Annotated[bool, Parameter(negative=(), help="Print each text as it is sampled.")] = False,
    draft: Draft = None,
    tree: Annotated[TreeFile, Needs("size")] = None,
    limits: LimitFlags = NO_FLAGS,
    sampling: SamplingFlags = NO_FLAGS,
    beam: BeamFlags = NO_FLAGS,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Sample texts from a model, or search for the likeliest with --beam.

        $ chainrule generate lm/ "I visited San" -n 3 --seed 1

    A text ends where the model ends it, at --max-tokens, or before a --stop string.
    <unk> is never printed: see --unknown.
    """
    search, within = beam_config(beam, number), Limits(**given_settings(limits))
    if search is None:
        if stream and (show.json or show.output is not None):
            raise CycloptsError(msg="--stream prints text; leave out --json and --output.")
        config = SamplingConfig(**given_settings(sampling))
    else:
        refuse_sampling(sampling)
        for name, given in (("--seed", seed is not None), ("--stream", stream)):
            if given:
                raise CycloptsError(msg=f"{name} has no effect with --beam, which does not sample.")
        if draft is not None:
            raise CycloptsError(msg="--draft has no effect with --beam, whose texts grow together.")
        if tree is not None:
            check_tree(tree, overwrite=show.overwrite)
    show.check()
    from chainrule.models.files.opening import open_drafting
    from chainrule.models.language_models import CausalModel

    with progress_bar() as progress:
        opened = open_model(model, tokenizer, markers, progress, kind=CausalModel)
        _note_unknown_words(opened, prompt)
        drafting = None if draft is None else open_drafting(draft)
        with prefix_errors(str(model)):
            decoder = opened.decoder_with(drafting)
        drawn = draw_seed(seed)
        if search is not None:
            result = decoder.search(prompt, search, within, progress=progress)
            if tree is not None:
                opened.beam_tree(prompt, search, within).save(tree, overwrite=show.overwrite)
        elif not stream:
            texts = opened.sample(prompt, number, config, within, seed=drawn, draft=drafting, progress=progress)
    if search is not None:
        show.show_all(text.shown(is_proven=result.is_proven) for text in result.texts)
        _note_search(opened, prompt, result, search, within)
        return
    if stream:
        is_continued = _stream(decoder, prompt, number, config, within, drawn)
    else:
        show.show_all(text.shown() for text in texts)
        is_continued = any(text.tokens for text in texts)
        if within.has_form:
            _note_form(texts, config, within)
    note_drafts(drafting)
    if prompt and number and within.max_tokens and not is_continued:
        note(_why_no_continuation(opened))
    if seed is None and config.temperature:  # without, nothing is drawn
        note(f"--seed {drawn} gives {'this text' if number == 1 else 'these texts'} again")


def _stream(decoder: TextDecoder, prompt: str, number: int, config: SamplingConfig, limits: Limits, seed: int) -> bool:
    """Prints texts as they are sampled, and returns whether one of them goes on after the prompt."""
    cut, is_continued = 0, False
    for i in range(number):
        shown = 0
        for piece in decoder.pieces(prompt, config, limits, seed=seed, number=i):
            print(piece.text, end="", flush=True)
            shown += bool(piece.text)
            cut += piece.ending == "length"
        print()
        is_continued |= shown > bool(prompt)
    _note_cut(cut, number, limits)
    return is_continued


def _note_form(texts: list[Text], config: SamplingConfig, limits: Limits) -> None:
    """Says which texts are cut, and how likely the form is."""
    from chainrule.decoding.config import AS_THE_MODEL
    from chainrule.decoding.text_generator import form_probability

    cut = sum(text.ending == "length" for text in texts)
    _note_cut(cut, len(texts), limits)
    if len(texts) - cut > 1 and config == AS_THE_MODEL and limits.is_only_form:
        value, error, _ = form_probability(texts)
        note(f"without the form, a text has it with probability {value:.2g} (standard error {error:.1g})")


def _note_cut(cut: int, number: int, limits: Limits) -> None:
    if cut and limits.has_form:
        note(f"{cut} of {number} texts reached --max-tokens {limits.max_tokens} before the form's end; raise it")


def _note_search(model: Model, prompt: str, result: SearchedTexts, config: BeamConfig, limits: Limits) -> None:
    """Says what is known of the texts that a search found."""
    if result.is_proven and limits.has_form:
        note(f"no other text of at most {limits.max_tokens} tokens is likelier: the beam lost none that could be")
    if prompt and limits.max_tokens and result.texts and not result.texts[0].tokens:
        note(_why_no_continuation(model))
    if len(result.texts) < config.best:
        note(f"the beam found {len(result.texts)} of {config.best} texts; widen it, or change --max-tokens")


def _why_no_continuation(model: Model) -> str:
    """The note for a text that the model ended right after the prompt."""
    document = model.record.get("reading", {}).get("document", "file")
    has_records = any(
        kind in name for name in model.record.get("data", {}) for kind in (".jsonl", ".ndjson", ".parquet")
    )
    by_lines = document == "line" or (document is None and not has_records)
    why = ", since each line of its training text was a document; train with --document file for texts of many lines"
    return f"the text ended right after the prompt{why if by_lines else ''}; --min-tokens 20 makes this model continue"


def _note_unknown_words(model: ScoringModel, *parts: str, of: str = "prompt", who: str = "the model") -> None:
    """parts: of the text, between what is no text. of: what the text is. who: the name of the model."""
    unknown = list(dict.fromkeys(word for part in parts for word in model.unknown_words(part)))
    if unknown:
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        note(f"{who} does not know {', '.join(unknown[:SHOWN])}{more} of the {of}; each counts as <unk>")


_PARTS = parts_of("next shell")


@with_flags(flags_of_parts(_PARTS))
def next_tokens(
    model: ModelPath,
    prompt: Annotated[
        str, Parameter(help="The text so far; empty for the start of a document.", allow_leading_hyphen=True)
    ] = "",
    /,
    *,
    top: Annotated[int, WholeNumber, Parameter(help="How many tokens to show.")] = 10,
    also: FurtherModels = (),
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    show: ResultOptions = TO_SCREEN,
    flags: dict[str, Any],
) -> None:
    """List the likeliest next tokens after a prompt.

        $ chainrule next lm/ "I visited San" --top 5
        $ chainrule next lm/ "I visited San" --also other/

    </s> is the end of the line, <unk> all unknown tokens together. · is a space,
    ¶ the end of a line, → a tab, and <E2> a byte that is no character by itself.
    Where tokens are whole words, ￭ marks a side without a space: ￭, follows a
    word directly. --json prints the tokens themselves, as --ban takes them.

    With --also, there is a column of probabilities for each model. The rows are
    the --top tokens of each model, in the order of the first one.
    """
    from chainrule.models.language_models import CausalModel

    show.check()
    if run_part(_PARTS, flags, model=model, prompt=prompt, also=also, tokenizer=tokenizer, markers=markers, show=show):
        return
    with progress_bar() as progress:
        names = names_of(paths := (model, *also))
        opened = [open_model(path, tokenizer, markers, progress, kind=CausalModel) for path in paths]
        models = dict(zip(names, opened, strict=True))
        found: Any = rows("next")["several"].get()(models, prompt, top) if also else opened[0].next(prompt, top)
        for name, one in models.items():
            _note_unknown_words(one, prompt, who=name if also else "the model")
    if also:
        show.show(found)
        return
    shown = opened[0].tokenizer.read_tokens([token.encode() for token, _ in found])
    cells = [[token, f"{p:.6f}", f"{-math.log2(p):.2f}"] for token, (_, p) in zip(shown, found, strict=True)]
    records = [{"token": token, "prob": prob, "log_prob": math.log(prob)} for token, prob in found]
    show.show(table(text_table(["token", "probability", "bits"], cells), records))


def fill(
    model: NetworkPath,
    text: Annotated[str, Parameter(help="A text with one or more masks, each for one token.")],
    /,
    *,
    top: Annotated[int, WholeNumber, Parameter(help="How many tokens to show for each mask.")] = 5,
    mask: Annotated[str | None, Parameter(help="What marks a gap in the text; by default [MASK].")] = None,
    markers: ModelMarkerRule = None,
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Fill gaps in a text with the likeliest tokens, given the text on both sides.

        $ chainrule fill masked/ "the [MASK] bit the man"

    For networks of train masked, masked-recurrent and bidirectional. A
    bidirectional one fills one gap at a time. Columns: probability, token; an empty line after
    each gap.
    """
    from chainrule.models.language_models import MaskedModel
    from chainrule.text.tokenization.tokenizer import MASK

    show.check()
    with progress_bar() as progress:
        masked = open_model(model, None, markers, progress, kind=MaskedModel)
        gap = MASK if mask is None else mask
        gaps = masked.fill(text, top, mask=gap)
        _note_unknown_words(masked, *text.split(gap), of="text")

    def shown(number: int, guesses: Sequence[tuple[str, float]]) -> Shown:
        tokens = masked.tokenizer.read_tokens([token.encode() for token, _ in guesses])
        lines = [f"{prob:.6f}\t{token}\n" for token, (_, prob) in zip(tokens, guesses, strict=True)]
        records = [{"token": token, "probability": probability} for token, probability in guesses]
        return Shown("".join(lines), records, [{"gap": number, **record} for record in records])

    show.show_all(map(shown, count(1), gaps))
