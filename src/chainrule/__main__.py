"""The entry point of `chainrule` and of `python -m chainrule`."""

from chainrule.cli.overview import show


def main() -> None:
    """Shows the lists of verbs and models at once, and hands all else to the parser."""
    if not show():
        from chainrule.cli.main import main

        main()


if __name__ == "__main__":
    main()
