"""The verb plugins: what other packages bring. It is a verb of its own, since no other speaks of packages."""

from __future__ import annotations

from typing import Any

from chainrule.base.results import table
from chainrule.base.tables import text_table
from chainrule.cli.shared.results import TO_SCREEN, ResultOptions
from chainrule.kinds import read_plugins


def plugins(*, show: ResultOptions = TO_SCREEN) -> None:
    """List the plug-ins of other packages: what they bring, or why they are left out.

        $ chainrule plugins

    A plug-in is an entry point of the group chainrule.plugins; the guide's page
    on plug-ins builds one. Its kinds of models are trained, measured and used by
    the verbs of this program, and its verbs are called as those here.
    """
    show.check()
    known, problems = read_plugins()
    rows: list[dict[str, Any]] = [
        {"plugin": name, "brings": sorted(plugin.names()), "problem": None}
        for name, plugin in known.items()
        if name != "chainrule"
    ]
    rows += [{"plugin": name, "brings": [], "problem": problem} for name, problem in problems.items()]
    cells = [[row["plugin"], row["problem"] or ", ".join(row["brings"])] for row in rows]
    show.show(table(text_table(["plug-in", "brings"], cells) if rows else "there are no plug-ins", rows))
