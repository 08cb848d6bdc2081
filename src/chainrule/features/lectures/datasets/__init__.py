"""Small data sets made by rule, the same on every machine, so that every command can be tried without a download.

This file has only their names, so that the command line can show them at once.
"""

from __future__ import annotations

from typing import Literal

Name = Literal[
    "text", "pairs", "labels", "trees", "pictures", "captions", "minimal-pairs", "dates", "conversations", "speech"
]
