"""The channels of errors that need no training; imports nothing, so that help is quick."""

from typing import Literal

ReadyChannel = Literal["english", "keyboard", "ocr"]
CHANNELS: tuple[ReadyChannel, ...] = ("english", "keyboard", "ocr")
ENGLISH = CHANNELS[0]
