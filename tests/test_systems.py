"""What one system has and another lacks is asked for in base/ alone, or where the system is asked first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import chainrule

PACKAGE = Path(chainrule.__file__).parent
# Calls and files that Windows or macOS lack, and what depends on the settings of a machine.
OF_ONE_SYSTEM = re.compile(
    r"os\.(fork|forkpty|wait|waitpid|kill|killpg|setsid|getuid|geteuid|getpgid|uname|sysconf|nice|mkfifo|mknod|chown)\b"
    r"|os\.(sched_\w+|posix_\w+|pread|pwrite|O_DIRECTORY)\b"
    r"|^\s*(import|from) (fcntl|resource|pwd|grp|termios|tty|pty|curses|readline|syslog|locale)\b"
    r"|signal\.(SIGKILL|SIGALRM|SIGUSR[12]|SIGHUP|SIGPIPE|SIGCHLD|alarm|setitimer|pause|pthread_kill)\b"
    r"|[\"']/(proc|sys|dev|tmp|etc)/|\blocale\.(get|set|str|atof|format)\w*\(|AF_UNIX|start_new_session|preexec_fn",
    re.MULTILINE,
)
# Opened as text in the encoding of the machine, which differs: UTF-8 is named everywhere.
WITHOUT_ENCODING = re.compile(r"\.(read_text|write_text)\((?![^)\n]*encoding)[^)\n]*\)$", re.MULTILINE)


def lines_with(pattern: re.Pattern[str], *, besides: str = "") -> list[str]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE)
        if besides and room.parts[0] == besides:
            continue
        text = path.read_text(encoding="utf-8")
        found += [
            f"{room.as_posix()}:{text.count(chr(10), 0, match.start()) + 1}: {match[0].strip()}"
            for match in pattern.finditer(text)
        ]
    return found


def test_only_base_calls_what_one_system_has() -> None:
    assert lines_with(OF_ONE_SYSTEM, besides="base") == []


def test_the_pattern_finds_what_it_should() -> None:
    assert {line.partition(":")[0] for line in lines_with(OF_ONE_SYSTEM)} >= {"base/files.py", "base/memory.py"}


@pytest.mark.parametrize(
    "line", ["import fcntl", "    import resource", "os.kill(process, 9)", "open('/proc/meminfo')"]
)
def test_each_kind_is_found(line: str) -> None:
    assert OF_ONE_SYSTEM.search(line)


def test_texts_are_read_and_written_as_utf8() -> None:
    assert lines_with(WITHOUT_ENCODING) == []
