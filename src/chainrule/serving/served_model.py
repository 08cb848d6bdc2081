"""A model that is served: what requests need of it, and the scheduler that works with it."""

from __future__ import annotations

import hashlib
import os
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.api.models.language_models import CausalModel
from chainrule.api.models.model import Model
from chainrule.base.files import read_file
from chainrule.families.table import FAMILIES
from chainrule.protocol import UNKNOWN
from chainrule.serving.api_error import ApiError
from chainrule.serving.corrections import Corrections
from chainrule.serving.scheduler import Scheduler
from chainrule.serving.ticket import Ticket
from chainrule.serving.token_names import TokenNames
from chainrule.serving.work import Call
from chainrule.storage.config_json import CONFIG, read_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.api.seq2seq.caption_model import CaptionModel
    from chainrule.api.seq2seq.seq2seq_model import TextPairModel
    from chainrule.serving.limits import ServerLimits
    from chainrule.text.tokenization.tokenizer import Tokenizer


# What the models that have a method do.
VERBS = {
    "generate": "continue texts",
    "embed": "give vectors",
    "score": "score texts",
    "write": "write texts from others",
    "caption": "write captions of pictures",
}


class ServedModel:
    """A model with its name. fingerprint: of its files; equal ones give equal texts for equal seeds."""

    def __init__(
        self,
        name: str,
        model: Model | TextPairModel | CaptionModel,
        fingerprint: str,
        limits: ServerLimits,
        *,
        on_broken: Callable[[], None] | None = None,
    ) -> None:
        """on_broken: as in `Scheduler`."""
        self.name, self.fingerprint, self.limits = name, fingerprint, limits
        self.any_model = model
        self.created = int(time.time())
        self.context: int | None = None
        engine: Any = None
        if isinstance(model, Model):
            family = FAMILIES[model.family]
            self.context, engine = family.context(model.engine), model.engine
        # Networks that continue texts are PromptReaders.
        self.reads_prompts = isinstance(model, CausalModel) and FAMILIES[model.family].embeds
        self.scheduler = Scheduler(
            engine, limits, reads_prompts=self.reads_prompts, context=self.context, on_broken=on_broken
        )

    @property
    def family(self) -> str:
        """The model's family; of those that write texts from something else, from what."""
        model = self.any_model
        return model.family if isinstance(model, Model) else "pictures" if hasattr(model, "caption") else "pairs"

    @property
    def causal(self) -> CausalModel:
        """The model, which continues texts. Raises ApiError if it does not."""
        if not isinstance(self.any_model, CausalModel):
            raise wrong_model(self.name, "generate")
        return self.any_model

    def verb(self, name: str) -> Callable[..., Any]:
        """A method of the model, one of `VERBS`. Raises ApiError if it has none."""
        try:
            method: Callable[..., Any] = getattr(self.any_model, name)
        except AttributeError:
            raise wrong_model(self.name, name) from None
        return method

    @property
    def tokenizer(self) -> Tokenizer:
        """Raises ApiError if it has no single one."""
        if not isinstance(self.any_model, Model):
            raise wrong_model(self.name, "generate")
        return self.any_model.tokenizer

    @cached_property
    def names(self) -> TokenNames:
        return TokenNames(self.tokenizer)

    @cached_property
    def corrections(self) -> Corrections:
        """Raises ApiError if the model cannot correct."""
        return Corrections(self.causal)

    @property
    def banned(self) -> list[int]:
        """Tokens that are never generated."""
        return [UNKNOWN]

    async def call(self, function: Callable[[], Any]) -> Any:
        """Calls a function on the model's thread. Raises what it raises."""
        ticket = Ticket(1)
        call = Call(ticket, function)
        self.scheduler.submit([call])
        try:
            await ticket.wait_until_done()
        finally:
            self.abandon(ticket)
        return call.result

    def abandon(self, ticket: Ticket) -> None:
        """Drops what is left of a request's work, also of one that has failed."""
        if ticket.open_parts > 0 or ticket.error is not None:
            self.scheduler.cancel(ticket)


def wrong_model(name: str, verb: str) -> ApiError:
    """The error of a model that lacks a method, one of `VERBS`."""
    return ApiError(400, f"the model {name!r} does not {VERBS[verb]}", param="model", code="wrong_model")


class CommitPoint(NamedTuple):
    """The file that changes when a model does: a model itself, or what a folder's writer writes last; as it was."""

    file: str
    stamp: tuple[int, ...]

    @classmethod
    def of(cls, path: Path) -> CommitPoint:
        """Raises ModelFormatError where there is no model."""
        file = path / CONFIG if path.is_dir() else path
        if not file.exists():
            read_config(path)  # says what is there instead
        return cls(str(file), _stamp(str(file)))

    @property
    def is_current(self) -> bool:
        """Whether the file is still the same, or gone."""
        try:
            return _stamp(self.file) == self.stamp
        except OSError:
            return True

    @property
    def fingerprint(self) -> str:
        """Of a folder, by what it says of its files. Raises OSError."""
        file = Path(self.file)
        content = read_file(file) if file.name == CONFIG else repr((file.name, *self.stamp)).encode()
        return "fp_" + hashlib.sha256(content).hexdigest()[:16]


def _stamp(file: str) -> tuple[int, ...]:
    status = os.stat(file)
    return status.st_mtime_ns, status.st_size, status.st_ino
