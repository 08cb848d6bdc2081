"""The language server: what editors ask of a model, by the Language Server Protocol.

The model works on one thread, in the order of the requests; while it does, the editor's messages are still read.
Nothing is read but what the editor has open. Each paragraph is corrected once; its corrections are kept by its text.
"""

from __future__ import annotations

import asyncio
import gc
import re
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from chainrule import __version__
from chainrule.errors import ChainruleError
from chainrule.features.serve.editors.document import (
    KEEP,
    Document,
    Position,
    completion_items,
    diagnostic,
    inline_items,
    quick_fixes,
)
from chainrule.text.lookup import looked_up

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from pathlib import Path

    from chainrule.decoding.completion import Completion
    from chainrule.features.correct.corrector.corrector import Corrector
    from chainrule.features.correct.corrector.spans import Change
    from chainrule.models.language_models import CausalModel

_MOST_PARAGRAPHS = 1 << 12
_LONE_RETURN = re.compile(r"\r(?!\n)")


class Corrections:
    """The changes that a corrector makes in paragraphs."""

    def __init__(self, corrector: Corrector, kept: Iterable[str] = ()) -> None:
        """Store the corrector, and the words to keep. kept: words that are never corrected."""
        self.corrector = corrector
        self._kept = {looked_up(word).lower() for word in kept}
        self._changes: OrderedDict[str, tuple[Change, ...]] = OrderedDict()

    def knows(self, paragraph: str) -> bool:
        """Return whether `changes` has an answer."""
        return paragraph in self._changes

    def changes(self, paragraph: str) -> list[Change]:
        """Return the changes of a paragraph, in its order; none before `correct`."""
        return [
            change for change in self._changes.get(paragraph, ()) if looked_up(change.before).lower() not in self._kept
        ]

    def correct(self, paragraph: str) -> None:
        """Correct a paragraph, and forget the one that was corrected first if there are too many."""
        [corrected] = self.corrector.correct([_LONE_RETURN.sub("\n", paragraph)])
        self._changes[paragraph] = corrected.changes
        if len(self._changes) > _MOST_PARAGRAPHS:
            self._changes.popitem(last=False)

    def keep(self, word: str) -> None:
        """Leave a word alone from now on."""
        self._kept.add(looked_up(word).lower())


R = TypeVar("R")

_READ = 1 << 12  # characters before a position, for completion
_CHECKED = 1 << 16  # characters around the last change, for corrections
_PAUSE_SECONDS = 0.4  # in typing, before corrections are looked for


