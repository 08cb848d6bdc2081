"""What is read of a text that is corrected, by its format: prose, without code, mathematics, tags, keys and commands.

    text       all, without invisible characters, tags and the marks around emphasised words
    markdown   paragraphs, headings, items and cells (markdown-it-py)
    latex      the text outside mathematics, verbatim text and the arguments of commands that do not take prose
    html       the text outside tags and code (html.parser)
    code       the comments of a program, and its strings of several words (Pygments)

A reading knows where its characters come from, so all the rest of a text stays as it is. In the place of what is left
out inside a sentence stands `_`, which no word has.
"""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from chainrule.errors import SettingError
from chainrule.features.correct.corrector.latex import BREAK, LEFT_OUT, latex_pieces
from chainrule.text.corpus.reading import text_suffix
from chainrule.text.lookup import Piece, Reading, read_pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chainrule.features.correct.options import TextFormat

_SUFFIXES: dict[str, TextFormat] = {
    **dict.fromkeys((".md", ".markdown"), "markdown"),
    **dict.fromkeys((".tex", ".latex", ".ltx"), "latex"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys(
        (
            *(".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".java", ".kt", ".scala", ".swift", ".go", ".rs", ".zig"),
            *(".py", ".pyi", ".rb", ".pl", ".php", ".lua", ".r", ".jl", ".js", ".mjs", ".jsx", ".ts", ".tsx", ".css"),
            *(".sh", ".bash", ".sql", ".hs", ".ml", ".ex", ".erl", ".clj", ".el", ".lisp", ".toml", ".yaml", ".yml"),
        ),
        "code",
    ),
}


def format_of(name: str, wanted: TextFormat = "auto") -> TextFormat:
    """Return the format of a file: the wanted one or, if that is `auto`, the one that its suffix says."""
    return _SUFFIXES.get(text_suffix(name), "text") if wanted == "auto" else wanted


def read_as(text: str, wanted: TextFormat, name: str = "", *, is_scanned: bool = False) -> Reading:
    """Return what is read of a text. name: of its file, which says the language of a program.

    is_scanned: in plain text, marks are read unchanged. Raises SettingError for a program in an unknown language.
    """
    kind = format_of(name, wanted)
    if kind == "code":
        return _code(text, name)
    if kind == "text" and (is_scanned or not _MAY_HAVE_MARKS.search(text)):
        return read_pieces(text, [Piece(text, 0, len(text))])
    return read_pieces(text, _READERS[kind](text))


_MAY_HAVE_MARKS = re.compile(r"[*_<\\]")
_OF_WORDS = r"\w(?:[^*_\n]*[^\W_])?"
# Tags, but not the markers <s>, </s> and <unk>; commands of LaTeX and their braces; marks around emphasised words.
_MARKS = re.compile(
    r"</?(?!(?:s|unk)>)[A-Za-z][\w-]*(?:\s[^<>]*)?/?>"
    r"|(?P<command>\\(?:emph|textbf|textit|textsc|textsl|underline)\{)[^{}\\]*(?P<brace>\})"
    rf"|(?<![\w*_\\/.])(?P<before>\*{{1,3}}|_)(?=[^\W_]){_OF_WORDS}(?P<after>(?P=before))(?![\w*_(./])"
)


def _text(source: str) -> Iterator[Piece]:
    done = 0
    for match in _MARKS.finditer(source):
        names = next(((a, b) for a, b in (("command", "brace"), ("before", "after")) if match[a]), None)
        for start, stop in [match.span()] if names is None else [match.span(name) for name in names]:
            yield Piece(source[done:start], done, start)
            done = stop
    yield Piece(source[done:], done, len(source))


_FRONT_MATTER = re.compile(r"---[ \t]*\n.*?\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_MATHS = re.compile(
    r"\$\$.+?\$\$|(?<![\w$\\])\$(?=[^\s$])[^$\n]*?(?<=[^\s\\])\$(?![\w$])|\\\(.+?\\\)|\\\[.+?\\\]", re.DOTALL
)
_MARKUP = re.compile(r"[*_~\[\]!<>\s\\]*")  # between the texts of inline tokens
_TARGET = re.compile(r"\](?:\((?:<[^<>\n]*>|[^()\s]|\([^()]*\)|\s+(?:\"[^\"]*\"|'[^']*')|\s)*\)|\[[^\]]*\])?")


def _markdown(source: str) -> Iterator[Piece]:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table").disable("text_join")  # as escapes and entities are written
    front = _FRONT_MATTER.match(source)
    body = source if front is None else re.sub(r"[^\n]", " ", front[0]) + source[front.end() :]
    lines = _line_starts(source)
    done = 0
    for token in parser.parse(body):
        if token.type == "html_block" and token.map is not None:
            start, stop = lines[token.map[0]], lines[token.map[1]]
            yield Piece(BREAK, start, start)
            yield from (Piece(text, start + a, start + b) for text, a, b in _html(source[start:stop]))
        elif token.type == "inline" and token.map is not None:
            places = _places(token.content, source, lines, token.map[0], done)
            if places:
                done = places[-1]
                yield Piece(BREAK, places[0], places[0])
                yield from _inline(token, places)


def _line_starts(text: str) -> list[int]:
    """Return where the lines of a text begin, and the text's end."""
    return [0, *(match.end() for match in re.finditer("\n", text)), len(text)]


def _places(content: str, source: str, lines: Sequence[int], first: int, done: int) -> list[int]:
    """Return where each character of a block's text, and its end, are in the source; nothing where they are not
    found.
    """
    places: list[int] = []
    for number, line in enumerate(content.split("\n"), first):
        start, stop = (lines[min(i, len(lines) - 1)] for i in (number, number + 1))
        place = source.find(line, max(start, done), stop)
        if place < 0:
            return []
        places += range(place, place + len(line) + 1)
    return places


def _inline(token: Any, places: Sequence[int]) -> Iterator[Piece]:
    content: str = token.content
    is_maths = [False] * (len(content) + 1)
    for match in _MATHS.finditer(content):
        is_maths[match.start() : match.end()] = [True] * (match.end() - match.start())
    was_maths = False
    for text, start, stop in _inline_pieces(token.children, content, 0):
        parts = [(start, stop, text)]
        if text == content[start:stop]:
            edges = [i for i in range(start + 1, stop) if is_maths[i] != is_maths[i - 1]]
            parts = [(a, b, content[a:b]) for a, b in pairwise([start, *edges, stop])]
        for first, last, part in parts:
            if not (is_maths[first] and was_maths):
                yield Piece(LEFT_OUT if is_maths[first] else part, places[first], places[last - 1] + 1)
            was_maths = is_maths[first]


def _inline_pieces(children: Sequence[Any], content: str, place: int) -> Iterator[Piece]:
    """Yield the parts of inline tokens, in places of their content. They end where a token is not found."""
    is_address = False
    for child in children:
        written = {"text": child.content, "text_special": child.markup, "html_inline": child.content}.get(child.type)
        if child.type in ("softbreak", "hardbreak"):
            written = "\n"
        elif child.type == "code_inline":
            code = re.compile(rf"(?<!`){child.markup}(?!`).+?(?<!`){child.markup}(?!`)", re.DOTALL).search(
                content, place
            )
            written = None if code is None else code.group()
        elif child.type == "image":
            start = content.find("![", place) + 2
            inside = list(_inline_pieces(child.children or (), content, start))
            yield from inside
            place = _after_link(content, inside[-1].stop if inside else start)
        elif child.type == "link_close" and not is_address:
            place = _after_link(content, place)
        is_address = (child.type == "link_open" and child.info == "auto") or (is_address and child.type == "text")
        if not written:
            continue
        start = content.find(written, place)
        if start < 0 or not _MARKUP.fullmatch(content, place, start):
            return
        place = start + len(written)
        if child.type == "code_inline" or is_address:
            yield Piece(LEFT_OUT, start, place)
        elif child.type == "text_special":
            yield Piece(child.content, start, place)
        elif child.type == "html_inline":
            yield from (Piece(" ", start, place) for _ in range(written.lower().startswith("<br")))
        else:
            yield Piece(written, start, place)


def _after_link(content: str, place: int) -> int:
    end = content.find("]", place)
    target = _TARGET.match(content, end) if end >= 0 else None
    return place if target is None else target.end()


_CODE_TAGS = frozenset(
    ["code", "kbd", "math", "noscript", "pre", "samp", "script", "style", "svg", "template", "textarea", "tt", "var"]
)
_BLOCK_TAGS = frozenset(
    [
        *("address", "article", "aside", "blockquote", "body", "br", "button", "caption", "center", "dd", "details"),
        *("dialog", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4"),
        *("h5", "h6", "head", "header", "hr", "html", "legend", "li", "main", "nav", "noscript", "ol", "option", "p"),
        *("pre", "script", "section", "select", "style", "summary", "table", "tbody", "td", "template", "textarea"),
        *("tfoot", "th", "thead", "title", "tr", "ul"),
    ]
)


class _Html(HTMLParser):
    """Collects the parts of a page."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=False)
        self.pieces: list[Piece] = []
        self._source, self._lines = source, _line_starts(source)
        self._code: list[str] = []  # open tags whose text is code
        self.feed(source)
        self.close()

    def _place(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def _add(self, text: str, start: int, stop: int) -> None:
        if not self._code:
            self.pieces.append(Piece(text, start, stop))

    def _tag(self, tag: str) -> None:
        if tag in _BLOCK_TAGS:
            place = self._place()
            self._add("\n" if tag == "br" else BREAK, place, place)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag(tag)
        if tag in _CODE_TAGS:
            place = self._place()
            self._add("" if tag in _BLOCK_TAGS else LEFT_OUT, place, place)
            self._code.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag(tag)

    def handle_endtag(self, tag: str) -> None:
        self._tag(tag)
        if tag in self._code:
            del self._code[self._code.index(tag) :]

    def handle_data(self, data: str) -> None:
        place = self._place()
        self._add(data, place, place + len(data))

    def handle_entityref(self, name: str) -> None:
        self._reference(f"&{name}")

    def handle_charref(self, name: str) -> None:
        self._reference(f"&#{name}")

    def _reference(self, written: str) -> None:
        place = self._place()
        written += ";" * self._source.startswith(";", place + len(written))
        self._add(unescape(written), place, place + len(written))


def _html(source: str) -> Iterator[Piece]:
    yield from _Html(source).pieces


_COMMENT_MARKS = re.compile(r"^[ \t]*(?:#+!?|/[/*]+!?|\*+(?!/)|;+|%+|--+|<!--+)|\*+/|--+>", re.MULTILINE)
_QUOTES = re.compile(r"\A\w{0,3}(?:\"\"\"|'''|[\"'`])|(?:\"\"\"|'''|[\"'`])\Z")
_SEVERAL_WORDS = re.compile(r"\w\s+\w")


def _code(source: str, name: str) -> Reading:
    from pygments.lexers import find_lexer_class_for_filename
    from pygments.token import Comment, Name, String, Whitespace
    from pygments.util import ClassNotFound

    try:
        lexer = find_lexer_class_for_filename(PurePath(name).name)
    except ClassNotFound:
        lexer = None
    if lexer is None:
        raise SettingError(
            f"{name or 'the text'}: the name does not say the language of the program; expected a file with the suffix "
            "of one, such as .py"
        )
    prose: list[Piece] = []
    string: list[Piece] = []
    names: set[str] = set()

    def end_string() -> None:
        if _SEVERAL_WORDS.search("".join(text for text, _, _ in string)):  # another one may be a key
            prose.extend([*string, Piece(BREAK, string[-1].stop, string[-1].stop)])
        string.clear()

    inside = 0  # values in a string
    for start, kind, text in lexer().get_tokens_unprocessed(source):
        stop = start + len(text)
        if kind in Name:
            names.add(text.lower())
        if kind in String and kind not in String.Affix and kind not in String.Symbol and kind not in String.Regex:
            if kind in String.Interpol and text[-1:] in ("{", "}"):
                inside = max(0, inside + (1 if text[-1] == "{" else -1))
                string.append(Piece(LEFT_OUT, start, stop))
            elif kind in String.Escape or kind in String.Interpol:
                string.append(Piece(" " if kind in String.Escape else LEFT_OUT, start, stop))
            else:
                string.extend(_without(_QUOTES, text, start))
            continue
        if inside:
            continue
        end_string()
        if kind in Comment and not any(kind in one for one in (Comment.Hashbang, Comment.Preproc, Comment.PreprocFile)):
            prose.extend(_without(_COMMENT_MARKS, text, start))
        elif kind in Whitespace or not text.strip():
            prose.append(Piece(text, start, stop))
        else:
            prose.append(Piece(BREAK, start, start))
    end_string()
    return read_pieces(source, prose, frozenset(names))


def _without(pattern: re.Pattern[str], text: str, start: int) -> Iterator[Piece]:
    """Yield the parts of a text between the matches of a pattern."""
    done = 0
    for match in pattern.finditer(text):
        yield Piece(text[done : match.start()], start + done, start + match.start())
        done = match.end()
    yield Piece(text[done:], start + done, start + len(text))


_READERS: dict[TextFormat, Callable[[str], Iterator[Piece]]] = {
    "text": _text,
    "markdown": _markdown,
    "latex": latex_pieces,
    "html": _html,
}
