"""Checkpoints of a stream's log, in Iceberg's format: what is live at a version, so that older entries are not read."""
