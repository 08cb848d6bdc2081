"""Adds errors to texts: of a keyboard, of character recognition, or of learners; and proposes corrections."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from chainrule.base.options import takes
from chainrule.base.progress import BlockProgress
from chainrule.base.threads import map_in_order
from chainrule.errors import SettingError, TextError
from chainrule.features.correct.channel.character_channel import CONFUSIONS, channel_named
from chainrule.features.correct.channel.english import EnglishNoise
from chainrule.features.correct.channel.files import read_grammar
from chainrule.features.correct.channel.inflections import english_inflections, read_inflections
from chainrule.features.correct.channel.lexicon import Lexicon, prior_of
from chainrule.features.correct.channel.proposals import ProposalConfig, Proposer
from chainrule.features.correct.channel.ready import CHANNELS, ENGLISH
from chainrule.features.correct.channel.word_channel import GrammarNoise, english_grammar, words_and_marks
from chainrule.features.correct.options import NoiseOptions
from chainrule.models.any_model import check_model
from chainrule.models.progress_line import ProgressOption, showing
from chainrule.text.corpus.corpus import source_of
from chainrule.text.tokenization.config import OF_WORDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from chainrule.base.progress import Progress
    from chainrule.features.correct.channel.character_channel import Channel
    from chainrule.features.correct.channel.proposals import Proposal
    from chainrule.models.model import Model
    from chainrule.text.corpus.corpus import Paths, Source

_BATCH = 256  # texts, by one thread
_RATE_OF_CHARACTERS, _RATE_OF_WORDS, _RATE_OF_ENGLISH = 0.03, 0.2, 0.1
_MISSPELT = 0.03  # of the rate of errors of grammar: that of errors at a character
_REPORTED_BYTES = 1 << 14  # of text, after which progress is reported


class NoisyText(NamedTuple):
    """A text, with and without errors. proposals: corrections that a model proposed, likeliest first."""

    text: str
    observed: str
    proposals: list[Proposal] | None = None

    def as_json(self, id: str) -> dict[str, Any]:
        """Return an n-best list for `rescore`, with scores of the channel and of unigrams; the model of `rescore`
        replaces the latter.
        """
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


class _Corrupting(Protocol):
    def corrupted(self, text: str, rng: np.random.Generator) -> str: ...


@takes(NoiseOptions)
def noise(source: Source | Paths, options: NoiseOptions) -> Iterator[NoisyText]:
    """Add errors to each line of a text, lazily.

    The options are those of `NoiseOptions`. Raises SettingError; TextError where a document is no line.

    good:  [line] = chainrule.noise(chainrule.Lines(["so it goes"]), rate=0.2); line.observed
    """
    channel, model = options.channel, options.model
    if model is not None:
        check_model(model)
    read = source_of(source)
    if channel in CHANNELS and options.inflections is not None:
        raise SettingError(f"inflections are for errors of grammar; the channel is {channel}")
    if isinstance(channel, str) and channel in CONFUSIONS:
        letters = channel_named(channel, options.rate or _RATE_OF_CHARACTERS)
        proposer = None if model is None else proposer_of(letters, model, options.best)
        return _spoilt_lines(read, letters, options.seed, proposer, options.progress)
    if model is not None:
        raise SettingError("a model proposes corrections of the channels keyboard and ocr; leave the model out")
    if channel == ENGLISH:
        return _spoilt_lines(read, EnglishNoise(options.rate or _RATE_OF_ENGLISH), options.seed, None, options.progress)
    return _spoilt_lines(read, grammar_noise(read, options), options.seed, None, options.progress)


def grammar_noise(source: Source, options: NoiseOptions) -> GrammarNoise:
    """Return the errors of grammar that the options name. Raises SettingError, ModelFormatError, TextError."""
    channel, rate, inflections = options.channel, options.rate, options.inflections
    if channel == "grammar":
        grammar = english_grammar(rate or _RATE_OF_WORDS)
    elif isinstance(channel, str) and not Path(channel).exists():
        raise SettingError(
            f"there is no channel called {channel!r}, nor a file; expected {', '.join(CHANNELS)}, grammar or a file"
        )
    elif rate is not None:
        raise SettingError("a learned channel has rates of its own; leave the rate out")
    else:
        grammar = read_grammar(Path(channel))
    forms = english_inflections(_words_of(source)) if inflections is None else read_inflections(inflections)
    spelling = channel_named("keyboard", _MISSPELT * (rate or _RATE_OF_WORDS))
    return GrammarNoise(grammar, forms, spelling)


def _words_of(source: Source) -> Collection[str]:
    """Return words in lower case that a source has more than once."""
    counts = Counter(
        word.lower() for block in source.blocks() for text in block.documents() for word in words_and_marks(text)
    )
    return {word for word, count in counts.items() if count > 1}


def proposer_of(channel: Channel, model: Model, best: int) -> Proposer:
    """Propose corrections with a model. Raises SettingError if its tokens are not words."""
    config = ProposalConfig(best=best)
    if model.tokenizer.name not in OF_WORDS:
        raise SettingError(
            f"the model has the {model.tokenizer.name} tokenizer, whose tokens are not words; give a model with the "
            f"tokenizer {' or '.join(OF_WORDS)}"
        )
    words = [token.decode("utf-8", "replace") for token in model.tokenizer.vocabulary.tokens()]
    return Proposer(channel, Lexicon(words, prior_of(model.language_model, model.tokenizer, model.speller)), config)


def _spoilt_lines(
    source: Source, channel: _Corrupting, seed: int, proposer: Proposer | None, progress: ProgressOption
) -> Iterator[NoisyText]:
    with showing(progress) as shown:
        lines = _spoilt(source, channel, seed, shown)
        yield from lines if proposer is None else _with_proposals(lines, proposer)


def _spoilt(source: Source, channel: _Corrupting, seed: int, progress: Progress) -> Iterator[NoisyText]:
    """Yield every line, with and without errors. Raises TextError where a document is no line."""
    rng = np.random.default_rng(seed)
    inside = BlockProgress(progress, "spoiling")
    for block in source.blocks(inside, "spoiling"):
        done = 0
        for piece in block.pieces(_REPORTED_BYTES):
            for number, text in enumerate(piece.documents(), 1):
                if "\n" in text:
                    raise TextError(f"{piece.locate(number)}: the document holds newlines; cut it with document='line'")
                yield NoisyText(text, channel.corrupted(text, rng))
            done += piece.text.size
            inside.report(done)


def _with_proposals(lines: Iterable[NoisyText], proposer: Proposer) -> Iterator[NoisyText]:
    """Yield the lines with proposals, computed on threads."""

    def propose(batch: list[NoisyText]) -> list[NoisyText]:
        proposals = proposer.propose([line.observed for line in batch])
        return [line._replace(proposals=own) for line, own in zip(batch, proposals, strict=True)]

    for batch in map_in_order(propose, _batches(lines)):
        yield from batch


def _batches(lines: Iterable[NoisyText]) -> Iterator[list[NoisyText]]:
    rest = iter(lines)
    while batch := list(islice(rest, _BATCH)):
        yield batch
