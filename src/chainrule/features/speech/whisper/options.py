"""The options of Whisper's transcription: keywords in Python, flags on the command line. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from chainrule.base.options import Options, option

BEAM = 5  # hypotheses, unless another number is given
# Options of networks of CTC that Whisper does not have.
CTC_ONLY = frozenset(
    ("beam_prune_logp", "token_min_logp", "hotwords", "hotword_weight", "lower_case", "window", "overlap")
)


@dataclass(frozen=True, kw_only=True)
class WhisperOptions(Options):
    """How Whisper transcribes; names and defaults are those of OpenAI's program where it has them."""

    language: str | None = option(
        None, "for Whisper: the language that is spoken, as a code or a name; by default the likeliest"
    )
    task: Literal["transcribe", "translate"] = option(
        "transcribe", "for Whisper: write what is said, or translate it into English"
    )
    timestamps: bool = option(
        True, "for Whisper: write times, which long recordings are divided by; without them, every 30 s"
    )
    word_timestamps: bool = option(
        False, "for Whisper: find when each word is said, by the decoder's attention", is_switch=True
    )
    initial_prompt: str | None = option(
        None, "for Whisper: a text before the recording, such as names and how they are spelled", hyphens=True
    )
    condition_on_previous_text: bool = option(
        True, "for Whisper: read the text so far before each window of a long recording"
    )
    temperatures: tuple[float, ...] = option(
        (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        "for Whisper: temperatures that are tried in turn while a text looks wrong; 0: beam search",
        least=0,
        most=10,
    )
    compression_ratio_threshold: float | None = option(
        2.4, "for Whisper: a text that zlib makes this many times smaller looks wrong", least=0
    )
    logprob_threshold: float | None = option(
        -1.0, "for Whisper: a text with a lower mean log-probability looks wrong", hyphens=True
    )
    no_speech_threshold: float | None = option(
        0.6, "for Whisper: an unlikely text is silence where that has a higher probability", least=0, most=1
    )
    seed: int = option(0, "for Whisper: the seed of texts that are drawn at temperatures above 0", least=0)


WHISPER_ONLY = frozenset(field.name for field in fields(WhisperOptions))
