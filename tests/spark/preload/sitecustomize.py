"""Run by each Python of the tests' Spark when it starts: daemons import the packages, once for all workers they fork.

Otherwise every worker does so, and Spark forks one for each plan of a read, each write and each commit.
"""

import sys

if "pyspark.daemon" in sys.orig_argv:
    import azure_account.sdk.blobs  # noqa: F401
    import azureblob_source.read.split_reader
    import azureblob_source.read.stream_source
    import azureblob_source.write.batch
    import azureblob_source.write.planning
    import azureblob_source.write.staging  # noqa: F401
