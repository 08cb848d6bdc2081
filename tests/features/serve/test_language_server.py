"""chainrule lsp over standard input and output, by pytest-lsp's client, which checks answers against the protocol."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

import chainrule

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.asyncio(loop_scope="module")
numbers = itertools.count(1)
LINES = [
    "the cat sat on the mat",
    "the cat sat on the map",
    "the dog ran to the cat",
    "she said the cat sat down",
    "two 𝒳 and one 𝒳 make three 𝒳",
] * 5


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("editors") / "lm"
    chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=3)).save(path)
    return path


@pytest.fixture(scope="session")
def kept(model: Path) -> Path:
    return model.parent / "kept.txt"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor(model: Path, kept: Path) -> AsyncIterator[LanguageClient]:
    """A language server as editors start it, one process for all tests here."""
    command = [sys.executable, "-m", "chainrule", "lsp", str(model), "--keep", str(kept)]
    client = await ClientServerConfig(command, server_env=dict(os.environ)).start()
    assert isinstance(client, LanguageClient)
    capabilities = client_capabilities("visual_studio_code")
    capabilities.general = None  # positions in UTF-16, as long as nobody asks for others
    await client.initialize_session(types.InitializeParams(capabilities))
    yield client
    await client.shutdown_session()
    await client.stop()


class Opened:
    """A document that the editor has open."""

    def __init__(self, editor: LanguageClient, text: str) -> None:
        self.editor, self.uri, self.version = editor, f"file:///nowhere/{next(numbers)}.txt", 1
        item = types.TextDocumentItem(self.uri, "plaintext", self.version, text)
        editor.text_document_did_open(types.DidOpenTextDocumentParams(item))

    @property
    def identifier(self) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self.uri)

    def change(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        self.version += 1
        change = types.TextDocumentContentChangePartial(range=span(start, end), text=text)
        document = types.VersionedTextDocumentIdentifier(self.version, self.uri)
        self.editor.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    async def complete(self, line: int, character: int) -> list[types.CompletionItem]:
        position = types.Position(line, character)
        answer = await self.editor.text_document_completion_async(types.CompletionParams(self.identifier, position))
        assert isinstance(answer, types.CompletionList)
        assert answer.is_incomplete
        return list(answer.items)

    async def remarks(self, number: int) -> list[types.Diagnostic]:
        """The remarks on the document, once there are so many."""
        for _ in range(600):
            remarks = self.editor.diagnostics.get(self.uri)
            if remarks is not None and len(remarks) == number:
                return list(remarks)
            await asyncio.sleep(0.1)
        raise AssertionError(f"{remarks} after a minute; expected {number}")

    async def fixes(self, line: int, character: int) -> list[types.CodeAction | types.Command]:
        """The actions. lsprotocol's client takes those that have a command for Commands, with their titles."""
        where = span((line, character), (line, character))
        actions = await self.editor.text_document_code_action_async(
            types.CodeActionParams(self.identifier, where, types.CodeActionContext([]))
        )
        return list(actions or [])


def span(start: tuple[int, int], end: tuple[int, int]) -> types.Range:
    return types.Range(types.Position(*start), types.Position(*end))


def edit_of(item: types.CompletionItem) -> types.TextEdit:
    assert isinstance(item.text_edit, types.TextEdit)
    return item.text_edit


async def test_it_completes_as_the_library_does(editor: LanguageClient, model: Path) -> None:
    """Oracle: `Model.complete` on the text before the cursor, of the paragraph and in one line."""
    document = Opened(editor, "earlier text\n\nthe dog ran\nto the c")
    expected = chainrule.load(model).complete("the dog ran to the c", 5)
    items = await document.complete(3, 8)
    assert expected
    assert [edit_of(item).new_text for item in items] == ["c" + one.added for one in expected]
    assert all(edit_of(item).range == span((3, 7), (3, 8)) for item in items)
    assert [item.sort_text for item in items] == sorted(item.sort_text or "" for item in items)
    assert items[0].detail == f"{100 * 2.718281828 ** expected[0].log_prob:.1f} %"


async def test_next_words_come_after_a_space_and_inline(editor: LanguageClient, model: Path) -> None:
    document = Opened(editor, "the cat ")
    [first, *_] = await document.complete(0, 8)
    assert edit_of(first) == types.TextEdit(span((0, 8), (0, 8)), first.label)
    params = types.InlineCompletionParams(
        types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic),
        document.identifier,
        types.Position(0, 8),
    )
    inline = await editor.text_document_inline_completion_async(params)
    assert isinstance(inline, types.InlineCompletionList)
    assert inline.items[0].insert_text == first.label == chainrule.load(model).complete("the cat ", 1)[0].text


