"""The mark of a blob that no checkpoint has yet: an index tag, on which a lifecycle rule acts. Pure.

A lifecycle rule compares tags for equality and counts days by itself, so the tag says for how long, not until when.
"""

from __future__ import annotations

from azure_account.values import BlobAttributes

TAG, VALUE, DAYS = "azureblobTtl", "30d", 30
WITH_TTL = BlobAttributes(tags={TAG: VALUE})
WITHOUT_TAGS = BlobAttributes(metadata={TAG: VALUE})
"""For accounts, or identities, that cannot set tags. Nothing acts on it but people."""
