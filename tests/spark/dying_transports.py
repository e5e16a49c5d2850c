"""Bounded jobs that die before their end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from control_messages.spark import AzureBlobTransport, KafkaTransport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Died(Exception):  # noqa: N818 - as a process does
    pass


class _DiesBeforeTheEnd:
    """Writes rows, but no end: the job died between the two."""

    def append(self, envelopes: DataFrame) -> None:
        raise Died


@dataclass(frozen=True)
class DiesBeforeTheEnd(_DiesBeforeTheEnd, AzureBlobTransport):
    pass


@dataclass(frozen=True)
class KafkaDiesBeforeTheEnd(_DiesBeforeTheEnd, KafkaTransport):
    pass
