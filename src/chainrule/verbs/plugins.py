"""The plug-ins of other packages."""

from __future__ import annotations

from typing import Any

from chainrule.base.results import Shown, table
from chainrule.base.tables import text_table
from chainrule.kinds import read_plugins


def plugins() -> Shown:
    """Return the plug-ins of other packages: what they bring, or why they are left out.

    good:  chainrule.plugins().to_records()
    """
    known, problems = read_plugins()
    rows: list[dict[str, Any]] = [
        {"plugin": name, "brings": sorted(plugin.names()), "problem": None}
        for name, plugin in known.items()
        if name != "chainrule"
    ]
    rows += [{"plugin": name, "brings": [], "problem": problem} for name, problem in problems.items()]
    cells = [[row["plugin"], row["problem"] or ", ".join(row["brings"])] for row in rows]
    return table(text_table(["plug-in", "brings"], cells) if rows else "there are no plug-ins", rows)
