"""What a snapshot of a directory consists of, as JSON, and how two differ. Pure."""
