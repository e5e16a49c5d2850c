"""The Spark format `azureblob`: exactly-once Avro block blobs in Azure Blob Storage.

`df.writeStream.format("azureblob")`, `df.write.format("azureblob")` and `spark.read.format("azureblob")` work as soon
as the package is installed. Importing this module imports neither Spark nor Azure.
"""
