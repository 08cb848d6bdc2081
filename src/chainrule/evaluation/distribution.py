"""Whether a model's probabilities are a distribution: for models here, and for servers as far as they tell.

Models and mixtures that score only the token that came (by hashed counts, for example) can look better than any
distribution allows. These checks find that out at contexts of a text:

    sum        the probabilities of all next tokens sum to one, and none is above one
    steps      scoring a text gives what reading it step by step gives
    later      a token's score does not depend on what comes after it
    neighbours a text's score does not depend on the texts that are scored with it

A server tells the likeliest next tokens and, with `echo`, the scores of a prompt's tokens. So there, the first check is
one of bounds: the scores of different next tokens, asked for one by one, sum to one at most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from chainrule.base.arguments import check_least
from chainrule.base.progress import Progress, silent
from chainrule.errors import ServerError, SettingError
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

    Tokens = Int32[ndarray, " T"]

_SUM, _CLOSE = 1e-4, 1e-3  # by which sums may differ from one, and scores in nats, by rounding
_THEIR_CLOSE = 0.02  # nats: servers compute in half precision
_LONGEST = 64  # tokens of a context
_TOP = 20
_CANDIDATES = 200  # next tokens that a server scores one by one
_AT_ONCE, _STEPPED, _BEST = 32, 4, 4  # prompts of a request, contexts, and next tokens of each


class Check(NamedTuple):
    """One thing that was looked at. holds: None if it could not be tested. found: in words, with figures."""

    name: str
    holds: bool | None
    found: str


class DistributionChecks(NamedTuple):
    """What was found. contexts: at how many contexts."""

    checks: list[Check]
    contexts: int

    @property
    def is_distribution(self) -> bool | None:
        """Whether something was tested, and nothing speaks against it; None if nothing could be tested."""
        found = [check.holds for check in self.checks if check.holds is not None]
        return all(found) if found else None

    def as_json(self) -> dict[str, Any]:
        """Return the checks for programs."""
        checks = [check._asdict() for check in self.checks]
        return {"is_distribution": self.is_distribution, "contexts": self.contexts, "checks": checks}

    def __str__(self) -> str:
        words = {True: "yes", False: "NO", None: "not tested"}
        return "\n".join(f"{check.name:12}{words[check.holds]:12}{check.found}" for check in self.checks)


def check_distribution(
    model: LanguageModel[Any],
    texts: Sequence[Tokens],
    *,
    contexts: int = 20,
    seed: int = 0,
    progress: Progress = silent,
) -> DistributionChecks:
    """Check a model at random contexts in texts. Raises SettingError if there are no tokens."""
    check_least("contexts", contexts, 1)
    rng = np.random.default_rng(seed)
    places = _places(texts, contexts, rng)
    sums, steps, later, neighbours = [], [], [], []
    others = [text[:_LONGEST] for text in texts[:3]]
    for done, (text, place) in enumerate(places):
        progress("checking the distribution", done, len(places))
        first = max(0, place - _LONGEST)
        context, rest = text[first:place], text[place : place + 8]
        row = model.next_log_probs(model.start([context]))[0].astype(np.float64)
        sums.append(_off_one(row))
        [score] = model.score([text[first : place + len(rest)]], end=False)
        steps.append(_largest(score.astype(np.float64), _stepped(model, text[first : place + len(rest)])))
        drawn = rng.integers(END + 1, model.vocabulary_size, len(rest)) if model.vocabulary_size > END + 1 else rest
        [changed] = model.score([np.concatenate([context, drawn]).astype(np.int32)], end=False)
        later.append(_largest(score[: len(context)], changed[: len(context)]))
        together = model.score([*others, text[first : place + len(rest)]], end=False)[-1]
        neighbours.append(_largest(score, together))
    return DistributionChecks(
        [
            Check("sum", max(sums) <= _SUM, f"all probabilities of a next token sum to one, up to {max(sums):.1g}"),
            Check("steps", max(steps) <= _CLOSE, f"scores and steps differ by {max(steps):.1g} nats"),
            Check("later", max(later) <= _CLOSE, f"other tokens afterwards change a score by {max(later):.1g} nats"),
            Check("neighbours", max(neighbours) <= _CLOSE, f"other texts change a score by {max(neighbours):.1g} nats"),
        ],
        len(places),
    )


def _places(texts: Sequence[Tokens], contexts: int, rng: np.random.Generator) -> list[tuple[Tokens, int]]:
    """Return random places in texts, each with its text."""
    sizes = np.array([len(text) for text in texts], np.int64)
    if not sizes.sum():
        raise SettingError("there is no token to check the distribution after; give a text")
    ends = np.cumsum(sizes)
    found = []
    for drawn in sorted(rng.choice(ends[-1], min(contexts, int(ends[-1])), replace=False).tolist()):
        i = int(np.searchsorted(ends, drawn, side="right"))
        found.append((texts[i], drawn - int(ends[i] - sizes[i])))
    return found


def _off_one(row: np.ndarray) -> float:
    """Return how far a row is from a distribution that never predicts <s>; infinite where a number is none."""
    if np.isnan(row).any() or row.max(initial=-np.inf) > _SUM or row[BEGIN] > -math.inf:
        return math.inf
    return abs(math.fsum(np.exp(row)) - 1)


def _stepped(model: LanguageModel[Any], tokens: Tokens) -> np.ndarray:
    state, found = model.start([tokens[:0]]), []
    for token in tokens.tolist():
        found.append(float(model.next_log_probs(state)[0, token]))
        state = model.advance(state, np.array([token], np.int32))
    return np.array(found)


def _largest(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference; equal infinities do not differ."""
    differ = one != other
    return float(np.abs(one[differ].astype(np.float64) - other[differ]).max()) if differ.any() else 0.0


