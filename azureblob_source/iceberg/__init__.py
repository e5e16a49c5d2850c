"""What Iceberg's readers need to read the data blobs of a stream as a table. Pure."""
