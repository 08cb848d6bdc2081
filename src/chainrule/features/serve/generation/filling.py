"""Texts between a prompt and a suffix: by the tokens that a causal model has learned for gaps, or by a masked model.

A causal model reads the prompt, the suffix and then writes what is between (Bavarian et al. 2022), if its tokenizer has
the three tokens that say so. A masked model fills a gap of so many tokens as the request says, from left to right.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.decoding.next_token import draw_from
from chainrule.errors import SettingError
from chainrule.features.serve.bodies import ApiError
from chainrule.features.serve.generation.prompts import Prompt, encode_prompts, marker_error
from chainrule.features.serve.generation.texts import check_room, sampling_config
from chainrule.protocol import BEGIN, UNKNOWN
from chainrule.text.tokenization.tokenizer import masked_tokens
from chainrule.text.tokenization.vocabulary import MarkerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.decoding.config import SamplingConfig
    from chainrule.features.serve.bodies import CompletionBody
    from chainrule.features.serve.models import ServedModel
    from chainrule.models.files.origin import OpenPromptEncoder
    from chainrule.models.language_models import MaskedModel

# The tokens before the prompt, the suffix and the gap, as families of models spell them.
_GAPS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # Qwen 2.5 Coder, CodeGemma
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # StarCoder, Granite
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),  # SantaCoder
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # DeepSeek Coder
)
_MASK = "[MASK]"
_TOKENS = 1  # of a gap, where the request does not say


def gap_prompts(served: ServedModel, prompts: Sequence[Prompt], suffix: str) -> list[Prompt]:
    """Return what a causal model reads to fill the gap between each prompt and a suffix. Raises ApiError."""
    begin, before, after, gap = _gap_tokens(served)
    [rest] = encode_prompts(suffix, served.tokenizer, 1, param="suffix")
    return [
        Prompt(
            np.concatenate([begin, before, prompt.read, after, rest.read, gap]),
            is_marked=False,
            text=prompt.text,
            offsets=prompt.offsets,
            surfaces=[],
        )
        for prompt in prompts
    ]


def with_suffix(served: ServedModel, body: CompletionBody) -> CompletionBody:
    """Return the request with prompt and suffix apart, where an editor has put both, with the tokens of the gap, into
    one.
    """
    text = body.prompt
    if body.suffix or not isinstance(text, str) or not text.startswith("<") or (encoder := _encoder(served)) is None:
        return body
    for before, after, gap in _GAPS:
        if {before, after, gap} <= set(encoder.added) and text.startswith(before) and text.endswith(gap):
            prompt, found, suffix = text.removeprefix(before).removesuffix(gap).partition(after)
            if found:
                return body.model_copy(update={"prompt": prompt, "suffix": suffix})
    return body


def _encoder(served: ServedModel) -> OpenPromptEncoder | None:
    """Return the encoder of the special tokens of a model that others trained; None for other models."""
    if not served.reads_prompts or (origin := served.causal.parts.record.get("hugging_face")) is None:
        return None
    from chainrule.models.files.origin import OpenPromptEncoder

    splitter: Any = served.tokenizer.splitter
    return OpenPromptEncoder(origin, splitter)


def _gap_tokens(served: ServedModel) -> list[Int32[ndarray, " tokens"]]:
    """Return what a model has learned to read before all, the prompt, the suffix and the gap. Raises ApiError."""
    if (encoder := _encoder(served)) is not None:
        from chainrule.models.files.origin import variables_of

        origin: dict[str, Any] = served.causal.parts.record["hugging_face"]
        splitter: Any = served.tokenizer.splitter
        begins = (origin.get("tokenizer_config") or {}).get("add_bos_token") is True
        begin = variables_of(origin, splitter).get("bos_token", "") if begins else ""
        for names in _GAPS:
            if set(names) <= set(encoder.added):
                return [encoder.encode(name) for name in (begin, *names)]
    raise ApiError(
        400,
        "suffix: this model does not fill in the middle, since its tokenizer has no tokens for a gap; leave suffix out",
        param="suffix",
        code="unsupported_parameter",
    )


_OF_GAPS = ("model", "prompt", "suffix", "n", "seed", "max_tokens", "stream", "stream_options")
_DRAWN = ("temperature", "top_k", "top_p", "min_p", "typical_p")


class MaskedGap:
    """A gap that a masked model fills in each prompt of a request."""

    def __init__(self, served: ServedModel, model: MaskedModel, body: CompletionBody) -> None:
        """Check the request, and store its prompts. Raises ApiError."""
        given = {name for name, value in body.model_dump(exclude_none=True).items() if value not in (False, [], {})}
        if others := sorted(given - {*_OF_GAPS, *_DRAWN} - set(body.ignored)):
            message = f"{others[0]}: not supported where a masked model fills a gap; leave it out"
            raise ApiError(400, message, param=others[0], code="unsupported_parameter")
        self._model, self._suffix = model, body.suffix or ""
        self._prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
        if not isinstance(self._prompts, list) or not all(isinstance(prompt, str) for prompt in self._prompts):
            raise ApiError(400, "prompt: expected a text, or a list of texts, where a gap is filled", param="prompt")
        texts = len(self._prompts) * (body.n or 1)
        if texts > served.limits.choices or len(self._prompts) > served.limits.prompts:
            raise ApiError(400, f"the request asks for {texts:,} texts; expected fewer", param="n")
        for name, texts_of in (("prompt", self._prompts), ("suffix", [self._suffix])):
            if any(_MASK in text for text in texts_of):
                raise ApiError(400, f"{name} has {_MASK}, which stands for a gap; write it otherwise", param=name)
        self.tokens = _TOKENS if body.max_tokens is None else body.max_tokens
        if self.tokens < 1:
            raise ApiError(400, "max_tokens is 0; expected the tokens of the gap, 1 or more", param="max_tokens")
        self._sampling: SamplingConfig = sampling_config(body, served.tokenizer.vocabulary_size)
        self._seed = secrets.randbits(63) if body.seed is None else body.seed % 2**64
        self._n = body.n or 1
        self._sequences = [self._sequence(served, prompt) for prompt in self._prompts]
        self.prompt_tokens = sum(len(sequence) - self.tokens for sequence in self._sequences)

    def _sequence(self, served: ServedModel, prompt: str) -> Int32[ndarray, " T"]:
        """Return a prompt, masks and the suffix. Raises ApiError."""
        tokenizer = self._model.tokenizer
        space = "" if tokenizer.name in ("character", "byte") else " "
        gap = space + space.join([_MASK] * self.tokens) + space
        try:
            tokens = masked_tokens(tokenizer, f"{prompt}{gap}{self._suffix}")
        except MarkerError as error:
            raise marker_error(error.marker, "prompt") from None
        except SettingError as error:
            raise ApiError(400, str(error), param="prompt") from None
        check_room(served, len(tokens) - self.tokens, self.tokens, "prompt")
        return tokens

    @property
    def prompts(self) -> list[str]:
        return self._prompts

    def texts(self, first: int, last: int) -> list[str]:
        """Return what fills the gaps of some prompts, `n` texts of each. Raises SettingError."""
        return [self._filled(place, number) for place in range(first, last) for number in range(self._n)]

    def _filled(self, place: int, number: int) -> str:
        tokens = self._sequences[place].copy()
        generator = np.random.default_rng([self._seed, number])
        gaps = np.flatnonzero(tokens == BEGIN)
        for gap in gaps.tolist():
            log_probs = self._model.engine.fill(tokens)[:1].astype(np.float64)
            log_probs[:, UNKNOWN] = -np.inf
            tokens[gap] = draw_from(log_probs, self._sampling, generator)
        return self._between(self._prompts[place], self._model.tokenizer.decode(tokens[gaps]))

    def _between(self, prompt: str, text: str) -> str:
        """Return the text of a gap, with the spaces that separate it from its neighbours."""
        if self._model.tokenizer.name in ("character", "byte"):
            return text
        before = " " if prompt and not prompt[-1].isspace() else ""
        after = " " if self._suffix and not self._suffix[0].isspace() else ""
        return before + text.strip() + after
