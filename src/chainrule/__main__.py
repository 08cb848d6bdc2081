"""The entry point of `chainrule` and of `python -m chainrule`."""

import os

from chainrule.cli.overview import show

_NARROWEST = 10  # columns; 0 is no width, and the parser does not end below 3


def main() -> None:
    """Show the lists of verbs and models at once, and hand everything else to the parser."""
    if os.environ.get("COLUMNS", "").isdecimal() and int(os.environ["COLUMNS"]) < _NARROWEST:
        del os.environ["COLUMNS"]
    if not show():
        from chainrule.cli.main import main

        main()


if __name__ == "__main__":
    main()
