"""chainrule --install-completion: makes the shell complete verbs and options."""

from __future__ import annotations

from cyclopts.completion.install import create_install_completion_command

from chainrule.cli.main import app

install = create_install_completion_command(app.install_completion, add_to_startup=False)
