"""`python -m chainrule` runs the command line."""

from chainrule.cli.main import main

if __name__ == "__main__":
    main()
