"""The commit log of a stream: committing, publishing, voiding."""
