"""Settings of Whisper: its network, how sound becomes frames, and the tokens that are no text."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar

from chainrule.base.options import option
from chainrule.errors import SettingError
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.kinds import Lazy

_MOST_LISTED = 8  # languages, in a message
_MOST_TOKENS = 1 << 31
NAMES = {
    "af": "afrikaans", "am": "amharic", "ar": "arabic", "as": "assamese", "az": "azerbaijani", "ba": "bashkir",
    "be": "belarusian", "bg": "bulgarian", "bn": "bengali", "bo": "tibetan", "br": "breton", "bs": "bosnian",
    "ca": "catalan", "cs": "czech", "cy": "welsh", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fo": "faroese",
    "fr": "french", "gl": "galician", "gu": "gujarati", "ha": "hausa", "haw": "hawaiian", "he": "hebrew",
    "hi": "hindi", "hr": "croatian", "ht": "haitian creole", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "is": "icelandic", "it": "italian", "ja": "japanese", "jw": "javanese", "ka": "georgian",
    "kk": "kazakh", "km": "khmer", "kn": "kannada", "ko": "korean", "la": "latin", "lb": "luxembourgish",
    "ln": "lingala", "lo": "lao", "lt": "lithuanian", "lv": "latvian", "mg": "malagasy", "mi": "maori",
    "mk": "macedonian", "ml": "malayalam", "mn": "mongolian", "mr": "marathi", "ms": "malay", "mt": "maltese",
    "my": "myanmar", "ne": "nepali", "nl": "dutch", "nn": "nynorsk", "no": "norwegian", "oc": "occitan",
    "pa": "punjabi", "pl": "polish", "ps": "pashto", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sa": "sanskrit", "sd": "sindhi", "si": "sinhala", "sk": "slovak", "sl": "slovenian", "sn": "shona",
    "so": "somali", "sq": "albanian", "sr": "serbian", "su": "sundanese", "sv": "swedish", "sw": "swahili",
    "ta": "tamil", "te": "telugu", "tg": "tajik", "th": "thai", "tk": "turkmen", "tl": "tagalog", "tr": "turkish",
    "tt": "tatar", "uk": "ukrainian", "ur": "urdu", "uz": "uzbek", "vi": "vietnamese", "yi": "yiddish",
    "yo": "yoruba", "yue": "cantonese", "zh": "chinese",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class WhisperConfig(Seq2SeqConfig):
    """A Whisper: an encoder of log-mel frames, and a decoder that writes text and times. Raises SettingError."""

    network: ClassVar[Lazy] = Lazy("chainrule.features.speech.whisper.network:WhisperNetwork")

    rate: int = option(16_000, "samples a second that sounds are converted to", least=1000, most=1_000_000)
    frame: int = option(400, "samples of a frame", least=4, most=1 << 16)
    hop: int = option(160, "samples from one frame to the next", least=1, most=1 << 16)
    tokens: int = option(4, "how many tokens there are, with those of times", least=4, below=_MOST_TOKENS)
    text: int = option(3, "the first token that is no text", least=3, below=_MOST_TOKENS)
    no_timestamps: int = option(3, "the token before those of times", least=3, below=_MOST_TOKENS)
    previous: int | None = option(None, "the token before the text of an earlier window", least=0, below=_MOST_TOKENS)
    no_speech: int | None = option(None, "the token of silence", least=0, below=_MOST_TOKENS)
    languages: tuple[str, ...] = option((), "codes of languages; none of an English model")
    language_tokens: tuple[int, ...] = option((), "their tokens", least=0, below=_MOST_TOKENS)
    tasks: tuple[str, ...] = option((), "what it can be asked for; none of an English model")
    task_tokens: tuple[int, ...] = option((), "their tokens", least=0, below=_MOST_TOKENS)
    suppressed: tuple[int, ...] = option((), "tokens that are never written", least=0, below=_MOST_TOKENS)
    suppressed_first: tuple[int, ...] = option((), "tokens that are not written first", least=0, below=_MOST_TOKENS)
    latest_first: int | None = option(None, "the latest first time, in steps of 20 ms", least=0, below=_MOST_TOKENS)
    alignment_heads: tuple[int, ...] = option(
        (), "heads of the decoder that attend to what is said, counted through all layers", least=0, below=_MOST_TOKENS
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source_width is None or not self.convolved_source or not self.learned_positions:
            raise SettingError("the settings are those of no Whisper; expected source_width and learned_positions")
        if len(self.languages) != len(self.language_tokens) or len(self.tasks) != len(self.task_tokens):
            raise SettingError("languages and tasks need a token each; the settings were changed")
        if max(self.alignment_heads, default=-1) >= self.decoder_layers * self.heads:
            raise SettingError(f"alignment_heads names a head that {self.decoder_layers} layers do not have")
        if self.frame % 2:
            raise SettingError(f"a frame has {self.frame} samples; expected an even number")
        if (largest := self.largest_token()) >= self.tokens:
            raise SettingError(f"the settings name token {largest:,}, but there are {self.tokens:,}")

    @property
    def layers(self) -> int:
        """The layers of both sides."""
        return self.encoder_layers + self.decoder_layers

    @property
    def mels(self) -> int:
        """The mel bands of a frame."""
        assert self.source_width is not None
        return self.source_width

    @property
    def window_frames(self) -> int:
        """The frames that are read at once."""
        return self.source_rows

    @property
    def step_seconds(self) -> float:
        """From one time token to the next, and from one vector of the encoder to the next."""
        return 2 * self.hop / self.rate

    @property
    def first_time(self) -> int:
        """The token of 0 seconds."""
        return self.no_timestamps + 1

    def largest_token(self) -> int:
        """Return the largest token that the settings name."""
        several = (*self.language_tokens, *self.task_tokens, *self.suppressed, *self.suppressed_first)
        return max(self.text - 1, self.first_time, self.previous or 0, self.no_speech or 0, *several)

    def language(self, name: str) -> str | None:
        """Return the code of a language, from it or from its English name; None where a model hears English only, and
        is asked for it. Raises SettingError.
        """
        code = next((code for code, full in NAMES.items() if full == name.lower()), name.lower())
        if code in self.languages:
            return code
        if not self.languages and code == "en":
            return None
        if not self.languages:
            raise SettingError(f"language is {name!r}, but this model hears English only; leave it out")
        known = {NAMES[code]: code for code in self.languages if code in NAMES} | {
            code: code for code in self.languages
        }
        near = list(dict.fromkeys(known[like] for like in get_close_matches(code, known, _MOST_LISTED)))
        listed = ", ".join(f"{code} ({NAMES[code]})" if code in NAMES else code for code in near)
        some = ", ".join(self.languages[:_MOST_LISTED])
        raise SettingError(
            f"language is {name!r}, which is none of the {len(self.languages)} that the model has; "
            + (f"the nearest: {listed}" if near else f"expected a code such as {some}")
        )

    def task(self, name: str) -> tuple[int, ...]:
        """Return the tokens that ask for a task; none of an English model. Raises SettingError."""
        if name in self.tasks:
            return (self.task_tokens[self.tasks.index(name)],)
        if name == "transcribe":
            return ()
        why = "has no token for it" if self.languages else "hears English only"
        raise SettingError(f"task is {name!r}, but this model {why}; leave it out")
