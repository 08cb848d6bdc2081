"""What torchrun starts in test_several_processes.py: commands of chainrule, one after the other in the same processes.

Argument: a list of commands in JSON, each a list of words.
"""

from __future__ import annotations

import json
import sys

from chainrule.cli.main import run
from chainrule.training import run as runs

if __name__ == "__main__":
    *others, last = json.loads(sys.argv[1])
    leave = runs.leave_processes
    runs.leave_processes = lambda: None  # the next command needs them
    for command in others:
        assert run(command) == 0
    runs.leave_processes = leave
    sys.exit(run(last))
