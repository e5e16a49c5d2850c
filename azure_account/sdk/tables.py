"""`TableService` on the Azure SDK."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from azure.data.tables import EdmType, EntityProperty, TableClient, UpdateMode

from azure_account.sdk.conditions import of_etag
from azure_account.sdk.credentials import sdk_credential
from azure_account.sdk.failures import RequestContext, no_place, one_attempt
from azure_account.sdk.transport import NO_ETAG, AnswerDate, quiet_logs, transport
from azure_account.service import Absent, Page
from azure_account.values import Entity
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime

    from azure.data.tables import TableEntity

    from azure_account.options.settings import AccountSettings

PAGE_ENTITIES = 1000


class AzureTables:
    """The table service of one account. Thread-safe; cannot be used in a forked process, nor pickled."""

    def __init__(self, settings: AccountSettings) -> None:
        quiet_logs()
        credential = sdk_credential(settings)
        if settings.table_endpoint is None:
            raise ConfigurationError(
                f"The table endpoint of {settings.blob_endpoint} is not known: give tableEndpoint."
            )
        if credential is None:
            raise ConfigurationError("Tables allow no anonymous access: choose another auth.")
        self._settings, self._credential = settings, credential
        self._endpoint, self._transport = settings.table_endpoint, transport(settings, settings.table_endpoint)
        self._clients: dict[str, TableClient] = {}

    def create_table(self, table: str) -> None:
        with self._failures("create table", table):
            self._table(table).create_table()

    def insert_entity(self, table: str, entity: Entity) -> str:
        with self._failures("insert entity", table, entity.partition_key, entity.row_key):
            return _etag(self._table(table).create_entity(_row(entity)))

    def replace_entity(self, table: str, entity: Entity, if_match: str | None) -> str:
        operation = "insert or replace entity" if if_match is None else "replace entity"
        with self._failures(operation, table, entity.partition_key, entity.row_key):
            if if_match is None:
                return _etag(self._table(table).upsert_entity(_row(entity), mode=UpdateMode.REPLACE))
            return _etag(self._table(table).update_entity(_row(entity), mode=UpdateMode.REPLACE, **of_etag(if_match)))

    def get_entity(self, table: str, partition_key: str, row_key: str) -> Entity:
        with self._failures("get entity", table, partition_key, row_key):
            date = AnswerDate()
            found = self._table(table).get_entity(partition_key, row_key, raw_response_hook=date)
            return _entity(found, date.time())

    def query_page(self, table: str, partition_key: str | None, marker: str | None) -> Page[Entity]:
        with self._failures("query entities", table):
            client, date = self._table(table), AnswerDate()
            items = (
                client.list_entities(results_per_page=PAGE_ENTITIES, raw_response_hook=date)
                if partition_key is None
                else client.query_entities(
                    "PartitionKey eq @key",
                    parameters={"key": partition_key},
                    results_per_page=PAGE_ENTITIES,
                    raw_response_hook=date,
                )
            )
            pages = items.by_page(continuation_token=marker)
            found = tuple(_entity(row, date.time()) for row in next(pages, ()))
        return Page(found, getattr(pages, "continuation_token", None) or None)

    def delete_entity(self, table: str, partition_key: str, row_key: str, if_match: str | None) -> None:
        """Delete Entity. The SDK does not report that the entity is absent, so the answer's status is checked here."""
        answers: list[Any] = []
        with self._failures("delete entity", table, partition_key, row_key):
            self._table(table).delete_entity(
                partition_key,
                row_key,
                raw_response_hook=lambda answer: answers.append(answer.http_response),
                **of_etag(if_match),
            )
            if answers and answers[-1].status_code == HTTPStatus.NOT_FOUND:
                if "TableNotFound" in answers[-1].text():
                    context = RequestContext("delete entity", table, self._settings, tables=True)
                    raise no_place("404 TableNotFound", context)
                raise Absent("404 ResourceNotFound")

    def _table(self, table: str) -> TableClient:
        """The client of a table, which threads share.

        Not one of a `TableServiceClient`: those share their policies, and each new one links these to a chain of its
        own, which breaks the chain for a thread that sends a request.
        """
        client = self._clients.get(table)
        if client is None:
            options: dict[str, Any] = {f"retry_{kind}": 0 for kind in ("total", "connect", "read", "status")}
            client = TableClient(
                self._endpoint,
                table,
                credential=self._credential,
                transport=self._transport,
                user_agent="pyspark-azureblob",
                **options,
            )
        return self._clients.setdefault(table, client)  # of two threads that have made one, both take the first one

    def _failures(self, operation: str, table: str, *keys: str) -> AbstractContextManager[None]:
        context = RequestContext(operation, "/".join((table, *keys)), self._settings, tables=True)
        return one_attempt(context, self._settings.timeouts.attempt)


def _row(entity: Entity) -> dict[str, Any]:
    row: dict[str, Any] = {"PartitionKey": entity.partition_key, "RowKey": entity.row_key}
    for name, value in entity.properties.items():
        wide = isinstance(value, int) and not isinstance(value, bool) and not -(2**31) <= value < 2**31
        row[name] = EntityProperty(value, EdmType.INT64) if wide else value
    return row


def _entity(row: TableEntity, now: datetime) -> Entity:
    properties = {
        name: value.value if isinstance(value, EntityProperty) else value
        for name, value in row.items()
        if name not in {"PartitionKey", "RowKey"}
    }
    return Entity(row["PartitionKey"], row["RowKey"], properties, str(row.metadata.get("etag") or ""), _age(row, now))


def _age(row: TableEntity, now: datetime) -> float | None:
    """The answer's date has whole seconds, the time stamp has fractions."""
    written = row.metadata.get("timestamp")
    return None if written is None else max(0.0, (now - written).total_seconds())


def _etag(answer: Mapping[str, Any]) -> str:
    if not answer.get("etag"):
        raise ValueError(NO_ETAG)
    return str(answer["etag"])
