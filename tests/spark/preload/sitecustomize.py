"""Run by each Python of the tests' Spark when it starts: daemons import the packages, once for all workers they fork.

Otherwise every worker does so, and Spark forks one for each plan of a read, each write and each commit. Not on Python
3.13: there a worker that has nothing left to import finds no data source. Spark clears the caches of importers, and
`pkgutil` fails with a KeyError for a zip file that nobody has looked into since.
"""

import sys

if "pyspark.daemon" in sys.orig_argv and sys.version_info < (3, 13):
    import azure_account.sdk.blobs  # noqa: F401
    import azureblob_source.read.split_reader
    import azureblob_source.read.stream_source
    import azureblob_source.write.batch
    import azureblob_source.write.planning
    import azureblob_source.write.staging  # noqa: F401
