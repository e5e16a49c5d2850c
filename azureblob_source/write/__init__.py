"""Rows become a batch that the log holds."""