class ServedScores(Protocol):
    """A server with OpenAI's completions."""

    def completions(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the choices of an answer. Raises ServerError."""


def check_server(
    server: ServedScores, texts: Sequence[str], *, contexts: int = 20, seed: int = 0, progress: Progress = silent
) -> DistributionChecks:
    """Check a server at the beginnings of some texts. Raises ServerError if it cannot be asked at all."""
    check_least("contexts", contexts, 1)
    rng = np.random.default_rng(seed)
    words = [text.split()[:_LONGEST] for text in texts if len(text.split()) > 2]
    if not words:
        raise SettingError("there is no text of three words to check the distribution after; give one")
    chosen = [words[i] for i in rng.integers(0, len(words), contexts)]
    cuts = [int(rng.integers(1, len(one) - 1)) for one in chosen]
    prompts = [" ".join(one[:cut]) for one, cut in zip(chosen, cuts, strict=True)]
    progress("asking the server", 0, 3)
    tops = [_next_tokens(server, prompt) for prompt in prompts]
    checks = [_check_tops(tops)]
    progress("asking the server", 1, 3)
    try:
        checks.append(_check_candidates(server, prompts[0], tops))
        progress("asking the server", 2, 3)
        whole = [" ".join(one) for one in chosen]
        checks += [_check_steps(server, prompts, tops), _check_later(server, prompts, whole)]
    except ServerError as error:
        checks.append(Check("scores", None, f"the server gives no scores of prompts (echo): {error}"))
    return DistributionChecks(checks, contexts)


def _next_tokens(server: ServedScores, prompt: str) -> dict[str, float]:
    """Return the likeliest next tokens with their log-probabilities."""
    body = {"prompt": prompt, "max_tokens": 1, "temperature": 0}
    try:
        choices = server.completions({**body, "logprobs": _TOP})
    except ServerError:
        choices = server.completions({**body, "logprobs": 5})  # OpenAI's own bound
    if not choices:
        raise ServerError("the answer has no choices; is this the address of an API like OpenAI's?")
    choice = choices[0]
    try:
        tops = (choice.get("logprobs") or {}).get("top_logprobs") or [{}]
        return {str(token): float(log_prob) for token, log_prob in (tops[0] or {}).items()}
    except (TypeError, ValueError, AttributeError, KeyError):
        raise ServerError("the answer's logprobs are not as OpenAI's interface has them") from None


def _is_text(token: str) -> bool:
    """Return whether a token can stand in a prompt: not white space, and no marker such as </s>."""
    return bool(token.strip()) and not (token.startswith("<") and token.endswith(">"))


def _check_tops(tops: Sequence[Mapping[str, float]]) -> Check:
    if not all(tops):
        return Check("sum", None, "the server gives no log-probabilities of next tokens")
    sums = [math.fsum(map(math.exp, row.values())) if max(row.values()) < 1 else math.inf for row in tops]
    most = max(sums)
    holds = min(sums) > 0 and most <= 1 + _CLOSE and all(score <= _CLOSE for row in tops for score in row.values())
    said = f"the {len(tops[0])} likeliest next tokens have up to {most:.4f} together at {len(tops)} contexts"
    return Check("sum", holds, f"{said}; whether all tokens sum to one, its answers do not show")


def _scores(server: ServedScores, prompts: Sequence[str]) -> list[list[tuple[str, float]]]:
    """Return the tokens of prompts with their scores; the first has none."""
    body = {"prompt": list(prompts), "max_tokens": 0, "echo": True, "logprobs": 1}
    rows = []
    for choice in server.completions(body):
        try:
            told = choice.get("logprobs") or {}
            pairs = zip(told.get("tokens") or [], told.get("token_logprobs") or [], strict=False)
            rows.append([(str(token), math.nan if score is None else float(score)) for token, score in pairs])
        except (TypeError, ValueError, AttributeError):
            raise ServerError("the answer's logprobs are not as OpenAI's interface has them") from None
    if len(rows) != len(prompts) or not all(rows):
        raise ServerError("the answer has no scores of the prompt's tokens")
    return rows


def _continued(server: ServedScores, prompt: str, tokens: Sequence[str]) -> dict[str, float]:
    """Return the scores of tokens after a prompt, of those that are one token there, with a space before it or
    without.
    """
    [before] = _scores(server, [prompt])
    known = [token for token, _ in before]
    found: dict[str, float] = {}
    for space in ("", " "):
        for first in range(0, len(tokens), _AT_ONCE):
            asked = [token for token in tokens[first : first + _AT_ONCE] if token not in found]
            rows = _scores(server, [prompt + space + token for token in asked]) if asked else []
            for token, row in zip(asked, rows, strict=True):
                if [one for one, _ in row] == [*known, token]:
                    found[token] = row[-1][1]
    return found


def _check_candidates(server: ServedScores, prompt: str, tops: Sequence[Mapping[str, float]]) -> Check:
    """Return the scores of many next tokens at one context."""
    candidates = sorted({token for row in tops for token in row if _is_text(token)})[:_CANDIDATES]
    scores = _continued(server, prompt, candidates)
    total = math.fsum(map(math.exp, scores.values()))
    found = f"the scores of {len(scores)} tokens after one context sum to {total:.4f}, at most one"
    return Check("scores", None if not scores else total <= 1 + _CLOSE, found)


def _check_steps(server: ServedScores, prompts: Sequence[str], tops: Sequence[Mapping[str, float]]) -> Check:
    """Return the scores of the likeliest next tokens, each as the end of a prompt."""
    differences = []
    for prompt, row in zip(prompts[:_STEPPED], tops, strict=False):
        best = sorted(filter(_is_text, row), key=row.__getitem__)[-_BEST:]
        differences += [abs(score - row[token]) for token, score in _continued(server, prompt, best).items()]
    if not differences:
        return Check("steps", None, "no next token is one token at the end of a prompt")
    worst = max(differences)
    return Check("steps", worst <= _THEIR_CLOSE, f"scores and next tokens differ by {worst:.1g} nats")


def _check_later(server: ServedScores, prompts: Sequence[str], whole: Sequence[str]) -> Check:
    """Return the scores of prompts alone, and as the beginnings of whole texts."""
    worst = 0.0
    for alone, more in zip(_scores(server, prompts), _scores(server, whole), strict=True):
        for (token, score), (other, changed) in zip(alone, more, strict=False):
            if token != other:
                break
            if not math.isnan(score):
                worst = max(worst, abs(score - changed))
    return Check("later", worst <= _THEIR_CLOSE, f"text afterwards changes a score by {worst:.1g} nats")
