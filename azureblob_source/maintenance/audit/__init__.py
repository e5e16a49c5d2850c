"""Audit of a stream: whether each committed row is in exactly one visible blob, unaltered.

log ─► live blobs ─┐                                  ┌─► findings, what is pending
listing of names ──┴─► what differs ─► looked at again ┘        no byte of data is read
"""
