"""The read path: the live blobs of a stream become rows."""
