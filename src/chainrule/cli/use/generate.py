"""The verbs generate (samples texts, or searches for the likeliest), next (the next-token distribution) and fill.

`fill` predicts tokens for a gap, "the [MASK] bit the man", given both sides.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import printable, text_table
from chainrule.cli.shared.models import note_drafts, open_model
from chainrule.cli.shared.options import (
    NO_FLAGS,
    BeamFlags,
    Draft,
    Json,
    LimitFlags,
    ModelMarkerRule,
    ModelPath,
    ModelTokenizerName,
    Needs,
    NetworkPath,
    Overwrite,
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
from chainrule.cli.shared.screen import finite, note, print_json, progress_bar
from chainrule.decoding.config import Limits, SamplingConfig
from chainrule.errors import prefix_errors
from chainrule.models.config import GenerateOptions

if TYPE_CHECKING:
    from chainrule.decoding.config import BeamConfig
    from chainrule.decoding.text_generator import Text
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
    overwrite: Overwrite = False,
    limits: LimitFlags = NO_FLAGS,
    sampling: SamplingFlags = NO_FLAGS,
    beam: BeamFlags = NO_FLAGS,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    json: Json = False,
) -> None:
    """Sample texts from a model, or search for the likeliest with --beam.

        $ chainrule generate lm/ "I visited San" -n 3 --seed 1

    A text ends where the model ends it, at --max-tokens, or before a --stop string.
    <unk> is never printed: see --unknown.
    """
    search, within = beam_config(beam, number), Limits(**given_settings(limits))
    if search is None:
        if stream and json:
            raise CycloptsError(msg="--stream prints text; leave out --json.")
        _sample(
            model, prompt, number, seed, within, sampling, tokenizer, markers, draft=draft, stream=stream, json=json
        )
        return
    refuse_sampling(sampling)
    for name, given in (("--seed", seed is not None), ("--stream", stream)):
        if given:
            raise CycloptsError(msg=f"{name} has no effect with --beam, which does not sample.")
    if draft is not None:
        raise CycloptsError(msg="--draft has no effect with --beam, whose texts grow together.")
    if tree is not None:
        check_tree(tree, overwrite=overwrite)
    _search(model, prompt, search, within, tree, tokenizer, markers, overwrite=overwrite, json=json)


def _sample(
    path: Path,
    prompt: str,
    number: int,
    seed: int | None,
    limits: Limits,
    sampling: SamplingFlags,
    tokenizer: ModelTokenizerName,
    markers: ModelMarkerRule,
    *,
    draft: str | None,
    stream: bool,
    json: bool,
) -> None:
    from chainrule.models.files.opening import open_drafting
    from chainrule.models.language_models import CausalModel

    config, is_continued = SamplingConfig(**given_settings(sampling)), False
    drawn = draw_seed(seed)
    with progress_bar() as progress:
        model = open_model(path, tokenizer, markers, progress, kind=CausalModel)
        _note_unknown_words(model, prompt)
        drafting = None if draft is None else open_drafting(draft)
        with prefix_errors(str(path)):
            decoder = model.decoder_with(drafting)
        if not stream:
            texts = model.sample(prompt, number, config, limits, seed=drawn, draft=drafting, progress=progress)
    if stream:
        cut = 0
        for i in range(number):
            shown = 0
            for piece in decoder.pieces(prompt, config, limits, seed=drawn, number=i):
                print(piece.text, end="", flush=True)
                shown += bool(piece.text)
                cut += piece.ending == "length"
            print()
            is_continued |= shown > bool(prompt)
        _note_cut(cut, number, limits)
    else:
        for text in texts:
            _print(text, json=json)
        is_continued = any(text.tokens for text in texts)
        if limits.has_form:
            _note_form(texts, config, limits)
    note_drafts(drafting)
    if prompt and number and limits.max_tokens and not is_continued:
        note(_why_no_continuation(model))
    if seed is None and config.temperature:  # without, nothing is drawn
        note(f"--seed {drawn} gives {'this text' if number == 1 else 'these texts'} again")


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


def _search(
    path: Path,
    prompt: str,
    config: BeamConfig,
    limits: Limits,
    tree: Path | None,
    tokenizer: ModelTokenizerName,
    markers: ModelMarkerRule,
    *,
    overwrite: bool,
    json: bool,
) -> None:
    from chainrule.models.language_models import CausalModel

    with progress_bar() as progress:
        model = open_model(path, tokenizer, markers, progress, kind=CausalModel)
        _note_unknown_words(model, prompt)
        result = model.decoder.search(prompt, config, limits, progress=progress)
        if tree is not None:
            model.beam_tree(prompt, config, limits).save(tree, overwrite=overwrite)
    for text in result.texts:
        _print(text, json=json, is_proven=result.is_proven)
    if result.is_proven and limits.has_form:
        note(f"no other text of at most {limits.max_tokens} tokens is likelier: the beam lost none that could be")
    if prompt and limits.max_tokens and result.texts and not result.texts[0].tokens:
        note(_why_no_continuation(model))
    if len(result.texts) < config.best:
        note(f"the beam found {len(result.texts)} of {config.best} texts; widen it, or change --max-tokens")


def _print(text: Text, *, json: bool, is_proven: bool | None = None) -> None:
    """is_proven: of a text that was searched, whether none is likelier."""
    if json:
        row: dict[str, Any] = {"text": text.text, "log_prob": finite(text.log_prob)}
        if is_proven is not None:
            row |= {"score": finite(text.score), "proven": is_proven}
        if text.log_mass is not None:
            row["log_mass"] = finite(text.log_mass)
        print_json({**row, "ending": text.ending, "tokens": text.tokens})
    elif is_proven is not None:
        print(f"{text.score:.4f}\t{printable(text.text)}")
    else:
        print(text.text)


def _why_no_continuation(model: Model) -> str:
    """The note for a text that the model ended right after the prompt."""
    document = model.record.get("reading", {}).get("document", "file")
    has_records = any(
        kind in name for name in model.record.get("data", {}) for kind in (".jsonl", ".ndjson", ".parquet")
    )
    by_lines = document == "line" or (document is None and not has_records)
    why = ", since each line of its training text was a document; train with --document file for texts of many lines"
    return f"the text ended right after the prompt{why if by_lines else ''}; --min-tokens 20 makes this model continue"


def _note_unknown_words(model: ScoringModel, *parts: str, of: str = "prompt") -> None:
    """parts: of the text, between what is no text. of: what the text is."""
    unknown = list(dict.fromkeys(word for part in parts for word in model.unknown_words(part)))
    if unknown:
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        note(f"the model does not know {', '.join(unknown[:SHOWN])}{more} of the {of}; each counts as <unk>")


def next_tokens(
    model: ModelPath,
    prompt: Annotated[
        str, Parameter(help="The text so far; empty for the start of a document.", allow_leading_hyphen=True)
    ] = "",
    /,
    *,
    top: Annotated[int, WholeNumber, Parameter(help="How many tokens to show.")] = 10,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    json: Json = False,
) -> None:
    """List the likeliest next tokens after a prompt.

        $ chainrule next lm/ "I visited San" --top 5

    </s> is the end of the line, <unk> all unknown tokens together. · stands for a
    space, ¶ for the end of a line, → for a tab, and <E2> for a byte that is no
    character by itself. Where tokens are whole words, ‿ marks the side on which
    one touches its neighbour. --json prints the tokens themselves, as --ban takes
    them.
    """
    from chainrule.models.language_models import CausalModel

    with progress_bar() as progress:
        opened = open_model(model, tokenizer, markers, progress, kind=CausalModel)
        pairs = opened.next(prompt, top)
        _note_unknown_words(opened, prompt)
    if json:
        rows = [{"token": token, "prob": prob, "log_prob": math.log(prob)} for token, prob in pairs]
        print_json(rows)
    else:
        shown = opened.tokenizer.read_tokens([token.encode() for token, _ in pairs])
        table = [[token, f"{p:.6f}", f"{-math.log2(p):.2f}"] for token, (_, p) in zip(shown, pairs, strict=True)]
        print(text_table(["token", "probability", "bits"], table))


def fill(
    model: NetworkPath,
    text: Annotated[str, Parameter(help="A text with one or more masks, each for one token.")],
    /,
    *,
    top: Annotated[int, WholeNumber, Parameter(help="How many tokens to show for each mask.")] = 5,
    mask: Annotated[str | None, Parameter(help="What marks a gap in the text; by default [MASK].")] = None,
    markers: ModelMarkerRule = None,
    json: Json = False,
) -> None:
    """Fill gaps in a text with the likeliest tokens, given the text on both sides.

        $ chainrule fill masked/ "the [MASK] bit the man"

    For networks of train masked, masked-recurrent and bidirectional; the last
    fills one gap at a time. Columns: probability, token; an empty line after
    each gap.
    """
    from chainrule.models.language_models import MaskedModel
    from chainrule.text.tokenization.tokenizer import MASK

    with progress_bar() as progress:
        masked = open_model(model, None, markers, progress, kind=MaskedModel)
        gap = MASK if mask is None else mask
        gaps = masked.fill(text, top, mask=gap)
        _note_unknown_words(masked, *text.split(gap), of="text")
    for guesses in gaps:
        if json:
            print_json([{"token": token, "probability": probability} for token, probability in guesses])
            continue
        shown = masked.tokenizer.read_tokens([token.encode() for token, _ in guesses])
        for token, (_, probability) in zip(shown, guesses, strict=True):
            print(f"{probability:.6f}\t{token}")
        print()
