"""What completions and answers to conversations share: how they begin, how their texts grow, and what they cost."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from chainrule.serving.choice import Choice, Chunk
    from chainrule.serving.served_model import ServedModel
    from chainrule.serving.ticket import Ticket

    Json = dict[str, Any]


def answer_head(served: ServedModel, id_prefix: str, kind: str) -> Json:
    """The fields that an answer and all its chunks begin with."""
    return {
        "id": f"{id_prefix}-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": served.name,
        "system_fingerprint": served.fingerprint,
    }


def token_usage(prompt_tokens: int, completion_tokens: int) -> Json:
    """The numbers of tokens that a request has used."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


async def chunks_of(ticket: Ticket, choices: Mapping[int, Choice]) -> AsyncIterator[tuple[int, Chunk]]:
    """What is new of texts, each with its index, until all have ended. Raises what the work raised."""
    open_choices = dict(choices)
    while open_choices:
        await ticket.wait()
        for index, choice in list(open_choices.items()):
            chunk = choice.take()
            if chunk.text or chunk.tokens or chunk.finish_reason:
                yield index, chunk
            if chunk.finish_reason is not None:
                del open_choices[index]
