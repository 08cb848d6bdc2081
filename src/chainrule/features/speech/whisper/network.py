"""Whisper as what hears in a SpeechModel."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import nn

from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel
from chainrule.features.seq2seq.network.network import build_seq2seq
from chainrule.features.speech.listening.listener import hear_file
from chainrule.features.speech.whisper.hearing import WhisperTranscriber
from chainrule.features.speech.whisper.rules import TokenForms

if TYPE_CHECKING:
    from chainrule.features.speech.options import TranscribeOptions
    from chainrule.features.speech.whisper.config import WhisperConfig
    from chainrule.text.tokenization.tokenizer import Tokenizer


class WhisperNetwork(nn.Module):
    """Implements `Listener`. tokenizer: of the texts; set when the model is opened."""

    tokenizer: Tokenizer
    mels = None
    searches = True

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.config, self.body = config, build_seq2seq(config, 0, config.tokens)

    @cached_property
    def forms(self) -> TokenForms:
        """The bytes of tokens."""
        return TokenForms.of(self.tokenizer, self.config)

    @property
    def model(self) -> NeuralSeq2SeqModel:
        """The network as a model of texts given frames."""
        return NeuralSeq2SeqModel(self.body)

    @property
    def rate(self) -> int:
        """Implement `Listener.rate`."""
        return self.config.rate

    @property
    def step_seconds(self) -> float:
        """Implement `Listener.step_seconds`."""
        return self.config.step_seconds

    def writes(self) -> tuple[str, int]:
        """Implement `Listener.writes`."""
        config = self.config
        hears = f"{len(config.languages)} languages" if config.languages else "English"
        return f"{self.tokenizer.name}; it hears {hears}, and writes times", config.tokens

    def transcriber(self, options: TranscribeOptions) -> WhisperTranscriber:
        """Implement `Listener.transcriber`."""
        return WhisperTranscriber(self.model, self.config, self.tokenizer, self.forms, options)

    def hear(self, transcript: Any, hearing: Any) -> None:
        """Implement `Listener.hear`."""
        hear_file(transcript, hearing, self.rate)
