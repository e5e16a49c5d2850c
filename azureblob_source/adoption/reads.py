"""The discoveries of a streaming read: before each trigger, and before the schema is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azureblob_source.adoption.adopter import Adopter, AdoptionSettings
from azureblob_source.options import EARLIEST

if TYPE_CHECKING:
    from azureblob_source.read.source import ReadPlan


def adopter_of(plan: ReadPlan) -> Adopter:
    """What discovers new blobs for a read that adopts its folder.

    Entries are within the limits of a trigger, since a micro-batch has whole entries.
    """
    options, most = plan.options, AdoptionSettings()
    version = options.starting_version
    settings = AdoptionSettings(
        start=options.starting_time or (version if isinstance(version, str) else EARLIEST),
        any_extension=options.any_extension,
        at_rest=options.min_blob_age,
        count_rows=options.count_rows,
        entry_blobs=min(options.max_blobs, most.entry_blobs),
        entry_bytes=min(options.max_bytes or most.entry_bytes, most.entry_bytes),
    )
    return Adopter(plan.log, settings)


def adopt_for_schema(plan: ReadPlan) -> None:
    """Begin the log before the schema of the read is asked for: it is that of what is adopted, or what may come."""
    if plan.options.avro_schema is not None:
        return
    adopter = adopter_of(plan)
    adopter.discover()
    head = plan.log.head()
    if head is not None and not head.schemas:
        plan.inferred = adopter.expected_schema()
