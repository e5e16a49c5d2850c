"""Bytes of files to blobs and back: in parallel, in blocks, with bounded memory; and whole directories."""
