"""The models of a server by name, each with its scheduler; and their correctors, by settings.

A model is opened when first asked for, opened again when its files change, and closed when memory is short. What a
corrector changes is given as records.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from chainrule.base.files import read_file
from chainrule.errors import ChainruleError, ModelFormatError, SettingError
from chainrule.features.correct.correct import corrector, has_words, word_index
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.features.serve.bodies import ApiError
from chainrule.features.serve.generation.scheduler import Scheduler
from chainrule.features.serve.generation.tokens import TokenNames, TokenRows, finite, token_arrays
from chainrule.features.serve.generation.work import Call, PendingRequest
from chainrule.features.vision.model import CaptionModel
from chainrule.models.drafting import Drafting, why_not_drafted
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.adapters import share_as_base, shared_base
from chainrule.models.files.opening import load, open_drafting
from chainrule.models.files.recognition import model_class_at
from chainrule.models.language_models import CausalModel
from chainrule.models.model import Model
from chainrule.models.open_options import OpenOptions
from chainrule.protocol import UNKNOWN
from chainrule.storage.config_json import CONFIG, read_config
from chainrule.storage.model_folder import saved_family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chainrule.features.correct.corrector.corrector import Corrector
    from chainrule.features.correct.corrector.spans import Corrected
    from chainrule.features.correct.corrector.word_index import WordIndex
    from chainrule.features.serve.bodies import CorrectBody
    from chainrule.features.serve.config import ServerLimits
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Json = dict[str, Any]

_KEPT = 4  # correctors


class Corrections:
    """Corrects with one model. Its methods run on the model's thread."""

    def __init__(self, model: CausalModel) -> None:
        """Store the model. Raises ApiError if the model's tokens are not words."""
        if not has_words(model):
            message = f"the tokens of the model are not words ({model.tokenizer.name}), so it cannot correct"
            raise ApiError(400, message, param="model", code="wrong_model")
        self._model = model
        self._corrector = lru_cache(_KEPT)(self._new_corrector)

    def correct(self, texts: Sequence[str], body: CorrectBody) -> list[Corrected]:
        """Return the corrected texts. Raises SettingError."""
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in body.options().items()}
        return self._corrector(**given).correct(texts)

    def _new_corrector(self, **options: Any) -> Corrector:
        return corrector(self._model, lexicon=self._words, **options)

    @cached_property
    def _words(self) -> WordIndex:
        return word_index(self._model)


def correction_record(index: int, one: Corrected) -> Json:
    """Return a corrected text with its changes, as `chainrule correct --json` writes them."""
    changes = [{**change._asdict(), "prob": finite(change.prob)} for change in one.changes]
    return {"index": index, "text": one.text, "corrected": one.corrected, "changes": changes, "note": one.note}


# What the models that have a method do.
VERBS = {
    "generate": "continue texts",
    "embed": "give vectors",
    "score": "score texts",
    "write": "write texts from others",
    "caption": "write captions of pictures",
}


class ServedModel:
    """A model with its name. fingerprint: that of its files; with equal fingerprints, equal seeds give equal texts."""

    def __init__(
        self,
        name: str,
        model: Model | Seq2SeqModel | CaptionModel,
        fingerprint: str,
        limits: ServerLimits,
        *,
        on_broken: Callable[[], None] | None = None,
        drafting: Drafting | None = None,
    ) -> None:
        """Prepare a model for requests. on_broken: as in `Scheduler`. drafting: how single answers are drafted.

        Raises SettingError if they cannot be.
        """
        self.name, self.fingerprint, self.limits = name, fingerprint, limits
        self.any_model = model
        self.context: int | None = None
        engine: Any = None
        if isinstance(model, Model):
            family = FAMILIES[model.family]
            self.context, engine = family.context(model.engine), model.engine
            if drafting is not None:
                engine = drafting.drafted_model(model.parts)
        self.drafting = drafting
        # Networks that continue texts are PromptReaders.
        self.reads_prompts = isinstance(model, CausalModel) and FAMILIES[model.family].embeds
        self.scheduler = Scheduler(
            engine, limits, reads_prompts=self.reads_prompts, context=self.context, on_broken=on_broken
        )

    @property
    def family(self) -> str:
        """The model's family; for models that write texts from sources, the kind of source."""
        model = self.any_model
        return model.family if isinstance(model, Model) else "pictures" if hasattr(model, "caption") else "pairs"

    @property
    def causal(self) -> CausalModel:
        """The model, which continues texts. Raises ApiError if it does not."""
        if not isinstance(self.any_model, CausalModel):
            raise wrong_model(self.name, "generate")
        return self.any_model

    def verb(self, name: str) -> Callable[..., Any]:
        """Return a method of the model, one of `VERBS`. Raises ApiError if it has none."""
        try:
            method: Callable[..., Any] = getattr(self.any_model, name)
        except AttributeError:
            raise wrong_model(self.name, name) from None
        return method

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer. Raises ApiError if it has no single one."""
        if not isinstance(self.any_model, Model):
            raise wrong_model(self.name, "generate")
        return self.any_model.tokenizer

    @cached_property
    def names(self) -> TokenNames:
        return TokenNames(self.tokenizer)

    @cached_property
    def corrections(self) -> Corrections:
        """What corrects with the model. Raises ApiError if the model cannot correct."""
        return Corrections(self.causal)

    @property
    def banned(self) -> list[int]:
        """Tokens that are never generated."""
        return [UNKNOWN]

    async def call(self, function: Callable[[], Any], *, is_long: bool = False) -> Any:
        """Call a function while the model does nothing else. Raises what it raises.

        is_long: whether it is called in slices, between which other requests have their turn.
        """
        ticket = PendingRequest(1)
        call = Call(ticket, function, is_long)
        self.scheduler.submit([call])
        try:
            await ticket.wait_until_done()
        finally:
            self.abandon(ticket)
        return call.result

    def abandon(self, ticket: PendingRequest) -> None:
        """Drop what is left of a request's work, also of one that has failed."""
        if ticket.open_parts > 0 or ticket.error is not None:
            self.scheduler.cancel(ticket)


