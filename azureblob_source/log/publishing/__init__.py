"""The blobs of a log entry become visible, or the entry is voided; any process may finish what another has begun."""
