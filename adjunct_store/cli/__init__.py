"""The command line. Needs the extra `cli`."""
