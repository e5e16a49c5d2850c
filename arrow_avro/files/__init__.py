"""The container file: header, blocks, codecs, and where a file can be split."""
