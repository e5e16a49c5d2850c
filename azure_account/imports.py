"""Modules in Spark's Python workers, which collect all garbage after every task."""

from __future__ import annotations

import gc
import sys

_WORKERS = frozenset({"pyspark.daemon", "pyspark.worker"})
_kept_modules = 0


def keep_modules() -> None:
    """In a worker of Spark: what has been imported so far is not searched for garbage again.

    With the SDK and what Spark imports, such a collection takes 50 ms, and without them 1 ms. In other processes
    nothing changes, since garbage that is there now is kept as well.
    """
    global _kept_modules  # noqa: PLW0603 - of the process
    if len(sys.modules) != _kept_modules and not _WORKERS.isdisjoint(sys.orig_argv):
        _kept_modules = len(sys.modules)
        gc.freeze()
