"""The job model in the leased blob, as a processor has read or published it last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from azure_account.values import Done
from coordination.processors.job_model import from_content, to_content

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordination.leadership.lease import Lease, Term
    from coordination.processors.job_model import PublishedModel
    from coordination.waits import Waits


@dataclass(frozen=True)
class ModelReading:
    """What the leased blob has. etag: empty if there is no blob."""

    epoch: int = 0
    published: PublishedModel | None = None
    etag: str = ""


class ModelBlob:
    """Reads and writes the model. Not thread-safe."""

    def __init__(self, lease: Lease, waits: Waits) -> None:
        self._lease, self._waits = lease, waits
        self.last: ModelReading = ModelReading()
        self._content: Mapping[str, Any] | None = None
        """The fields from which `last` was parsed."""
        self._own: int | None = None
        """The epoch in which this processor has written what is in `last`."""

    def read(self, term: Term | None) -> ModelReading:
        """Read the blob. A leader does not read what it has written: nobody else can write it during its term."""
        if term is not None and self._own == term.epoch:
            return self.last
        with self._waits.on(f"blob {self._lease.target}"):
            found = self._lease.read()
        if found is None:
            self.last, self._content, self._own = ModelReading(), None, None
            return self.last
        document, etag = found
        published = self.last.published
        if document.content is not self._content:  # parsed only when it is another one: it may have thousands of tasks
            published, self._content = from_content(document.content, self._lease.target), document.content
        self.last = ModelReading(document.epoch, published, etag)
        self._own = term.epoch if term is not None and document.lease_id == term.lease_id else None
        return self.last

    def publish(self, term: Term, published: PublishedModel, etag: str) -> bool:
        """Write the model, if the blob is the one of this ETag. Whether that is known to be done."""
        self._own = None
        answer = self._lease.write(term, to_content(published), etag)
        if not isinstance(answer, Done):
            return False
        self.last, self._content, self._own = ModelReading(term.epoch, published, answer.etag), None, term.epoch
        return True
