"""chainrule noise TEXTS: texts as a keyboard or the recognition of print would spoil them, and what may be meant."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import ModelTokenizerName, Overwrite, TextFiles, WholeNumber
from chainrule.cli.models import opened
from chainrule.cli.screen import progress
from chainrule.cli.texts import AS_USUAL, TextOptions, check_text_target, note_repairs
from chainrule.errors import SettingError, TextError
from chainrule.progress import BlockProgress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chainrule.applications.channel.channel import Channel
    from chainrule.applications.channel.proposing import Proposal, Proposer
    from chainrule.progress import Progress
    from chainrule.text.corpus import Corpus

_OF_WORDS = ("word", "whitespace")
_AT_ONCE = 256  # texts, by one thread
_TOLD_BYTES = 1 << 14  # of text, after which progress is told


def noise(
    *texts: TextFiles,
    channel: Annotated[
        Literal["keyboard", "ocr"],
        Parameter(help="What makes the errors: slips of the fingers, or letters that look alike."),
    ] = "keyboard",
    rate: Annotated[
        float, Parameter(help="How often something goes wrong at a character that can go wrong, up to 0.5.")
    ] = 0.03,
    seed: Annotated[int, WholeNumber, Parameter(help="Another seed makes other errors.")] = 0,
    model: Annotated[
        Path | None, Parameter(help="A model whose words may have been meant: write n-best lists, and no text.")
    ] = None,
    best: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="With --model: how many texts that may have been meant are in a list; 50 unless said."),
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(name=("--output", "-o"), help="The file to write, also compressed; by default the screen."),
    ] = None,
    tokenizer: ModelTokenizerName = None,
    reading: TextOptions = AS_USUAL,
    overwrite: Overwrite = False,
) -> None:
    """Spoil a text with errors, and propose what may have been meant.

    A line becomes a line with errors. With --model, it becomes a list for
    chainrule rescore: the texts that may have been meant, the likeliest
    first, each with its two scores: log P(observed | text) of the channel,
    and the sum of its words' log P by themselves, as the model has them; the
    latter is marked as a prior, which rescore's models stand in for. The line
    itself is the list's reference, and what came out its "observed".
    """
    from chainrule.applications.channel.confusions import channel_named
    from chainrule.files import compressing, replaced
    from chainrule.text.writing import check_format

    for name, given in (("--best", best), ("--tokenizer", tokenizer)):
        if model is None and given is not None:
            raise CycloptsError(msg=f"{name} is for lists of what may have been meant; name their --model.")
    noisy = channel_named(channel, rate)
    source = reading.corpus(*texts)
    if output is not None:
        check_format(output)
        check_text_target(output, source, overwrite=overwrite)
    with progress() as told, ExitStack() as stack:
        proposer = None if model is None else _proposer(noisy, model, 50 if best is None else best, tokenizer, told)
        pairs = _spoilt(source, noisy, seed, told)
        file: Any = sys.stdout.buffer
        if output is not None:
            file = stack.enter_context(compressing(stack.enter_context(replaced(output)), output))
        for line in _lists(pairs, proposer) if proposer is not None else (observed for _, observed in pairs):
            file.write(line.encode() + b"\n")
    note_repairs(source)


def _proposer(channel: Channel, model: Path, best: int, tokenizer: str | None, told: Progress) -> Proposer:
    from chainrule.applications.channel.lexicon import Lexicon, prior_of
    from chainrule.applications.channel.proposing import ProposalConfig, Proposer

    config = ProposalConfig(best=best)
    loaded = opened(model, tokenizer, None, told)
    if loaded.tokenizer.name not in _OF_WORDS:
        raise SettingError(
            f"{model}: its tokens are those of the {loaded.tokenizer.name} tokenizer, and no words; name a model that "
            f"was trained with --tokenizer {' or '.join(_OF_WORDS)}"
        )
    words = [token.decode("utf-8", "replace") for token in loaded.tokenizer.vocabulary.tokens()]
    return Proposer(channel, Lexicon(words, prior_of(loaded.language_model, loaded.tokenizer, loaded.speller)), config)


def _spoilt(source: Corpus, channel: Channel, seed: int, told: Progress) -> Iterator[tuple[str, str]]:
    """Every line, and what comes out of it. Raises TextError where a document is no line."""
    import numpy as np

    rng = np.random.default_rng(seed)
    inside = BlockProgress(told, "spoiling")
    for block in source.blocks(inside, "spoiling"):
        done = 0
        for piece in block.pieces(_TOLD_BYTES):
            for number, text in enumerate(piece.documents(), 1):
                if "\n" in text:
                    raise TextError(f"{piece.place(number)}: the document holds newlines; cut it with --document line")
                yield text, channel.corrupted(text, rng)
            done += piece.text.size
            inside.tell(done)


def _lists(pairs: Iterable[tuple[str, str]], proposer: Proposer) -> Iterator[str]:
    """JSON lists, proposed on threads."""
    from chainrule.jit import in_order

    def proposed(some: list[tuple[str, str]]) -> list[tuple[str, str, list[Proposal]]]:
        found = proposer.propose([observed for _, observed in some])
        return [(*pair, proposals) for pair, proposals in zip(some, found, strict=True)]

    number = 0
    for some in in_order(proposed, _some_at_a_time(pairs)):
        for text, observed, proposals in some:
            number += 1
            hypotheses = [
                {"text": one.text, "scores": {"channel": round(one.channel, 4), "unigram": round(one.prior, 4)}}
                for one in proposals
            ]
            record = {"id": str(number), "observed": observed, "hypotheses": hypotheses, "reference": text}
            record["priors"] = ["unigram"]
            yield json.dumps(record, ensure_ascii=False)


def _some_at_a_time(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    from itertools import islice

    rest = iter(pairs)
    while some := list(islice(rest, _AT_ONCE)):
        yield some