class _Protocol(LanguageServerProtocol):
    """Keeps documents as `Document`s: those of pygls cost the length of the text at each change, and end lines at
    form feeds.
    """

    documents: OpenDocuments

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        result = yield from super().lsp_initialize(params)
        result.capabilities.inline_completion_provider = True  # pygls answers such requests, but does not say so
        return result

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        self.documents.open(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self.documents.change(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self.documents.close(params)


class OpenDocuments:
    """The documents that the editor has open, and the answers to what it asks about them."""

    def __init__(
        self,
        server: LanguageServer,
        model: CausalModel,
        *,
        number: int,
        delay: float,
        build_corrector: Callable[[], Corrector] | None,
        kept: Path | None,
    ) -> None:
        """Store the model and the settings of `language_server`."""
        self._server, self._model = server, model
        self._number, self._delay = number, delay
        self._build_corrector, self._kept = build_corrector, kept
        self._corrections: Corrections | None = None
        self._documents: dict[str, Document] = {}
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._thread = ThreadPoolExecutor(1, "model")
        self._shown: set[str] = set()  # errors
        self._reads_paragraphs = model.document in (None, "line")

    def open(self, params: types.DidOpenTextDocumentParams) -> None:
        given = params.text_document
        encoding: Any = self._server.server_capabilities.position_encoding or "utf-16"
        self._documents[given.uri] = Document(given.text, given.version, getattr(encoding, "value", encoding))
        self._check_soon(given.uri)

    def change(self, params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        document = self._documents.get(uri)
        if document is None:
            return
        document.version = params.text_document.version
        for change in params.content_changes:
            if isinstance(change, types.TextDocumentContentChangePartial):
                document.replace(_position(change.range.start), _position(change.range.end), change.text)
            else:
                document.replace(Position(0, 0), Position(len(document.lines), 0), change.text)
        self._check_soon(uri)

    def close(self, params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        if self._documents.pop(uri, None) is not None:
            self._stop_check(uri)
            self._publish(uri, [])

    async def complete(self, params: types.CompletionParams) -> types.CompletionList:
        """Return the begun word, or the next words, and a correction of the word before."""
        corrector = None if self._corrections is None else self._corrections.corrector
        document, completions = await self._completions(params, corrector)
        items = completion_items(document, _position(params.position), completions) if document else []
        return types.CompletionList(is_incomplete=True, items=items)

    async def complete_inline(self, params: types.InlineCompletionParams) -> types.InlineCompletionList:
        """Return completions as `complete` does, but to be shown in grey at the cursor."""
        document, completions = await self._completions(params, None)
        return types.InlineCompletionList(
            inline_items(document, _position(params.position), completions) if document else []
        )

    async def _completions(
        self, params: types.CompletionParams | types.InlineCompletionParams, corrector: Corrector | None
    ) -> tuple[Document | None, list[Completion]]:
        """Return the document and its completions; none if it has changed by the time that they would be computed."""
        document = self._documents.get(params.text_document.uri)
        if document is None:
            return None, []
        version = document.version
        if self._delay:
            await asyncio.sleep(self._delay)
        text = document.text_before(_position(params.position), _READ, is_joined=self._reads_paragraphs)

        def complete() -> list[Completion]:
            is_current = document.version == version
            return self._model.complete(text, self._number, corrector=corrector) if is_current else []

        completions = await self._on_model_thread(complete) or []
        return document, completions if document.version == version else []

    def quick_fixes(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return the quick fixes for the corrections in a range."""
        uri = params.text_document.uri
        document = self._documents.get(uri)
        if document is None or self._corrections is None:
            return []
        first, last = (document.locate(_position(end)) for end in (params.range.start, params.range.end))
        return [
            action
            for paragraph in document.paragraphs(_CHECKED)
            for change in self._corrections.changes(paragraph.text)
            if paragraph.locate(change.start) <= last and first <= paragraph.locate(change.stop)
            for action in quick_fixes(uri, document, paragraph, change)
        ]

    def keep(self, word: str) -> None:
        """Leave a word alone from now on, and add it to the file of such words, if there is one."""
        if self._corrections is None:
            return
        self._corrections.keep(word)
        for uri, document in self._documents.items():
            self._publish(uri, self._diagnostics(document))
        if self._kept is not None:
            try:
                with self._kept.open("a", encoding="utf-8") as file:
                    file.write(f"{word}\n")
            except OSError as error:
                self._show_error(f"{self._kept}: cannot be written: {error.strerror}; the word is kept until you quit")

    async def prepare(self) -> None:
        """Prepare the model for the first key press, and then the corrector, which may take seconds.

        All objects that exist by then are frozen, so that garbage collection does not scan them again: that took 100
        ms, in the middle of a key press.
        """
        await self._on_model_thread(lambda: self._model.complete("a ", self._number))
        gc.freeze()
        if self._build_corrector is None:
            return
        try:
            self._corrections = Corrections(await asyncio.to_thread(self._build_corrector))
        except ChainruleError as error:
            self._show_error(f"no corrections: {error}")
            return
        gc.freeze()
        for uri in self._documents:
            self._check_soon(uri)

    def _check_soon(self, uri: str) -> None:
        """Schedule a check for corrections, once the user pauses."""
        self._stop_check(uri)
        if self._corrections is not None:
            self._checks[uri] = asyncio.create_task(self._check(uri, self._corrections))

    def _stop_check(self, uri: str) -> None:
        if (task := self._checks.pop(uri, None)) is not None:
            task.cancel()

    async def _check(self, uri: str, corrections: Corrections) -> None:
        """Correct the paragraphs around the last change, one by one, so that completions come between them."""
        await asyncio.sleep(_PAUSE_SECONDS)
        document = self._documents[uri]
        for paragraph in document.paragraphs(_CHECKED):
            if not corrections.knows(paragraph.text):
                await self._on_model_thread(partial(corrections.correct, paragraph.text))
        self._publish(uri, self._diagnostics(document))

    def _diagnostics(self, document: Document) -> list[types.Diagnostic]:
        if self._corrections is None:
            return []
        return [
            diagnostic(document, paragraph, change)
            for paragraph in document.paragraphs(_CHECKED)
            for change in self._corrections.changes(paragraph.text)
            if not paragraph.locate(change.start) <= document.edited <= paragraph.locate(change.stop)  # being typed
        ]

    def _publish(self, uri: str, diagnostics: list[types.Diagnostic]) -> None:
        document = self._documents.get(uri)
        self._server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, diagnostics, None if document is None else document.version)
        )

    async def _on_model_thread(self, work: Callable[[], R]) -> R | None:
        """Return the result of work with the model; where that is impossible, None, and the editor shows why, once."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except ChainruleError as error:
            self._show_error(str(error))
            return None

    def _show_error(self, message: str) -> None:
        if message not in self._shown:
            self._shown.add(message)
            self._server.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"chainrule: {message}"))


def language_server(
    model: CausalModel,
    *,
    number: int = 5,
    delay: float = 0.0,
    build_corrector: Callable[[], Corrector] | None = None,
    kept: Path | None = None,
) -> LanguageServer:
    """Return a server that completes with a model, ready to start: `start_io()` on it.

    number: the most completions. delay: seconds without a key press before a completion is computed. build_corrector: a
    function that makes the corrector, called once the editor is connected. kept: the file to which words are added that
    are never changed.
    """
    server = LanguageServer("chainrule", __version__, protocol_cls=_Protocol)
    documents = OpenDocuments(server, model, number=number, delay=delay, build_corrector=build_corrector, kept=kept)
    protocol: Any = server.protocol
    protocol.documents = documents

    @server.feature(types.INITIALIZED)
    async def prepare(params: types.InitializedParams) -> None:
        await documents.prepare()

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[" "]))
    async def complete(params: types.CompletionParams) -> types.CompletionList:
        return await documents.complete(params)

    @server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION)
    async def complete_inline(params: types.InlineCompletionParams) -> types.InlineCompletionList:
        return await documents.complete_inline(params)

    if build_corrector is not None:

        @server.feature(
            types.TEXT_DOCUMENT_CODE_ACTION,
            types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
        )
        def fix(params: types.CodeActionParams) -> list[types.CodeAction]:
            return documents.quick_fixes(params)

        @server.command(KEEP)
        def keep(word: str) -> None:
            documents.keep(word)

    return server


def _position(position: types.Position) -> Position:
    return Position(position.line, position.character)
