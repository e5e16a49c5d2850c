"""Whether Spark still has a plan: a DataFrame that was forgotten cannot be read any more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

logger = logging.getLogger("adjunct_store")


def has_plan(mapped: DataFrame) -> Callable[[], bool]:
    """A function that returns True as long as Spark may run the function of `mapInArrow` that made this DataFrame.

    All plans, cached data and RDDs that need it share one object of the JVM, which has no other owner: they are gone
    when the JVM has collected that object. If this cannot be observed, the function always returns True.
    """
    try:
        java: Any = mapped.sparkSession._jvm  # noqa: SLF001 - only the JVM knows
        function = mapped._jdf.queryExecution().logical().functionExpr().func()  # noqa: SLF001
        reference = java.java.lang.ref.WeakReference(function)
    except (AttributeError, Py4JError) as error:
        logger.info("The pin of a DataFrame stays until the process ends: %s", error)
        return lambda: True

    def is_there() -> bool:
        try:
            return not reference.refersTo(None)  # `get` would hold it until Python tells the JVM of its own garbage
        except (OSError, Py4JError):  # the JVM does not answer
            return True

    return is_there
