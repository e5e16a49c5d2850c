"""Entries that say where rows are from now on: of compactions, reverts and restores."""