def wrong_model(name: str, verb: str) -> ApiError:
    """Return the error of a model that lacks a method, one of `VERBS`."""
    return ApiError(400, f"the model {name!r} does not {VERBS[verb]}", param="model", code="wrong_model")


class ModelVersion(NamedTuple):
    """The state of the file that changes when a model does: the model file, or the last file that is written in a
    folder.
    """

    file: str
    stamp: tuple[int, ...]

    @classmethod
    def of(cls, path: Path) -> ModelVersion:
        """Return the version of the model at a path. Raises ModelFormatError where there is no model."""
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
        """The fingerprint of a folder, by what its configuration says of its files. Raises OSError."""
        file = Path(self.file)
        content = read_file(file) if file.name == CONFIG else repr((file.name, *self.stamp)).encode()
        return "fp_" + hashlib.sha256(content).hexdigest()[:16]


def _stamp(file: str) -> tuple[int, ...]:
    status = os.stat(file)
    return status.st_mtime_ns, status.st_size, status.st_ino


BROKEN = "failed several times in a row"


@dataclass
class _Entry:
    path: Path
    served: ServedModel | None = None
    commit_point: ModelVersion | None = None
    last_used: int = 0
    bytes: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ModelTable:
    """Names and models. Methods are called on the event loop."""

    def __init__(
        self,
        paths: Sequence[tuple[str, Path]],
        limits: ServerLimits,
        *,
        memory: int | None = None,
        draft: str | None = None,
        on_event: Callable[[str, str], None] = lambda event, name: None,
    ) -> None:
        """Store the paths; no model is opened yet.

        paths: the models' paths by name. memory: the most bytes that the files of all open models may have; None for
        any number. draft: what drafts the answers of models that can be drafted. on_event: a callback that gets an
        event (opened, closed, cannot be opened: why, BROKEN) and the model's name; BROKEN comes on another thread.
        Raises SettingError if two models have one name.
        """
        self._entries: dict[str, _Entry] = {}
        for name, path in paths:
            if name in self._entries:
                raise SettingError(f"two models are called {name!r}; name one of them, as in other={path}")
            self._entries[name] = _Entry(path)
        self._limits, self._memory, self._draft, self.on_event = limits, memory, draft, on_event
        self._uses = 0
        self._retired: list[ServedModel] = []

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    @property
    def default(self) -> str:
        """The first model's name."""
        return next(iter(self._entries))

    def created(self, name: str) -> int:
        """Return when the files of a model were written, in seconds since 1970; 0 where they are gone."""
        path = self._entries[name].path
        try:
            return int(os.stat(path / CONFIG if path.is_dir() else path).st_mtime)
        except OSError:
            return 0

    def saved_family(self, name: str) -> str | None:
        """Return the family of a model, as `ServedModel.family`, if the configuration of its folder says it; None where
        only opening it shows that.
        """
        path = self._entries[name].path
        try:
            kind = model_class_at(path)
            if kind is CaptionModel or kind is Seq2SeqModel:
                return "pictures" if kind is CaptionModel else "pairs"
            return saved_family(path)
        except ModelFormatError:
            return None

    def open_models(self) -> Iterator[ServedModel]:
        """Yield all open models, also replaced ones that still answer earlier requests."""
        yield from (entry.served for entry in self._entries.values() if entry.served is not None)
        self._retired = [served for served in self._retired if not served.scheduler.is_idle]
        yield from self._retired

    async def get(self, name: str | None, verb: str | None = None) -> ServedModel:
        """Return a model by its name; the first one without a name. Raises ApiError.

        verb: a method, one of `VERBS`, that it must have; a model whose configuration shows that it has not is never
        opened.
        """
        entry = self._entries.get(self.default if name is None else name)
        if entry is None:
            raise ApiError(
                404, f"there is no model {str(name)[:100]!r}; see /v1/models", param="model", code="model_not_found"
            )
        name = self.default if name is None else name
        self._uses += 1
        entry.last_used = self._uses
        served = entry.served
        if served is not None and served.scheduler.is_alive and self._is_current(entry):
            return served
        if verb is not None and served is None:
            _check_kind(name, entry.path, verb)
        async with entry.lock:
            if entry.served is None or not entry.served.scheduler.is_alive or not self._is_current(entry):
                await self._open(name, entry)
            assert entry.served is not None
            return entry.served

    def close(self) -> None:
        """Let every model finish its work, and accept no more."""
        for served in self.open_models():
            served.scheduler.close()

    @staticmethod
    def _is_current(entry: _Entry) -> bool:
        """Return whether the files are those that were opened, or are gone, in which case the open model is still
        used.
        """
        return entry.commit_point is not None and entry.commit_point.is_current

    async def _open(self, name: str, entry: _Entry) -> None:
        """Open a model, if its files are sound. Raises ApiError."""
        try:
            commit_point = ModelVersion.of(entry.path)
            fingerprint = commit_point.fingerprint
            size = _bytes_of(entry.path)
            self._make_room(name, size)
            with ThreadPoolExecutor(1) as thread:  # it ends: OpenMP counts the threads that it has started as busy ones
                loading = asyncio.get_running_loop().run_in_executor(thread, _load_ready, entry.path, self._draft)
                model, drafting = await loading
        except (ChainruleError, OSError) as error:
            if entry.served is not None and entry.served.scheduler.is_alive:  # a folder that is just being written
                return
            self.on_event(f"cannot be opened: {error}", name)
            message = f"the model {name!r} cannot be opened"
            raise ApiError(503, message, param="model", code="model_unavailable", retry_after=10) from error
        self._retire(name, entry)
        entry.served = ServedModel(
            name,
            model,
            fingerprint,
            self._limits,
            on_broken=lambda: self.on_event(BROKEN, name),
            drafting=drafting,
        )
        entry.commit_point, entry.bytes = commit_point, size
        bare = self._draft is not None and drafting is None
        self.on_event("opened; it cannot be drafted, and answers without" if bare else "opened", name)

    def _retire(self, name: str, entry: _Entry) -> None:
        if entry.served is not None:
            entry.served.scheduler.close()
            self._retired.append(entry.served)
            entry.served = None
            self.on_event("closed", name)

    def _make_room(self, name: str, size: int) -> None:
        """Close the least recently used idle models, until another one fits. Raises ApiError if it does not."""
        if self._memory is None:
            return
        others = [
            (other, entry) for other, entry in self._entries.items() if entry.served is not None and other != name
        ]
        used = sum(entry.bytes for _, entry in others)
        for other, entry in sorted(others, key=lambda pair: pair[1].last_used):
            if used + size <= self._memory:
                return
            if entry.served is not None and entry.served.scheduler.is_idle:
                used -= entry.bytes
                self._retire(other, entry)
        if used + size > self._memory and used:
            raise ApiError(
                503, f"there is no room for the model {name!r} now; try again later", code="no_memory", retry_after=5
            )


