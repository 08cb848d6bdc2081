"""What the delay is for: a completion that nobody waits for any more is not computed."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from lsprotocol import types

from chainrule.decoding.completion import Completion
from chainrule.errors import ModelFormatError
from chainrule.features.serve.editors.language_server import OpenDocuments

if TYPE_CHECKING:
    from collections.abc import Iterable

    import chainrule

URI = "file:///a"


class Model:
    """Completes every text with "!", and says which texts it was asked for. error: what it raises instead."""

    document = "line"

    def __init__(self, error: chainrule.errors.ChainruleError | None = None) -> None:
        self.error = error
        self.asked: list[str] = []

    def complete(self, text: str, n: int, corrector: Any = None) -> list[Completion]:
        self.asked.append(text)
        if self.error is not None:
            raise self.error
        return [Completion("!", "!", 0.0)]


def opened(model: Model, delay: float, text: str = "one") -> tuple[OpenDocuments, list[str]]:
    """Documents with one open, and the messages that they show."""
    messages: list[str] = []
    server: Any = SimpleNamespace(
        server_capabilities=types.ServerCapabilities(),
        window_show_message=lambda params: messages.append(params.message),
    )
    documents = OpenDocuments(
        server,
        model,
        number=1,
        delay=delay,
        build_corrector=None,
        kept=None,  # type: ignore[arg-type]
    )
    item = types.TextDocumentItem(URI, "text", 1, text)
    documents.open(types.DidOpenTextDocumentParams(item))
    return documents, messages


def ask(line: int = 0, character: int = 3) -> types.CompletionParams:
    return types.CompletionParams(types.TextDocumentIdentifier(URI), types.Position(line, character))


def labels(answers: Iterable[types.CompletionList]) -> list[list[str]]:
    return [[item.label for item in answer.items] for answer in answers]


def test_a_key_within_the_delay_leaves_the_older_completion_out() -> None:
    async def type_two_keys() -> list[types.CompletionList]:
        first = asyncio.create_task(documents.complete(ask()))
        await asyncio.sleep(0)
        change = types.TextDocumentContentChangeWholeDocument("one two")
        document = types.VersionedTextDocumentIdentifier(2, URI)
        documents.change(types.DidChangeTextDocumentParams(document, [change]))
        return await asyncio.gather(first, documents.complete(ask(character=7)))

    model = Model()
    documents, _ = opened(model, 0.02)
    assert labels(asyncio.run(type_two_keys())) == [[], ["two!"]]
    assert model.asked == ["one two"]


def test_a_cancelled_request_asks_the_model_nothing() -> None:
    async def cancel() -> None:
        task = asyncio.create_task(documents.complete(ask()))
        await asyncio.sleep(0)
        task.cancel()
        await task

    model = Model()
    documents, _ = opened(model, 60)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())
    assert model.asked == []


def test_a_model_that_fails_is_said_once() -> None:
    model = Model(ModelFormatError("lm: has changed since it was opened"))
    documents, messages = opened(model, 0)

    async def complete_twice() -> list[types.CompletionList]:
        return [await documents.complete(ask()), await documents.complete(ask())]

    assert labels(asyncio.run(complete_twice())) == [[], []]
    assert messages == ["chainrule: lm: has changed since it was opened"]


def test_what_is_ready_is_not_garbage_collected_while_keys_are_typed() -> None:
    documents, _ = opened(Model(), 0)
    before = gc.get_freeze_count()
    asyncio.run(documents.prepare())
    assert gc.get_freeze_count() > before  # and stays so, with all that pytest_collection_finish has frozen


def test_of_a_giant_document_the_end_before_the_cursor_is_read() -> None:
    """10 MB in one line, which an editor may open by accident."""
    model = Model()
    documents, _ = opened(model, 0, "word " * 2_000_000)
    asyncio.run(documents.complete(ask(character=10_000_000)))
    [text] = model.asked
    assert 3_000 < len(text) <= 4_096
    assert text.endswith("word word ")
