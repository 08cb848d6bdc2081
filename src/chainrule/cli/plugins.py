"""The verb plugins: what other packages bring. It is a verb of its own, since no other speaks of packages."""

from __future__ import annotations

from typing import Any

from chainrule.base.tables import text_table
from chainrule.cli.shared.options import Json
from chainrule.cli.shared.screen import print_json
from chainrule.kinds import read_plugins


def plugins(*, json: Json = False) -> None:
    """List the plug-ins of other packages: what they bring, or why they are left out.

        $ chainrule plugins

    A plug-in is an entry point of the group chainrule.plugins; the guide's page
    on plug-ins builds one. Its kinds of models are trained, measured and used by
    the verbs of this program, and its verbs are called as those here.
    """
    known, problems = read_plugins()
    rows: list[dict[str, Any]] = [
        {"plugin": name, "brings": sorted(plugin.names()), "problem": None}
        for name, plugin in known.items()
        if name != "chainrule"
    ]
    rows += [{"plugin": name, "brings": [], "problem": problem} for name, problem in problems.items()]
    if json:
        print_json(rows)
    elif rows:
        print(
            text_table(
                ["plug-in", "brings"], [[row["plugin"], row["problem"] or ", ".join(row["brings"])] for row in rows]
            )
        )
    else:
        print("there are no plug-ins")
