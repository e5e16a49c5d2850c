"""Run by each Python of the tests' Spark when it starts: daemons import the packages, once for all workers they fork.

Otherwise every worker does so, and Spark forks one for each plan of a read, each write and each commit.
"""

import sys

if "pyspark.daemon" in sys.orig_argv:
    import azureblob_source.read.source
    import azureblob_source.write.sink  # noqa: F401
