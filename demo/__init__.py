"""The demo: a year of flights through Spark Structured Streaming into Azure Blob Storage, and back."""
