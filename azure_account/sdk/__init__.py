"""The adapters on the official SDK: the only modules that import it."""
