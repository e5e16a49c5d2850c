"""The commit log: what a stream consists of."""
