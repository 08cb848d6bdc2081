"""The files of the explorer's page. They are served as they lie in the folder `static`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from chainrule.drawing.pages import render

# Nothing on the page comes from elsewhere, and no text can become a script. Drawings are `data:` addresses.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


@cache
def page_files() -> dict[str, tuple[bytes, str]]:
    """The content and the media type of each file, by its name."""
    static = files("chainrule.explorer") / "static"
    contents = {
        file.name: file.read_bytes() for file in static.iterdir() if file.name.endswith((".html", ".css", ".js"))
    }
    contents["style.css"] = render("base.css.j2").encode() + contents["style.css"]
    return {name: (content, _TYPES[name.rpartition(".")[2]]) for name, content in contents.items()}
