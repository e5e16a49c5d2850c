"""All features, in the order of the tables in docs/AZURE.md."""

from __future__ import annotations

from tests.features import backups, jobs, stores, streams

ALL = [*streams.FEATURES, *backups.FEATURES, *jobs.FEATURES, *stores.FEATURES]
