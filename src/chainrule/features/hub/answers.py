"""What the Hub answers when it does not give a model, as errors of one line; and the cache in its place."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub import HfApi, constants, get_token, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from chainrule.errors import ChainruleError, OutputError, ServerError, SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.features.hub.names import HubName

# The errors of the library for HTTP below huggingface_hub, which has changed, and of files.
_FAILURES: tuple[type[Exception], ...] = (*HfHubHTTPError.__bases__, OSError)
_REVISIONS_SHOWN = 10


class UnreachableError(ServerError):
    """The Hub cannot be asked: it is away, or the network is, or HF_HUB_OFFLINE is set."""


@contextmanager
def as_errors(name: HubName) -> Iterator[None]:
    """Turn errors of huggingface_hub inside into ours. Raises ServerError, SettingError, OutputError."""
    try:
        yield
    except HFValidationError as error:
        raise SettingError(f"{name}: is no name of a model of the Hub: {error}") from None
    except _FAILURES as error:
        raise _explained(name, error) from None


def _explained(name: HubName, error: Exception) -> ChainruleError:
    page, has_token = f"{constants.ENDPOINT}/{name.repository}", get_token() is not None
    log_in = "log in with `hf auth login`, or set HF_TOKEN"
    if isinstance(error, GatedRepoError):
        then = "whoever owns the token that was sent has not done so" if has_token else f"then {log_in}"
        return ServerError(f"{name}: is gated: its terms have to be accepted on {page}; {then}")
    if isinstance(error, RevisionNotFoundError):
        return SettingError(f"{name}: has no revision {name.revision}{_revisions(name)}")
    if isinstance(error, RepositoryNotFoundError):
        then = "and the token that was sent has no access" if has_token else f"then {log_in}"
        return ServerError(f"{name}: is no model on {constants.ENDPOINT}; check the name. Or it is private, {then}")
    if isinstance(error, RemoteEntryNotFoundError):
        return ServerError(f"{name}: a file of it is gone while it was fetched; run the command again")
    if isinstance(error, OfflineModeIsEnabled):
        return UnreachableError(f"{name}: HF_HUB_OFFLINE is set")
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        said = f": {error.server_message}" if error.server_message else ""
        if status in (401, 403):
            return ServerError(f"{name}: {constants.ENDPOINT} refuses access ({status}{said}); check HF_TOKEN")
        kind = UnreachableError if status >= 500 else ServerError
        return kind(f"{name}: {constants.ENDPOINT} answers with status {status}{said}: try again later")
    if isinstance(error, LocalEntryNotFoundError):
        return UnreachableError(f"{name}: {constants.ENDPOINT} cannot be reached any more: run the command again")
    if "Consistency check failed" in str(error):
        return ServerError(f"{name}: a file came in another size than the Hub says; run the command again")
    if isinstance(error, OSError) and error.filename is not None:
        return OutputError(f"{error.filename}: cannot be written: {error.strerror}; set HF_HOME to another folder")
    reason = " ".join(str(error).split()) or type(error).__name__
    return UnreachableError(
        f"{name}: {constants.ENDPOINT} cannot be reached ({reason}): check the network and HF_ENDPOINT"
    )


def _revisions(name: HubName) -> str:
    """Return the branches and tags of a model, as the end of a message."""
    with suppress(*_FAILURES):
        refs = HfApi().list_repo_refs(name.repository)
        names = [ref.name for ref in (*refs.branches, *refs.tags)]
        more = ", ..." if len(names) > _REVISIONS_SHOWN else ""
        return f"; it has {', '.join(names[:_REVISIONS_SHOWN])}{more}"
    return "; expected a branch, a tag or a commit"


def cached(name: HubName, reason: UnreachableError) -> Path:
    """Return the folder of the cache with what has been fetched of a revision, with a note on standard error.

    reason: why the Hub was not asked. Raises ServerError if the cache has nothing.
    """
    try:
        folder = snapshot_download(name.repository, revision=name.revision, local_files_only=True, allow_patterns=[])
    except _FAILURES:  # of which one says that it is not there
        raise ServerError(f"{reason}, and the cache {constants.HF_HUB_CACHE} does not have it") from None
    if not constants.HF_HUB_OFFLINE:
        sys.stderr.write(f"{reason}; commit {Path(folder).name[:8]} of the cache is opened\n")
    return Path(folder)


def why_not_asked() -> str:
    """Return why the Hub was not asked, as the end of a message."""
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set; unset it to fetch more"
    return f"{constants.ENDPOINT} cannot be reached"
