"""The demo: Spark Structured Streaming writes a year of flights to Azure Blob Storage, and all are read back."""
