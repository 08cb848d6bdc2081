"""The settings of decoding: sampling, beam search, and limits on texts.

Imports nothing heavy: the flags of the verbs that generate are made from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from chainrule.base.options import Options, option
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_SIZE = 4096  # open hypotheses
MOST_TEXTS = 1_000_000  # of a prompt, all of which are held; other seeds give others
MAX_ALPHA = 10
MAX_FORM_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class BeamConfig(Options):
    """How the most probable texts are searched.

    size: the number of open hypotheses. best: the number of texts to return.
    rank_by: the score of a hypothesis: its log-probability (total), divided by its number of predicted tokens (mean),
    or by ((5 + tokens) / 6)^alpha (wu: Wu et al. 2016, equation 14).
    coverage: the weight of the same paper's penalty for source positions that get little attention.
    groups: the beam is divided into this many groups; each pays `diversity` nats for a token that an earlier group
    chose in the same step (Vijayakumar et al. 2018).
    must_end: return only texts that end with </s>.
    stop: end the search when no better text is possible (sure), when no open hypothesis would be better if it ended now
    (likely), which is much sooner unless rank_by is total, or once `size` texts have ended (full), as of Whisper.

    Raises SettingError if a setting is out of range.
    """

    size: int = option(
        5, "search for the likeliest texts, with this many hypotheses at a time", flag="beam", shown=False
    )
    best: int = option(1, "how many texts to return", least=1, flag=None)
    rank_by: Literal["total", "mean", "wu"] = option(
        "total", "rank texts by log-probability, its mean over the tokens, or the rule of Wu et al. 2016"
    )
    alpha: float = option(0.6, "the exponent in the rule of Wu et al", least=0, most=MAX_ALPHA, needs="rank_by wu")
    coverage: float = option(0.0, "of a penalty for source positions that get little attention", least=0, flag=None)
    groups: int = option(1, "divide the beam into groups that avoid each other's tokens", least=1)
    diversity: float = option(0.5, "the penalty, in nats, for a token that another group took", least=0, needs="groups")
    must_end: bool = option(False, "only return texts that end with </s>")
    stop: Literal["sure", "likely", "full"] = option("sure", "when the search ends", flag=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 1:
            raise SettingError(f"beam is {self.size}; expected 1 or more")
        if self.size > MAX_SIZE:
            raise SettingError(f"beam is {self.size}; expected at most {MAX_SIZE}: wider ones gain nothing")
        if self.best > self.size:
            raise SettingError(f"a beam of {self.size} cannot return the {self.best} best texts; widen it")
        if self.size % self.groups:
            raise SettingError(f"a beam of {self.size} cannot be divided into {self.groups} groups of equal size")

    def divisor(self, length: int) -> float:
        """Return the divisor of the log-probability of `length` predicted tokens, </s> included. Grows with the
        length.
        """
        if self.rank_by == "total" or length == 0:
            return 1.0
        return float(length) if self.rank_by == "mean" else ((5 + length) / 6) ** self.alpha


@dataclass(frozen=True, kw_only=True)
class SamplingConfig(Options):
    """How tokens are drawn.

    temperature: log-probabilities are divided by it; 0 takes the most probable token.
    top_k: only the k most probable tokens. top_p: only the fewest most probable tokens with this mass.
    min_p: only tokens with this share of the best token's probability.
    typical: only the tokens whose surprisal is nearest to the entropy, until they have this mass.
    repetition_penalty: multiplies the log-probabilities of tokens that the text or its prefix already has.
    presence_penalty, frequency_penalty: subtracted from the log-probabilities of tokens that the text has after its
    prefix, the second one as often as it has them; below 0, they make repetition likelier.
    logit_bias: pairs of a token id and what is added to its log-probability; -inf bans it.

    Raises SettingError if a setting is out of range.
    """

    temperature: float = option(
        1.0, "below 1 sharper, above 1 flatter; 0 picks the likeliest token", least=0, served=(0, 1e6)
    )
    top_k: int | None = option(None, "sample from this many likeliest tokens", least=1, served=(-1, 2**31 - 1))
    top_p: float | None = option(
        None,
        "sample from the smallest set of likeliest tokens with this total probability; 0: the likeliest",
        least=0,
        most=1,
        served=(0, 1),
    )
    min_p: float | None = option(
        None,
        "sample from tokens with at least this share of the likeliest one's probability",
        least=0,
        most=1,
        served=(0, 1),
    )
    typical: float | None = option(
        None, "sample from the most typical tokens with this total probability", above=0, most=1
    )
    repetition_penalty: float = option(
        1.0, "multiply the log-probability of tokens that occurred before", least=1, served=(1, 100)
    )
    presence_penalty: float = option(0.0, "subtracted for a token that occurred", flag=None, served=(-100, 100))
    frequency_penalty: float = option(0.0, "subtracted for each occurrence", flag=None, served=(-100, 100))
    logit_bias: Sequence[tuple[int, float]] = option((), "what is added for a token id", flag=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        for token, bias in self.logit_bias:
            if not bias < math.inf:
                raise SettingError(
                    f"logit_bias of token {token} is {bias}; expected a finite number, or -inf to ban it"
                )
        cuts = [name for name in ("top_k", "top_p", "min_p", "typical") if getattr(self, name) is not None]
        if self.temperature == 0 and cuts:
            raise SettingError(f"temperature 0 takes the most probable token, so {cuts[0]} does nothing; leave one out")

    @property
    def counts_tokens(self) -> bool:
        """Whether weights depend on how often a text has each token."""
        return self.presence_penalty != 0 or self.frequency_penalty != 0

    @property
    def raises_weights(self) -> bool:
        """Whether it makes some token likelier than the model says, before the temperature."""
        return min(self.presence_penalty, self.frequency_penalty) < 0 or any(bias > 0 for _, bias in self.logit_bias)


GREEDY = SamplingConfig(temperature=0)  # draws nothing, so that all seeds give the same text
AS_THE_MODEL = SamplingConfig(  # draws from the model's own distribution, whatever the defaults are
    temperature=1.0,
    top_k=None,
    top_p=None,
    min_p=None,
    typical=None,
    repetition_penalty=1.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
    logit_bias=(),
)


def read_schema(path: Path) -> Any:
    """Return the JSON schema of a file. Raises SettingError."""
    from chainrule.base.files import parse_json

    data = _read(path)
    try:
        schema = parse_json(data)
    except RecursionError:
        raise SettingError(f"{path} is nested too deeply; expected a JSON schema") from None
    except ValueError as error:
        raise SettingError(f"{path} is not JSON: {error}; expected a JSON schema") from None
    if not isinstance(schema, dict):
        raise SettingError(f"{path} is {str(schema)[:80]}; expected a JSON schema that is an object, such as {{}}")
    return schema


def read_grammar(path: Path) -> str:
    """Return the grammar of a file. Raises SettingError."""
    try:
        return _read(path)
    except UnicodeDecodeError as error:
        raise SettingError(f"{path} is not UTF-8: {error}; expected a grammar of Lark or GBNF") from None


def _read(path: Path) -> str:
    from chainrule.base.files import read_text

    try:
        return read_text(path, MAX_FORM_BYTES)
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}; name a file") from None


FORMS = ("json_schema", "regex", "grammar", "choices")


@dataclass(frozen=True, kw_only=True)
class Limits(Options):
    """Limits on a generated text.

    max_tokens: the text is cut after this many. min_tokens: it does not end earlier.
    begin: what the text begins with after the prompt. stop: strings that end it and are not part of it.
    allowed: the only words that may occur. banned: words that may not occur.
    no_repeat: no n-gram of this many tokens may occur twice.
    json_schema, regex, grammar, choices: the form of the text after the prompt: JSON by a schema, all that a regular
    expression matches, a grammar of Lark or GBNF, one of some texts; at most one of the four.
    unknown: <unk> is banned, or replaced by the spelling of a word that the vocabulary lacks; it is never printed.

    Raises SettingError if they contradict each other.
    """

    max_tokens: int = option(100, "cut a text after this many tokens", least=0, served=(0, 2**31 - 1))
    min_tokens: int = option(0, "no text ends before this many tokens", least=0, served=(0, 2**31 - 1))
    begin: str = option(
        "", "what every text begins with after the prompt; included in scores", hyphens=True, shown=False
    )
    stop: Sequence[str] = option((), "end a text before any of these strings", reads=tuple[str, ...])
    allowed: Sequence[str] | None = option(None, "generate only these words", reads=tuple[str, ...], flag="allow")
    banned: Sequence[str] = option((), "never generate these words", reads=tuple[str, ...], flag="ban")
    no_repeat: int = option(0, "never repeat an n-gram of this many tokens; 0: allow it", least=0)
    json_schema: Mapping[str, Any] | None = option(
        None, "generate JSON by the schema in this file", reads=Path, parse=read_schema
    )
    regex: str | None = option(None, "generate what this regular expression matches, as a whole", hyphens=True)
    grammar: str | None = option(
        None, "generate texts of the grammar in this file, of Lark or GBNF", reads=Path, parse=read_grammar
    )
    choices: Sequence[str] | None = option(None, "generate one of these texts", reads=tuple[str, ...])
    unknown: Literal["banned", "spelled"] = option(
        "banned", "never generate unknown words, or spell them out with the model's speller"
    )

    def __post_init__(self) -> None:
        for name in ("stop", "allowed", "banned", "choices"):
            if isinstance(getattr(self, name), str):
                raise SettingError(f"{name} takes several texts; put a single one in a list")
        super().__post_init__()
        if "" in self.stop:
            raise SettingError("a stop string is empty; it would end every text at once")
        both = set(self.allowed or ()) & set(self.banned)
        if both:
            raise SettingError(f"{min(both)!r} is allowed and banned; choose one")
        if first_stop(self.begin, self.stop) >= 0:
            raise SettingError(f"texts must begin with {self.begin!r}, which contains a stop string; change one")
        check_lengths(self.min_tokens, self.max_tokens)
        forms = [name for name in FORMS if getattr(self, name) is not None]
        if len(forms) > 1:
            raise SettingError(f"{forms[0]} and {forms[1]} both say which form a text has; choose one")
        if forms and self.unknown == "spelled":
            raise SettingError(f"{forms[0]} cannot be enforced in words that are spelled out; leave <unk> banned")
        if self.choices is not None and (not self.choices or "" in self.choices):
            raise SettingError("there is no choice, or one is empty; give some texts")
        if self.json_schema is not None and not isinstance(self.json_schema, dict):
            raise SettingError(f"json_schema is {str(self.json_schema)[:80]}; expected an object, such as {{}}")

    @property
    def is_only_form(self) -> bool:
        """Whether nothing but a form changes which tokens may follow."""
        given = set(self.given) - {*FORMS, "max_tokens"}
        return self.has_form and not given

    @property
    def has_form(self) -> bool:
        return any(getattr(self, name) is not None for name in FORMS)


def first_stop(text: str, stops: Sequence[str]) -> int:
    """Return the index of the first stop string in the text, or -1."""
    return min((index for stop in stops if (index := text.find(stop)) >= 0), default=-1)


def check_lengths(min_tokens: int, max_tokens: int) -> None:
    """Raise SettingError if a text must be longer than it may be."""
    if min_tokens > max_tokens:
        raise SettingError(f"min_tokens is {min_tokens}, more than max_tokens, {max_tokens}; lower it")
