"""What a server writes to standard error: warnings, errors and, if asked for, a line for each request."""

from __future__ import annotations

import logging

LOG = logging.getLogger("chainrule.serving")


def log_to_stderr(*, requests: bool) -> None:
    """requests: whether each request is logged: its route, status and time, never its text."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # it warns of every request that is no HTTP
    LOG.setLevel(logging.INFO if requests else logging.WARNING)
