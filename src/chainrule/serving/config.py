"""The limits of a server: sizes of requests, texts at a time, time-outs."""

from __future__ import annotations

from dataclasses import dataclass, fields

from chainrule.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """Limits of a server.

    body_bytes: the size of a request. prompts: texts in a request. choices: texts generated for a request, for all
    prompts together. max_tokens: the largest max_tokens of a request. logprobs: alternatives shown at a position.
    stops: stop strings. picture_pixels: pixels of a picture. request_pixels: pixels of all pictures of a request.
    running_tokens: tokens of all texts that grow together, prompts and max_tokens. waiting_tokens: tokens of those and
    of all texts that wait. rows: texts that grow together. requests: requests answered at the same time.
    receipt_seconds: the time for a request to arrive. answer_seconds: the time to answer it. stopping_seconds: the time
    for running answers to end when the server stops.

    Raises SettingError if one is not above 0.
    """

    body_bytes: int = 4 << 20
    prompts: int = 2048
    choices: int = 2048
    max_tokens: int = 4096
    logprobs: int = 20
    stops: int = 64
    picture_pixels: int = 1 << 24
    request_pixels: int = 1 << 25
    running_tokens: int = 1 << 17
    waiting_tokens: int = 1 << 20
    rows: int = 256
    requests: int = 1024
    receipt_seconds: float = 10.0
    answer_seconds: float = 600.0
    stopping_seconds: float = 10.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise SettingError(f"{field.name} is {getattr(self, field.name)}; expected more than 0")
