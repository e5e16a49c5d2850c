"""The stream's blobs become rows."""
