"""`BlobService` on the Azure SDK.

It is imported when an account is connected, not before: the SDK takes half a second to import.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from azure.core import MatchConditions
from azure.storage.blob import BlobLeaseClient, BlobServiceClient, ContentSettings, StandardBlobTier

from azure_account.container import READ_CHUNK_BYTES
from azure_account.names import MAX_PUT_BYTES
from azure_account.options.authentication import SasToken
from azure_account.sdk.conditions import of_condition, of_etag
from azure_account.sdk.credentials import sdk_credential
from azure_account.sdk.failures import PastTheEnd, RequestContext, one_attempt
from azure_account.sdk.permissions import TAGGED
from azure_account.sdk.transport import NO_ETAG, AnswerDate, quiet_logs, transport
from azure_account.service import Page
from azure_account.values import BlobContent, BlobProperties

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from azure.storage.blob import BlobClient
    from azure.storage.blob import BlobProperties as SdkProperties

    from azure_account.options.settings import AccountSettings
    from azure_account.values import BlobAttributes, Bytes, Condition

PAGE_BLOBS = 5000
_BLOB_CLIENTS = 256
"""Clients of blobs that are kept: of those that are read or written again and again."""


class AzureBlobs:
    """The blob service of one account. Thread-safe; cannot be used in a forked process, nor pickled."""

    def __init__(self, settings: AccountSettings) -> None:
        quiet_logs()
        self._settings = settings
        self._client = BlobServiceClient(
            settings.blob_endpoint,
            credential=sdk_credential(settings),
            transport=transport(settings, settings.blob_endpoint),
            retry_total=0,
            max_single_put_size=MAX_PUT_BYTES,
            max_single_get_size=READ_CHUNK_BYTES,
            user_agent="pyspark-azureblob",
        )
        # To make the client of a blob takes a twelfth of the processor time of a request.
        self._blob: Callable[[str, str], BlobClient] = lru_cache(_BLOB_CLIENTS)(self._client.get_blob_client)
        limits = settings.timeouts
        # The HTTP library applies the connection timeout while it sends a body: uploads get the longer one there too.
        self._upload: dict[str, Any] = {"connection_timeout": limits.request, "read_timeout": limits.request}
        self._lease: dict[str, Any] = {"connection_timeout": limits.lease, "read_timeout": limits.lease}

    @property
    def account(self) -> str:
        return self._settings.account

    @property
    def blob_endpoint(self) -> str:
        return self._settings.blob_endpoint

    def create_container(self, container: str) -> None:
        with self._failures("create container", container):
            self._client.create_container(container)

    def container_exists(self, container: str) -> bool:
        with self._failures("check container", container):
            return self._client.get_container_client(container).exists()

    def stage_block(self, container: str, blob: str, block_id: str, data: Bytes) -> None:
        with self._failures("stage block", container, blob):
            body: Any = data  # the SDK declares `bytes`, but sends any buffer without a copy
            self._blob(container, blob).stage_block(block_id, body, length=_size(data), **self._upload)

    def commit_block_list(
        self, container: str, blob: str, block_ids: Sequence[str], attributes: BlobAttributes, condition: Condition
    ) -> str:
        with self._failures(f"commit block list{_tagged(attributes)}", container, blob):
            latest: list[Any] = list(block_ids)  # an id alone means the staged block, else the committed one
            answer = self._blob(container, blob).commit_block_list(
                latest,
                **_attributes(attributes),
                **of_condition(condition),
            )
            return _etag(answer["etag"])

    def put(
        self,
        container: str,
        blob: str,
        data: Bytes,
        attributes: BlobAttributes,
        condition: Condition,
        lease_id: str | None,
    ) -> str:
        with self._failures(f"put blob{_tagged(attributes)}", container, blob):
            answer = self._blob(container, blob).upload_blob(
                bytes(data),
                length=_size(data),
                overwrite=True,
                **_lease_option(lease_id),
                **_attributes(attributes),
                **of_condition(condition),
                **self._upload,
            )
            return _etag(answer["etag"])

    def get(self, container: str, blob: str, start: int, length: int, if_match: str | None) -> BlobContent:
        if length <= 0:
            return self._without_bytes(container, blob, if_match)
        date = AnswerDate()
        try:
            with self._failures("get blob", container, blob):
                answer = self._blob(container, blob).download_blob(
                    start, length, max_concurrency=1, decompress=False, raw_response_hook=date, **of_etag(if_match)
                )
                whole = replace(_properties(blob, answer.properties), size=_whole_size(answer.properties), tier=None)
                return _content(b"".join(answer.chunks()), whole, date)  # `readall` copies it once more
        except PastTheEnd:
            return self._without_bytes(container, blob, if_match)

    def properties(self, container: str, blob: str) -> BlobProperties:
        return self._without_bytes(container, blob, None).properties

    def age(self, container: str, blob: str) -> float:
        return self._without_bytes(container, blob, None).age

    def block_ids(self, container: str, blob: str) -> Sequence[str]:
        with self._failures("get block list of", container, blob):
            committed, _ = self._blob(container, blob).get_block_list("committed")
            return [block.id for block in committed]

    def list_page(
        self, container: str, prefix: str, start_from: str | None, marker: str | None, *, uncommitted: bool, tags: bool
    ) -> Page[BlobProperties]:
        """List Blobs, one page. Accounts with hierarchical namespace list folders as blobs; these are left out."""
        include = ["metadata", *(["uncommittedblobs"] if uncommitted else []), *(["tags"] if tags else [])]
        options: dict[str, Any] = {"start_from": start_from} if start_from else {}
        with self._failures(f"list blobs{TAGGED if tags else ''} of", container):
            pages = (
                self._client.get_container_client(container)
                .list_blobs(name_starts_with=prefix or None, include=include, results_per_page=PAGE_BLOBS, **options)
                .by_page(continuation_token=marker)
            )
            found = list(next(pages, ()))
        items = tuple(_properties(item.name, item) for item in found if not _is_folder(item))
        return Page(items, getattr(pages, "continuation_token", None) or None)

    def delete(self, container: str, blob: str, condition: Condition, lease_id: str | None) -> None:
        with self._failures("delete blob", container, blob):
            self._blob(container, blob).delete_blob(**_lease_option(lease_id), **of_condition(condition))

    def copy(self, container: str, blob: str, source: str, condition: Condition, source_etag: str) -> str | None:
        with self._failures("copy blob", container, blob):
            answer = self._blob(container, blob).start_copy_from_url(
                self._copy_source(container, source),
                source_etag=source_etag,
                source_match_condition=MatchConditions.IfNotModified,
                **of_condition(condition),
            )
            return _etag(answer["etag"]) if answer["copy_status"] == "success" else None

    def _copy_source(self, container: str, blob: str) -> str:
        """The URL of a source, with the account's SAS if that is the credential: others hold within an account."""
        url, auth = self._blob(container, blob).url, self._settings.auth
        return f"{url}?{auth.token.reveal()}" if isinstance(auth, SasToken) else url

    def undelete(self, container: str, blob: str) -> None:
        with self._failures("undelete blob", container, blob):
            self._blob(container, blob).undelete_blob()

    def tags(self, container: str, blob: str) -> Mapping[str, str]:
        with self._failures("get tags of", container, blob):
            return dict(self._blob(container, blob).get_blob_tags())

    def set_tags(self, container: str, blob: str, tags: Mapping[str, str]) -> None:
        with self._failures("set tags of", container, blob):
            self._blob(container, blob).set_blob_tags(dict(tags))

    def acquire_lease(self, container: str, blob: str, lease_id: str, seconds: int) -> str:
        with self._failures("acquire lease", container, blob):
            lease = BlobLeaseClient(self._blob(container, blob), lease_id)
            lease.acquire(lease_duration=seconds, **self._lease)
            return _etag(lease.etag)

    def renew_lease(self, container: str, blob: str, lease_id: str) -> str:
        with self._failures("renew lease", container, blob):
            lease = BlobLeaseClient(self._blob(container, blob), lease_id)
            lease.renew(**self._lease)
            return _etag(lease.etag)

    def release_lease(self, container: str, blob: str, lease_id: str) -> str:
        with self._failures("release lease", container, blob):
            lease = BlobLeaseClient(self._blob(container, blob), lease_id)
            lease.release(**self._lease)
            return _etag(lease.etag)

    def break_lease(self, container: str, blob: str) -> None:
        with self._failures("break lease", container, blob):
            BlobLeaseClient(self._blob(container, blob)).break_lease(lease_break_period=0, **self._lease)

    def _without_bytes(self, container: str, blob: str, if_match: str | None) -> BlobContent:
        date = AnswerDate()
        with self._failures("get properties of", container, blob):
            found = self._blob(container, blob).get_blob_properties(raw_response_hook=date, **of_etag(if_match))
            return _content(b"", _properties(blob, found), date)

    def _failures(self, operation: str, container: str, blob: str = "") -> AbstractContextManager[None]:
        target = f"{container}/{blob}" if blob else container
        return one_attempt(RequestContext(operation, target, self._settings), self._settings.timeouts.attempt)


