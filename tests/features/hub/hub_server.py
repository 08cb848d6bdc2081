"""A small Hub: repositories of a dictionary, over the parts of the Hub's API that fetching models needs."""

from __future__ import annotations

import json
from hashlib import sha1, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

LARGE = (".safetensors", ".gguf", ".bin")  # kept by their SHA-256, the others by git


class Request(NamedTuple):
    method: str
    path: str
    range: str | None
    authorization: str | None


def blob_id(data: bytes) -> str:
    return sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """The repositories, and how the server misbehaves.

    revisions: of each repository, by their names, the commits. commits: files of each commit. gated: repositories that
    need a token. broken: how many bytes of a file are sent before the connection ends, once for each number. wrong:
    what is sent in place of files. status: in place of every answer.
    """

    def __init__(self) -> None:
        self.revisions: dict[str, dict[str, str]] = {}
        self.commits: dict[str, dict[str, bytes]] = {}
        self.gated: set[str] = set()
        self.broken: dict[str, list[int]] = {}
        self.wrong: dict[str, bytes] = {}
        self.status: int | None = None
        self.requests: list[Request] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.answer(self)

            def do_HEAD(self) -> None:
                hub.answer(self)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def add(self, name: str, files: dict[str, bytes], *revisions: str) -> str:
        """Commits files to a repository, as main and other revisions; gives the commit."""
        commit = sha1(repr((name, sorted(files.items()))).encode()).hexdigest()
        self.commits[commit] = files
        self.revisions.setdefault(name, {}).update(dict.fromkeys(("main", *revisions), commit))
        return commit

    def sent(self, method: str = "GET") -> list[str]:
        """The files whose bytes were asked for."""
        return [
            own.path.rpartition("/")[2] for own in self.requests if "/resolve/" in own.path and own.method == method
        ]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path, headers = unquote(urlsplit(handler.path).path), handler.headers
        own = Request(handler.command, path, headers.get("Range"), headers.get("Authorization"))
        self.requests.append(own)
        api = path.startswith("/api/models/")
        parts = path.removeprefix("/api/models").split("/")[1:]
        name, rest = "/".join(parts[:2]), parts[2:]
        if self.status is not None:
            return self.send(handler, self.status, {})
        if name not in self.revisions:
            return self.send(handler, 404 if own.authorization else 401, {"X-Error-Code": "RepoNotFound"})
        if rest == ["refs"]:
            refs = [
                {"name": ref, "ref": f"refs/heads/{ref}", "targetCommit": c} for ref, c in self.revisions[name].items()
            ]
            return self.send(handler, 200, {}, json.dumps({"branches": refs, "tags": [], "converts": []}).encode())
        revision = rest[1] if rest else "main"
        commit = self.revisions[name].get(revision, revision)
        if commit not in self.commits:
            return self.send(handler, 404, {"X-Error-Code": "RevisionNotFound"})
        files = self.commits[commit]
        if api:
            siblings = [self.sibling(path, data) for path, data in files.items()]
            body: dict[str, Any] = {"id": name, "sha": commit, "siblings": siblings}
            return self.send(handler, 200, {}, json.dumps(body).encode())
        if name in self.gated and own.authorization != "Bearer good":
            return self.send(handler, 403 if own.authorization else 401, {"X-Error-Code": "GatedRepo"})
        file = "/".join(rest[2:])
        if file not in files:
            return self.send(handler, 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
        data = files[file]
        etag = sha256(data).hexdigest() if file.endswith(LARGE) else blob_id(data)
        data, begin = self.wrong.get(file, data), 0
        if own.range is not None:
            begin = int(own.range.removeprefix("bytes=").partition("-")[0])
        found = {"X-Repo-Commit": commit, "ETag": f'"{etag}"', "Content-Length": str(len(data) - begin)}
        if begin:
            found["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        end = len(data)
        if own.method == "GET" and self.broken.get(file):
            end = begin + self.broken[file].pop(0)
        self.send(handler, 206 if begin else 200, found, data[begin:end])
        return None

    def sibling(self, path: str, data: bytes) -> dict[str, Any]:
        own: dict[str, Any] = {"rfilename": path, "size": len(data), "blobId": blob_id(data)}
        if path.endswith(LARGE):
            own["lfs"] = {"sha256": sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        return own

    def send(self, handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        handler.send_response(status)
        for field, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(field, value)
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(body)