async def test_positions_count_utf_16_units(editor: LanguageClient) -> None:
    """𝒳 is one character, and two units."""
    document = Opened(editor, "two 𝒳 and one 𝒳 ma")
    [item, *_] = await document.complete(0, 20)
    assert edit_of(item).new_text.startswith("make")
    assert edit_of(item).range == span((0, 18), (0, 20))


async def test_changes_arrive_one_by_one(editor: LanguageClient) -> None:
    document = Opened(editor, "the 😀 cat\nsat")
    document.change((0, 4), (1, 3), "dog\r\nr")
    [item, *_] = await document.complete(1, 1)
    assert edit_of(item).new_text.startswith("ran")
    document.change((0, 0), (2**31 - 1, 0), "the cat s")
    [item, *_] = await document.complete(0, 9)
    assert edit_of(item).new_text.startswith("sat")


@pytest.mark.parametrize("position", [(0, 10**9), (10**9, 3), (2**31 - 1, 2**31 - 1)])
async def test_a_position_outside_the_text_counts_as_its_nearest(
    editor: LanguageClient, position: tuple[int, int]
) -> None:
    items = await Opened(editor, "the ca").complete(*position)
    assert edit_of(items[0]).range == span((0, 4), (0, 6))


async def test_a_file_that_is_not_open_is_not_read(editor: LanguageClient, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the c")
    document = Opened(editor, "the c")
    closed = types.DidCloseTextDocumentParams(document.identifier)
    editor.text_document_did_close(closed)
    assert await document.complete(0, 5) == []
    document.change((0, 0), (0, 0), "the c")
    document.uri = secret.as_uri()
    assert await document.complete(0, 5) == []
    assert await document.fixes(0, 5) == []


async def test_a_wrong_word_is_remarked_and_a_quick_fix_puts_it_right(editor: LanguageClient) -> None:
    document = Opened(editor, "the cat 😀 sat on teh mat\n\nthe dog")
    document.change((2, 7), (2, 7), " ran")
    [remark] = await document.remarks(1)
    assert remark.range == span((0, 18), (0, 21))
    assert "“teh”: did you mean “the”?" in remark.message
    fix, keep = await document.fixes(0, 19)
    assert isinstance(fix, types.CodeAction)
    assert fix.edit is not None
    [(uri, [edit])] = (fix.edit.changes or {}).items()
    assert (uri, edit) == (document.uri, types.TextEdit(span((0, 18), (0, 21)), "the"))
    assert fix.is_preferred
    assert list(fix.diagnostics or []) == [remark]
    assert keep.title == "Never change “teh”"
    assert await document.fixes(2, 0) == []
    [*_, item] = await Opened(editor, "teh ").complete(0, 4)
    assert edit_of(item) == types.TextEdit(span((0, 0), (0, 4)), "the ")
    assert (item.filter_text or "").startswith("teh")


async def test_a_word_that_is_being_typed_is_not_remarked(editor: LanguageClient) -> None:
    document = Opened(editor, "the cat sat on ")
    document.change((0, 15), (0, 15), "teh")
    assert await document.remarks(0) == []
    document.change((0, 18), (0, 18), " mat")
    assert await document.remarks(1)


async def test_a_word_that_is_kept_is_left_alone_here_and_in_the_file(editor: LanguageClient, kept: Path) -> None:
    document = Opened(editor, "the cat sat on thr mat\n\nthe dog")
    document.change((2, 7), (2, 7), " ran")
    assert await document.remarks(1)
    await editor.workspace_execute_command_async(types.ExecuteCommandParams("chainrule.keep", ["thr"]))
    assert await document.remarks(0) == []
    assert kept.read_text() == "thr\n"


async def test_a_request_that_is_cancelled_is_answered_as_cancelled_or_done(editor: LanguageClient) -> None:
    document = Opened(editor, "the cat ")
    params = types.CompletionParams(document.identifier, types.Position(0, 8))
    waiting = editor.protocol.send_request_async(types.TEXT_DOCUMENT_COMPLETION, params, msg_id="mine")
    editor.cancel_request(types.CancelParams("mine"))
    [answer] = await asyncio.wait_for(asyncio.gather(waiting, return_exceptions=True), 60)
    assert isinstance(answer, types.CompletionList) or (
        isinstance(answer, JsonRpcException) and "cancel" in str(answer)
    )
    assert await document.complete(0, 8)


async def test_closing_takes_the_remarks_away(editor: LanguageClient) -> None:
    document = Opened(editor, "teh cat sat\n\nthe dog")
    document.change((2, 7), (2, 7), " ran")
    assert await document.remarks(1)
    editor.text_document_did_close(types.DidCloseTextDocumentParams(document.identifier))
    assert await document.remarks(0) == []


async def test_markers_in_a_text_disturb_nothing(editor: LanguageClient) -> None:
    items = await Opened(editor, "</s> <unk> the c").complete(0, 16)
    assert items
