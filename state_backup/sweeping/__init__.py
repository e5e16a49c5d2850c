"""Blobs that no checkpoint needs: deleted by a sweep, or by a rule of the account."""
