"""What Spark's Python workers have imported is not searched for garbage again."""

from __future__ import annotations

import gc
import sys

_WORKERS = frozenset({"pyspark.daemon", "pyspark.worker"})
_kept = 0


def keep_modules() -> None:
    """Called where a task begins, once it has imported what it needs. Does nothing in other processes than workers.

    With the SDK and what Spark imports, a collection takes 50 ms, and without them 1 ms. What is garbage now would be
    kept as well, for as long as the worker lives, so it is collected first.
    """
    global _kept  # noqa: PLW0603 - of the process
    if len(sys.modules) != _kept and not _WORKERS.isdisjoint(sys.orig_argv):
        _kept = len(sys.modules)
        gc.collect()
        gc.freeze()
