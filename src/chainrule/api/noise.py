"""Adds typing or OCR errors to texts, and proposes corrections."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.api.model import check_model
from chainrule.api.progress_line import ProgressOption, showing
from chainrule.applications.channel.confusions import channel_named
from chainrule.applications.channel.lexicon import Lexicon, prior_of
from chainrule.applications.channel.proposals import ProposalConfig, Proposer
from chainrule.base.progress import BlockProgress
from chainrule.base.threads import map_in_order
from chainrule.errors import SettingError, TextError
from chainrule.text.corpus import source_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chainrule.api.model import Model
    from chainrule.applications.channel.channel import Channel
    from chainrule.applications.channel.confusions import Confusions
    from chainrule.applications.channel.proposals import Proposal
    from chainrule.base.progress import Progress
    from chainrule.text.corpus import Paths, Source

_OF_WORDS = ("word", "whitespace")
_BATCH = 256  # texts, for one thread
_REPORTED_BYTES = 1 << 14  # of text, after which progress is reported


class Spoilt(NamedTuple):
    """A text, with and without errors. proposals: corrections, likeliest first, if a model proposed any."""

    text: str
    observed: str
    proposals: list[Proposal] | None = None

    def as_json(self, id: str) -> dict[str, Any]:
        """An n-best list for `rescore`, with scores of the channel and of unigrams; a model replaces the latter."""
        hypotheses = [
            {
                "text": proposal.text,
                "scores": {"channel": round(proposal.channel, 4), "unigram": round(proposal.prior, 4)},
            }
            for proposal in self.proposals or []
        ]
        return {
            "id": id,
            "observed": self.observed,
            "hypotheses": hypotheses,
            "reference": self.text,
            "priors": ["unigram"],
        }


def noise(
    source: Source | Paths,
    *,
    channel: Confusions = "keyboard",
    rate: float = 0.03,
    seed: int = 0,
    model: Model | None = None,
    best: int = 50,
    progress: ProgressOption = None,
) -> Iterator[Spoilt]:
    """Adds errors to each line of a text, lazily.

    channel: keyboard, slips of the fingers; ocr, letters that look alike. rate: the probability of an error at a
    character that can have one, up to 0.5. model: a model of words, to propose corrections; best: how many.
    Raises SettingError; TextError if a document has several lines.

    good:  [line] = chainrule.noise(chainrule.Lines(["so it goes"]), rate=0.2); line.observed
    """
    if model is not None:
        check_model(model)
    noisy = channel_named(channel, rate)
    proposer = None if model is None else proposer_of(noisy, model, best)
    return _spoilt_lines(source_of(source), noisy, seed, proposer, progress)


def proposer_of(channel: Channel, model: Model, best: int) -> Proposer:
    """Proposes corrections with a model. Raises SettingError if its tokens are not words."""
    config = ProposalConfig(best=best)
    if model.tokenizer.name not in _OF_WORDS:
        raise SettingError(
            f"the model has the {model.tokenizer.name} tokenizer, whose tokens are not words; give a model with the "
            f"tokenizer {' or '.join(_OF_WORDS)}"
        )
    words = [token.decode("utf-8", "replace") for token in model.tokenizer.vocabulary.tokens()]
    return Proposer(channel, Lexicon(words, prior_of(model.language_model, model.tokenizer, model.speller)), config)


def _spoilt_lines(
    source: Source, channel: Channel, seed: int, proposer: Proposer | None, progress: ProgressOption
) -> Iterator[Spoilt]:
    with showing(progress) as shown:
        lines = _spoilt(source, channel, seed, shown)
        yield from lines if proposer is None else _with_proposals(lines, proposer)


def _spoilt(source: Source, channel: Channel, seed: int, progress: Progress) -> Iterator[Spoilt]:
    """Every line, with errors. Raises TextError if a document has several lines."""
    rng = np.random.default_rng(seed)
    inside = BlockProgress(progress, "spoiling")
    for block in source.blocks(inside, "spoiling"):
        done = 0
        for piece in block.pieces(_REPORTED_BYTES):
            for number, text in enumerate(piece.documents(), 1):
                if "\n" in text:
                    raise TextError(f"{piece.locate(number)}: the document holds newlines; cut it with document='line'")
                yield Spoilt(text, channel.corrupted(text, rng))
            done += piece.text.size
            inside.report(done)


def _with_proposals(lines: Iterable[Spoilt], proposer: Proposer) -> Iterator[Spoilt]:
    """The lines with proposals, computed on threads."""

    def propose(batch: list[Spoilt]) -> list[Spoilt]:
        proposals = proposer.propose([line.observed for line in batch])
        return [line._replace(proposals=own) for line, own in zip(batch, proposals, strict=True)]

    for batch in map_in_order(propose, _batches(lines)):
        yield from batch


def _batches(lines: Iterable[Spoilt]) -> Iterator[list[Spoilt]]:
    rest = iter(lines)
    while batch := list(islice(rest, _BATCH)):
        yield batch