def _content(data: bytes, blob: BlobProperties, date: AnswerDate) -> BlobContent:
    if not blob.etag:
        raise ValueError(NO_ETAG)
    return BlobContent(data, blob, (date.time() - blob.last_modified).total_seconds())


def _size(data: Bytes) -> int:
    return data.nbytes if isinstance(data, memoryview) else len(data)


def _attributes(attributes: BlobAttributes) -> dict[str, Any]:
    options: dict[str, Any] = {"metadata": dict(attributes.metadata)}
    if attributes.tags:
        options["tags"] = dict(attributes.tags)
    if attributes.tier is not None:
        options["standard_blob_tier"] = StandardBlobTier(attributes.tier)
    if attributes.content_type is not None:
        options["content_settings"] = ContentSettings(content_type=attributes.content_type)
    return options


def _tagged(attributes: BlobAttributes) -> str:
    return TAGGED if attributes.tags else ""


def _lease_option(lease_id: str | None) -> dict[str, Any]:
    return {} if lease_id is None else {"lease": lease_id}


def _etag(etag: object) -> str:
    """The ETag of an answer, on which later conditions depend."""
    if not etag:
        raise ValueError(NO_ETAG)
    return _quoted(etag)


def _quoted(etag: object) -> str:
    """An ETag with quotes, as in headers; listings have it without."""
    text = str(etag or "")
    return text if not text or text.startswith('"') else f'"{text}"'


def _whole_size(found: SdkProperties) -> int:
    """The blob's size, from `bytes 0-9/size`: after a ranged read the SDK's `size` is that of the range."""
    return int(str(found.content_range).rpartition("/")[2])


def _is_folder(item: SdkProperties) -> bool:
    return (item.metadata or {}).get("hdi_isfolder") == "true"


def _properties(name: str, found: SdkProperties) -> BlobProperties:
    etag = _quoted(found.etag)
    return BlobProperties(
        name=name,
        size=int(found.size or 0),
        etag=etag,
        last_modified=found.last_modified,
        metadata=dict(found.metadata or {}),
        tier=str(getattr(found.blob_tier, "value", found.blob_tier)) if found.blob_tier else None,
        content_type=found.content_settings.content_type,
        committed=bool(etag),
        leased=found.lease.state == "leased",
        tags=dict(found.tags or {}),
        lease_expired=found.lease.state == "expired",
        copy_status=found.copy.status,
    )
