"""Maintenance of streams: inventory, tail, repair, vacuum."""
