"""Choosing among given answers: the log-probability of each after each prompt.

Prompt and choice are tokenized as one text, so that a choice whose tokens change when it is joined to the prompt is
scored as it stands in the joined text. Unknown words count with their spelling. A masked model fills the choice into
the [MASK] of the prompt, and gives the pseudo-log-likelihood of its tokens there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.decoding.shared_prefixes import SharedPrefixes
from chainrule.errors import SettingError
from chainrule.evaluation.continuations import Pair, split_pairs
from chainrule.evaluation.pseudo_likelihood import pseudo_log_likelihoods
from chainrule.evaluation.token_scores import score_documents
from chainrule.text.tokenization.tokenizer import MASK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.evaluation.pseudo_likelihood import PseudoScorer
    from chainrule.evaluation.token_scores import Speller
    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.tokenizer import Tokenizer

_SCORED_TOGETHER = 256  # prompts


class Choice(NamedTuple):
    """An answer as the model would write it, and the label that it stands for."""

    text: str
    label: str


class ChoiceScores(NamedTuple):
    """The log-probabilities of choices after prompts.

    log_probs: in nats. tokens: how many tokens each choice has after each prompt.
    """

    log_probs: Float64[ndarray, "prompts choices"]
    tokens: Float64[ndarray, "prompts choices"]


def check_choices(choices: Sequence[Choice]) -> None:
    """Raise SettingError if there are fewer than two, or an empty or repeated one."""
    if len(choices) < 2:
        raise SettingError(f"there is {'only one choice' if choices else 'no choice'}; expected at least two")
    empty = next((choice for choice in choices if not choice.text.strip() or not choice.label.strip()), None)
    if empty is not None:
        what = f"{empty.text!r}" if empty.text == empty.label else f"{empty.text!r} for {empty.label!r}"
        raise SettingError(f"the choice {what} is empty; expected some text")
    texts = [choice.text.strip() for choice in choices]
    repeated = next((text for i, text in enumerate(texts) if text in texts[:i]), None)
    if repeated is not None:
        raise SettingError(f"the choice {repeated!r} is given twice; give it once")


def join(prompt: str, choice: str, separator: str = " ") -> str:
    """Return the choice after the separator from the prompt, which is left out if either has white space there."""
    has_space = not prompt or prompt[-1].isspace() or choice[:1].isspace()
    return choice if has_space else separator + choice


def choice_log_probs(
    model: LanguageModel[Any],
    speller: Speller,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    choices: Sequence[str],
    progress: Progress = silent,
    *,
    separator: str = " ",
    reads_prompts: bool = False,
    context: int | None = None,
) -> ChoiceScores:
    """Return log P(choice | prompt), each prompt read once for all choices. Raises MarkerError.

    reads_prompts: whether the model is a `PromptReader`, so that the common prefix of all prompts is read once.
    context: the most tokens that it reads at once.
    """
    shared = SharedPrefixes(model, reads_prompts=reads_prompts, context=context)
    shape = (len(prompts), len(choices))
    log_probs, tokens = np.zeros(shape), np.zeros(shape)
    for first in range(0, len(prompts), _SCORED_TOGETHER):
        progress("scoring choices", first, len(prompts))
        some = prompts[first : first + _SCORED_TOGETHER]
        pairs = [Pair(prompt, join(prompt, choice, separator)) for prompt in some for choice in choices]
        encoded, given = split_pairs(pairs, tokenizer)
        own, sizes = score_documents(shared, speller, encoded, given=given, end=False)
        log_probs[first : first + len(some)] = own.reshape(-1, shape[1])
        tokens[first : first + len(some)] = (sizes - given).reshape(-1, shape[1])
    return ChoiceScores(log_probs, tokens)


def filled_log_probs(
    model: PseudoScorer,
    speller: Speller,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    choices: Sequence[str],
    progress: Progress = silent,
) -> ChoiceScores:
    """Return the pseudo-log-likelihood of each choice in place of the one [MASK] of each prompt, the rest of it seen.

    Raises SettingError if a prompt has no mask or several; MarkerError.
    """
    shape = (len(prompts), len(choices))
    log_probs, tokens = np.zeros(shape), np.zeros(shape)
    for i, prompt in enumerate(prompts):
        if prompt.count(MASK) != 1:
            raise SettingError(
                f"the prompt {prompt!r} has {prompt.count(MASK)} {MASK}; a masked model needs one, where "
                f"the answer goes, as in '{{text}} It was {MASK}.'"
            )
        progress("scoring choices", i, len(prompts))
        before, after = prompt.split(MASK)
        filled = [before + choice + after for choice in choices]
        _, given = split_pairs([Pair(before, choice + after) for choice in choices], tokenizer)
        _, until = split_pairs([Pair(before + choice, after) for choice in choices], tokenizer)
        log_probs[i], tokens[i] = pseudo_log_likelihoods(model, speller, tokenizer, filled, given=given, until=until)
    return ChoiceScores(log_probs, tokens)


def log_shares(scores: Float64[ndarray, "prompts choices"]) -> Float64[ndarray, "prompts choices"]:
    """Return scores as log-probabilities of a distribution in each row; uniform where all choices have probability
    zero.
    """
    best = scores.max(1, keepdims=True)
    shifted = scores - np.where(np.isfinite(best), best, 0.0)
    shifted[~np.isfinite(best[:, 0])] = 0.0
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))
