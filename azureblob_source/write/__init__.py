"""The write path: rows become a committed batch."""
