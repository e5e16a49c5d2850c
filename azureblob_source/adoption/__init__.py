"""Folders that other programs have written: their blobs are adopted by a log, which names them where they are.

listing ─► discovery ─► headers ─► entries ─► put, if no other discovery was first
"""
