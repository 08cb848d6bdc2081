"""What is said of Spark's errors; no Java is needed."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pip install 'chainrule[spark]'")

from py4j.protocol import Py4JNetworkError

from chainrule.errors import EstimationError
from chainrule.spark.session import cause_of, explain_failures


def test_the_cause_is_an_exception_and_no_warning_before_it() -> None:
    log = (
        "WARNING: Using incubator modules: jdk.incubator.vector\n"
        'Exception in thread "main" org.apache.spark.SparkException: Master must start with local\n'
        "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)\n"
    )
    assert cause_of(log) == "org.apache.spark.SparkException: Master must start with local"
    assert cause_of(f"{log}chainrule.errors.TextError: line 3\n") == "chainrule.errors.TextError: line 3"


def test_a_call_of_java_that_ctrl_c_ended_is_no_failure() -> None:
    with pytest.raises(EstimationError, match="too little memory"), explain_failures("counting"):
        raise Py4JNetworkError("Answer from Java side is empty")
    interrupted = Py4JNetworkError("Error while sending")
    interrupted.__context__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), explain_failures("counting"):
        raise interrupted
