"""Directories on this machine: what is in them, and how a restored one is put in place."""
