"""Spark sessions on this machine, and the messages where Spark cannot start or fails."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from chainrule.base.memory import as_bytes
from chainrule.base.scratch import scratch_folder
from chainrule.errors import EstimationError, SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_JAVA = 17  # what Spark 4 needs
_ERROR = re.compile(r'(: |Caused by: |Exception in thread "[^"]*" )?([\w.]*(?:Error|Exception): .*)')
_DEFAULT_MEMORY, _LEAST_MEMORY = 2 << 30, 512 << 20  # what Spark itself asks for at least is 450 MB
_STANDARD_ERROR = 2
_MORE_MEMORY = (
    "give Java more, as in memory='4G'; a session of your own has spark.driver.memory and spark.executor.memory for it"
)
# By what Spark says in its errors. Exit code 52 is what its processes end with when Java's memory is full.
_ADVICE = (
    (re.compile(r"OutOfMemoryError|exited caused by .*\b52\b"), _MORE_MEMORY),
    (
        re.compile(r"Python worker exited unexpectedly|\bMemoryError\b"),
        "if the system ended it for lack of memory, take more shards, as in shards=32, or fewer workers",
    ),
)
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@contextmanager
def local_session(master: str = "local[2]", *, memory: int | str | None = None) -> Iterator[SparkSession]:
    """Yield a Spark session that ends with the block.

    master: local[2] has two workers here; spark://host:port is a cluster. memory: that of each Java process, such as
    '4G'; by default 2 GB for the one here, and the cluster's default for others. Nothing listens on addresses other
    than this machine's own. What Java prints goes to no screen. Raises SettingError where pyspark or Java is missing,
    where the master cannot be reached, and where this process has a session already.

    good:  with chainrule.spark.local_session("local[4]") as session: chainrule.spark.train(session, "corpus.txt")
    """
    size = as_bytes("memory", memory)
    if size is not None and size < _LEAST_MEMORY:
        raise SettingError(f"memory is {memory}; Java needs 512M or more")
    check_packages()
    check_java()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        raise SettingError("this process has a Spark session already; give it to the functions of chainrule.spark")
    builder = SparkSession.builder.master(master).appName("chainrule")
    settings = {
        "spark.driver.memory": f"{(size or _DEFAULT_MEMORY) >> 20}m",
        **({} if size is None else {"spark.executor.memory": f"{size >> 20}m"}),
        "spark.driver.maxResultSize": "0",  # no limit: the model itself comes to the driver
        "spark.task.maxDirectResultSize": str(100 << 20),  # not by way of the workers' storage, where it may be lost
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "1",  # which Java's memory holds although there is no page of them
        "spark.ui.retainedStages": "1",
        "spark.ui.retainedTasks": "1",
        "spark.sql.ui.retainedExecutions": "1",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),  # rows of counts are large
        "spark.serializer.objectStreamReset": "1",  # or Java's memory holds the last hundred blocks of rows
        "spark.python.daemon.module": "chainrule.features.spark.worker_daemon",
        "spark.local.dir": str(scratch_folder()),
        "spark.sql.warehouse.dir": os.path.join(scratch_folder(), "chainrule-spark"),  # never written
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        }
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark would take the first python3 of the path
    for name, value in settings.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryFile() as log, _quiet_interrupts():
        try:
            with _errors_to(log), _own_interrupts():  # of the Java process, as long as it lives
                session = builder.getOrCreate()
        except (PySparkException, Py4JError, RuntimeError, OSError) as error:
            log.seek(0)
            reason = cause_of(f"{log.read().decode(errors='replace')}\n{error}")
            raise SettingError(f"Spark cannot start with the master {master!r}: {reason}") from error
        try:
            yield session
        finally:
            _stop(session)


def _stop(session: SparkSession) -> None:
    """End a session, also one whose Java process has ended; what was raised before stays the error."""
    from py4j.protocol import Py4JError

    try:
        with warnings.catch_warnings(action="ignore"):  # pyspark warns that Java has ended, and then fails for that
            session.stop()
    except (Py4JError, OSError):
        _forget_java()


def _forget_java() -> None:
    """Let pyspark start another Java process: it asks the last one even where that has ended."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Leave Ctrl-C as it was: Spark's handler calls Java in the middle of another call, and prints how that failed."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _quiet_interrupts() -> Iterator[None]:
    """Keep py4j's record of each call that was interrupted off the screen."""

    def is_other(record: logging.LogRecord) -> bool:
        return not record.getMessage().endswith("while sending command.")

    loggers = logging.getLogger(), logging.getLogger("py4j.java_gateway"), logging.getLogger("py4j.clientserver")
    for logger in loggers:
        logger.addFilter(is_other)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_other)


@contextmanager
def _errors_to(file: IO[bytes]) -> Iterator[None]:
    """Let processes that start meanwhile write their errors into a file."""
    sys.stderr.flush()
    screen = os.dup(_STANDARD_ERROR)
    os.dup2(file.fileno(), _STANDARD_ERROR)
    try:
        yield
    finally:
        os.dup2(screen, _STANDARD_ERROR)
        os.close(screen)


def check_packages() -> None:
    """Raise SettingError where pyspark or pyarrow is missing."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise SettingError(
            f"Spark is not installed ({error}); install it: pip install 'chainrule[spark]' (460 MB), and Java {_JAVA}"
        ) from None


def check_java() -> None:
    """Raise SettingError where there is no Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    advice = f"install Java {_JAVA} (Debian, Ubuntu: apt install openjdk-{_JAVA}-jre-headless), or set JAVA_HOME"
    if java is None or not os.access(java, os.X_OK):
        raise SettingError(f"Spark needs Java, and there is none {f'in {home}' if home else 'here'}; {advice}")
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingError(f"{java}: cannot be run: {error}; {advice}") from error
    version = _JAVA_VERSION.search(answer)
    if version is None or int(version[1]) < _JAVA:
        raise SettingError(f"Spark needs Java {_JAVA} or later; {java} is {first_line(answer) or 'no Java'}; {advice}")


@contextmanager
def explain_failures(action: str) -> Iterator[None]:
    """Turn Spark's errors into an EstimationError of one line. action: what was done, such as "counting"."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        if _was_interrupted(error):
            raise KeyboardInterrupt from None
        reason = "Spark's Java process has ended, most likely for lack of memory"
        raise EstimationError(f"{action}: {reason}; {_MORE_MEMORY}") from error
    except (PySparkException, Py4JError) as error:
        cause = cause_of(error)
        advice = next((f"; {advice}" for sign, advice in _ADVICE if sign.search(f"{error}")), "")
        raise EstimationError(f"{action} failed on Spark: {cause}{advice}") from error


def _was_interrupted(error: BaseException | None) -> bool:
    """Return whether Ctrl-C is why a call of Java ended."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def cause_of(error: object) -> str:
    """Return the most informative line of a Spark error: the error of a Python worker, or the last cause that Java
    names.
    """
    named = [match for line in str(error).splitlines() if (match := _ERROR.match(line.strip()))]
    of_python = [match for match in named if not match[1] and not match[2].startswith(("org.", "java."))]
    return (of_python or named)[-1][2][:300] if named else first_line(error)


def first_line(error: object) -> str:
    """Return the first line of a message."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]