def _check_kind(name: str, path: Path, verb: str) -> None:
    """Raise ApiError if the configuration of a model shows that it lacks a method."""
    with suppress(ChainruleError, OSError):  # opening it shows what is wrong
        kind = model_class_at(path)
        if kind is not None and not hasattr(kind, verb):
            raise wrong_model(name, verb)


def _load_ready(path: Path, draft: str | None) -> tuple[Model | Seq2SeqModel | CaptionModel, Drafting | None]:
    """Return a model whose kernels are compiled, so that its first request does not wait for them; and how it is
    drafted.

    draft: as for `ModelTable`. Raises as `load` and `open_drafting`.
    """
    exact = OpenOptions().is_exact
    model = shared_base(path, exact=exact) or load(path)
    if isinstance(model, Model):
        share_as_base(path, model, exact=exact)
    if not any(hasattr(model, verb) for verb in VERBS):
        raise SettingError(f"{path}: {model.does()}, and no route does that")
    if isinstance(model, CausalModel):
        engine, tokens = model.language_model, np.array([UNKNOWN], np.int32)
        with suppress(ChainruleError):  # a request will get it
            state = engine.start([tokens])
            engine.top(state, 1)
            engine.draw(state, np.array([0.5]))
            engine.score([tokens], end=False)
            engine.advance(engine.join([state, state]), np.array([UNKNOWN, UNKNOWN], np.int32))
        rows = TokenRows(tokens, np.zeros(1, np.float32), None, np.zeros(1, np.int64))
        token_arrays(TokenNames(model.tokenizer), [rows])
        if draft is not None and why_not_drafted(model.parts) is None:
            drafting = open_drafting(draft)
            drafting.drafted_model(model.parts)  # raises where the drafter has other tokens
            return model, drafting
    return cast("Model | Seq2SeqModel | CaptionModel", model), None


def _bytes_of(path: Path) -> int:
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
