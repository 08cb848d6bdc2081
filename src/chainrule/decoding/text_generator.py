"""Prompts in, texts out: sampling and beam search with a language model and its tokenizer.

<unk> is never printed: it is banned, or a speller replaces it by a word that the vocabulary lacks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from chainrule.base.arguments import check_least, check_type
from chainrule.base.progress import Progress, silent
from chainrule.base.results import Shown, finite, row
from chainrule.base.tables import printable
from chainrule.decoding.beam import Hypothesis, SearchTree, search, with_greedy
from chainrule.decoding.config import AS_THE_MODEL, MOST_TEXTS, BeamConfig, Limits, SamplingConfig, first_stop
from chainrule.decoding.limits import GrowingText, constraints_for
from chainrule.decoding.sampling import Sample, Step, sample, steps, steps_from
from chainrule.errors import SettingError
from chainrule.protocol import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.decoding.sampling import Ending
    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.tokenizer import Tokenizer


class Spelling(Protocol):
    """Draws the spellings of words that a vocabulary lacks."""

    def sample(self, rng: np.random.Generator) -> bytes: ...


class Text(NamedTuple):
    """A generated text.

    text: the normalised prompt and the continuation. continuation: the generated part alone.
    log_prob: that of the generated tokens, and of </s> if the text ended with it, in nats. score: what it was ranked
    by. tokens: the generated tokens, with the tokenizer's markers. log_mass: of a text that was drawn in a form and
    otherwise as the model says, the sum of log m over the steps, where m is the probability of all tokens that might
    follow; see `form_probability`.
    """

    text: str
    log_prob: float
    score: float
    ending: Ending
    tokens: list[str]
    continuation: str
    log_mass: float | None = None

    def shown(self, *, is_proven: bool | None = None) -> Shown:
        """Return it as a line. is_proven: of a text that was searched, whether none is likelier."""
        record: dict[str, Any] = {"text": self.text, "log_prob": finite(self.log_prob)}
        if is_proven is not None:
            record |= {"score": finite(self.score), "proven": is_proven}
        if self.log_mass is not None:
            record["log_mass"] = finite(self.log_mass)
        line = self.text if is_proven is None else f"{self.score:.4f}\t{printable(self.text)}"
        return row(line, {**record, "ending": self.ending, "tokens": self.tokens})


class FormProbability(NamedTuple):
    """An estimate of the probability that a text has a form.

    value: the estimate of P(form), error: its standard error, at_least: what the texts found have together.
    """

    value: float
    error: float
    at_least: float


def form_probability(texts: Iterable[Text]) -> FormProbability:
    """Return the probability that the model's text has a form, if it ends within the limits, by texts drawn in that
    form.

    They must be drawn as the model says: temperature 1, and nothing cut or penalised. Raises SettingError if a text was
    not drawn in a form, or there is none.

    good:  form_probability(model.generate("Answer:", 100, limits=Limits(regex="yes|no"))).value
    """
    texts = list(texts)
    if not texts or any(text.log_mass is None for text in texts):
        raise SettingError(
            "there is no text, or one was not drawn in a form alone: no temperature, cuts, bans or begin; give what "
            "sample returned"
        )
    logs = np.array([(text.log_mass or 0.0) if text.ending == "end" else -math.inf for text in texts])
    scale = logs.max()
    if scale == -math.inf:
        return FormProbability(0.0, math.inf, 0.0)  # no text has the form: it may be rare, or longer
    masses = np.exp(logs - scale)
    error = float(np.std(masses, ddof=1)) / math.sqrt(masses.size) if masses.size > 1 else math.inf
    found = {tuple(text.tokens): math.exp(text.log_prob) for text in texts if text.ending == "end"}
    return FormProbability(float(masses.mean()) * math.exp(scale), error * math.exp(scale), sum(found.values()))


class Piece(NamedTuple):
    """A piece of a text that is being generated. ending: why the text ended; None while it continues."""

    text: str
    ending: Ending | None = None


class SearchedTexts(NamedTuple):
    """The result of a search for the best texts.

    texts: distinct, best first. tree: all that the search considered, if keep_tree. is_proven: whether no other text
    within the limits is likelier.
    """

    texts: list[Text]
    tree: SearchTree | None
    is_proven: bool = False


def _checked(config: SamplingConfig | None, limits: Limits | None, seed: int) -> Limits:
    """Return the limits, by default no others than their class has. Raises TypeError, SettingError."""
    check_type("sampling", config or SamplingConfig(), SamplingConfig)
    check_type("limits", limits or Limits(), Limits)
    check_least("seed", seed, 0)
    return limits or Limits()


class TextDecoder:
    """Generates texts with a language model and its tokenizer. speller: returns the speller, on first use."""

    def __init__(self, model: LanguageModel[Any], tokenizer: Tokenizer, speller: Callable[[], Spelling]) -> None:
        self.model, self.tokenizer, self.speller = model, tokenizer, speller

    def sample_each(
        self,
        prompts: Sequence[str],
        n: int = 1,
        config: SamplingConfig | None = None,
        limits: Limits | None = None,
        *,
        seed: int,
        progress: Progress = silent,
    ) -> list[Text]:
        """Return n texts for each prompt, one prompt after the other.

        The same seed gives the same texts; text i does not depend on n. Raises SettingError, also where several prompts
        are to continue with the same words, `begin`.
        """
        check_least("n", n, 1, MOST_TEXTS)
        limits = _checked(config, limits, seed)
        if limits.begin and len(prompts) > 1:
            raise SettingError(f"begin is {limits.begin!r} for {len(prompts)} prompts; put it into the prompts")
        start = [_Prompt.of(prompt, self.tokenizer) for prompt in prompts]
        constraints = constraints_for(limits, self.tokenizer, next(iter(prompts), ""))
        growing: dict[int, GrowingText] = {}

        def is_stopped(number: int, tokens: Sequence[int]) -> bool:
            if number not in growing:
                surfaces = self._surfaces(tokens[:-1], seed, number)
                growing[number] = self._growing(start[number // n], limits, surfaces)
            growing[number].add(self._surface(tokens[-1], seed, number, len(tokens) - 1))
            return growing[number].is_stopped

        samples = sample(
            self.model,
            [prompt.tokens for prompt in start],
            config,
            constraints,
            seed=seed,
            texts_per_prefix=n,
            until=is_stopped if limits.stop else None,
            progress=progress,
        )
        is_the_models = (config or SamplingConfig()) == AS_THE_MODEL and limits.is_only_form
        texts = [
            self._text(start[number // n], limits, output, self._surfaces(output.tokens, seed, number))
            for number, output in enumerate(samples)
        ]
        return texts if is_the_models else [text._replace(log_mass=None) for text in texts]

    def stream(
        self,
        prompt: str,
        config: SamplingConfig | None = None,
        limits: Limits | None = None,
        *,
        seed: int,
        number: int = 0,
    ) -> Iterator[str]:
        """Yield what `pieces` yields, without the endings and the empty texts."""
        grown = self.pieces(prompt, config, limits, seed=seed, number=number)
        yield next(grown).text
        yield from (piece.text for piece in grown if piece.text)

    def pieces(
        self,
        prompt: str,
        config: SamplingConfig | None = None,
        limits: Limits | None = None,
        *,
        seed: int,
        number: int = 0,
    ) -> Iterator[Piece]:
        """Yield text `number` of `sample_each`, in parts, each as soon as no later token can change it.

        The first piece is the prompt; only the last one has an ending. Raises SettingError.
        """
        limits = _checked(config, limits, seed)
        start = _Prompt.of(prompt, self.tokenizer)
        constraints = constraints_for(limits, self.tokenizer, prompt)
        growing = self._growing(start, limits, [])
        yield Piece(start.text)
        grown = steps(self.model, [start.tokens], config, constraints, seed=seed, first=number)
        yield from self._pieces(grown, growing, seed, number)

    def stream_from(
        self,
        state: Any,
        prefix: Int32[ndarray, " prefix"],
        config: SamplingConfig | None = None,
        limits: Limits | None = None,
        *,
        seed: int,
        number: int = 0,
    ) -> Iterator[Piece]:
        """Yield the text that continues from a state of one row, which stays usable; only the last piece has an ending.

        prefix: the tokens that the row has read, which matter for repetition alone. seed, number: as for `stream`.
        Raises SettingError.
        """
        limits = limits or Limits()
        constraints = constraints_for(limits, self.tokenizer, "")
        grown = steps_from(self.model, state, [prefix], config, constraints, seed=seed, first=number)
        yield from self._pieces(grown, GrowingText(self.tokenizer.restore, [], limits.stop), seed, number)

    def _pieces(self, grown: Iterator[Step], growing: GrowingText, seed: int, number: int) -> Iterator[Piece]:
        """Yield the parts of the one text that grows; the last one, which may be empty, says why it ended."""
        ending: Ending = "length"
        for position, step in enumerate(grown):
            [token] = step.tokens.tolist()
            if token == self.model.end:
                ending = "end"
                break
            piece = growing.add(self._surface(token, seed, number, position))
            if piece:
                yield Piece(piece)
            if growing.is_stopped:
                break
        rest = growing.rest()
        yield Piece(rest, "stop" if growing.is_stopped else ending)

    def search(
        self,
        prompt: str,
        config: BeamConfig | None = None,
        limits: Limits | None = None,
        *,
        keep_tree: bool = False,
        progress: Progress = silent,
    ) -> SearchedTexts:
        """Search the best texts. Raises SettingError, also if no text within the limits is found."""
        limits = limits or Limits()
        if limits.unknown == "spelled":
            raise SettingError("beam search cannot spell unknown words, since spellings are drawn; leave <unk> banned")
        start = _Prompt.of(prompt, self.tokenizer)

        def is_stopped(tokens: Sequence[int]) -> bool:
            return first_stop(self._after(start, self._surfaces(tokens)), limits.stop) >= 0

        config, constraints = config or BeamConfig(), constraints_for(limits, self.tokenizer, prompt)
        until = is_stopped if limits.stop else None
        [result] = search(
            self.model, [start.tokens], config, constraints, until=until, keep_tree=keep_tree, progress=progress
        )
        if not result.hypotheses:
            raise SettingError("the beam found no text within the limits; widen it, or raise max_tokens")
        output = [
            self._text(start, limits, hypothesis, self._surfaces(hypothesis.tokens)) for hypothesis in result.hypotheses
        ]
        texts = {text.text: text for text in reversed(output)}  # two paths to one text: the better one stays
        tree = None
        if keep_tree:
            tree = with_greedy(self.model, start.tokens, result.tree, config, constraints, until)
        return SearchedTexts(sorted(texts.values(), key=output.index), tree, result.is_proven)

    def _surface(self, token: int, seed: int = 0, number: int = 0, position: int = 0) -> bytes:
        """Return a token as it is written. The spelling of an unknown one depends only on seed, text and position."""
        if token == UNKNOWN:
            return self.speller().sample(np.random.default_rng([seed, number, position]))
        return self.tokenizer.vocabulary.token_bytes(int(token))

    def _surfaces(self, tokens: Sequence[int] | Int32[ndarray, " T"], seed: int = 0, number: int = 0) -> list[bytes]:
        return [self._surface(int(token), seed, number, position) for position, token in enumerate(tokens)]

    def _growing(self, start: _Prompt, limits: Limits, surfaces: list[bytes]) -> GrowingText:
        growing = GrowingText(self.tokenizer.restore, start.surfaces, limits.stop)
        for surface in surfaces:
            growing.add(surface)
        return growing

    def _after(self, start: _Prompt, surfaces: list[bytes]) -> str:
        """Return the text that some tokens add to the prompt."""
        whole = self.tokenizer.restore(b" ".join([*start.surfaces, *surfaces]))
        return whole[len(start.text.encode()) :].decode("utf-8", "replace")

    def _text(self, start: _Prompt, limits: Limits, output: Sample | Hypothesis, surfaces: list[bytes]) -> Text:
        after = self._after(start, surfaces)
        if output.ending == "stop":
            after = after[: first_stop(after, limits.stop)]
        score = output.score if isinstance(output, Hypothesis) else output.log_prob
        tokens = [surface.decode("utf-8", "replace") for surface in surfaces]
        masses = output.log_masses if isinstance(output, Sample) else None
        log_mass = None if masses is None else float(sum(masses))
        return Text(start.text + after, output.log_prob, score, output.ending, tokens, after, log_mass)


class _Prompt(NamedTuple):
    tokens: Int32[ndarray, " T"]
    surfaces: list[bytes]  # the tokens as written, unknown ones too
    text: str  # as normalised

    @classmethod
    def of(cls, prompt: str, tokenizer: Tokenizer) -> _Prompt:
        encoded = tokenizer.encode_texts([prompt])
        surfaces = [encoded.surface(i) for i in range(encoded.ids.size - 1)]
        return cls(encoded.ids[:-1], surfaces, tokenizer.restore(b" ".join(surfaces)).decode("utf-8", "replace"))
