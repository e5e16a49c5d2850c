"""The contract of `StorageAccount`: a module that imports these classes runs them on its fixture `account`.

`memory/test_account.py` does so for the in-memory account, `sdk/test_azurite.py` for Azurite.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest

from azure_account.account import StorageAccount
from azure_account.container import BlobContainer
from azure_account.memory.service import ServiceAssumptions
from azure_account.table import Table
from azure_account.values import IF_ABSENT, BlobAttributes, Condition, Conflict, Done, Entity, Missing, Outcome
from foundation.errors import ConfigurationError, ConflictError, NotFoundError

STALE = Condition(if_match='"0x1"')


def etag_of(outcome: Outcome) -> str:
    assert isinstance(outcome, Done)
    assert outcome.etag
    return outcome.etag


def names_of(container: BlobContainer, prefix: str = "", **options: object) -> list[str]:
    return [blob.name for blob in container.list(prefix, **options)]  # type: ignore[arg-type]


def observed_behaviour(container: BlobContainer) -> ServiceAssumptions:
    """How an account behaves where accounts may differ, as far as a test can find out without waiting."""
    container.put("taken", b"-")
    listed = container.commit_block_list("taken", ["gone"], condition=IF_ABSENT)
    container.put("deleted", b"-")
    container.stage_block("deleted", "01", b"data")
    container.delete("deleted")
    return ServiceAssumptions(
        list_before_condition=isinstance(listed, Missing),
        delete_keeps_blocks=isinstance(container.commit_block_list("deleted", ["01"]), Done),
    )


class TestContainer:
    def test_a_container_is_created_once(self, account: StorageAccount) -> None:
        container = account.container(f"c{uuid.uuid4().hex}")
        assert container.exists() is False
        assert container.create() is True
        assert container.create() is False
        assert container.exists() is True

    def test_a_missing_container_is_named_in_the_error(self, account: StorageAccount) -> None:
        container = account.container("no-such-container")
        with pytest.raises(NotFoundError, match="no-such-container"):
            container.stage_block("a", "1", b"x")
        with pytest.raises(NotFoundError, match="no-such-container"):
            container.put("a", b"x")
        with pytest.raises(NotFoundError, match="no-such-container"):
            container.properties("a")
        with pytest.raises(NotFoundError, match="no-such-container"):
            names_of(container)

    @pytest.mark.parametrize("name", ["ab", "Upper", "two--hyphens", "-begin", "end-", "under_score", "x" * 64, ""])
    def test_an_invalid_container_name_is_refused(self, account: StorageAccount, name: str) -> None:
        with pytest.raises(ConfigurationError, match="Container name"):
            account.container(name)

    @pytest.mark.parametrize("name", ["", "x" * 1025, "a/../b", "./a", "a\nb"])
    def test_an_invalid_blob_name_is_refused(self, container: BlobContainer, name: str) -> None:
        with pytest.raises(ConfigurationError, match="Blob name"):
            container.put(name, b"")


class TestBlocks:
    def test_an_uncommitted_blob_is_listed_only_on_request(self, container: BlobContainer) -> None:
        container.stage_block("blob", "01", b"data")
        assert container.properties("blob") is None
        assert [] == names_of(container)
        [listed] = container.list(uncommitted=True)
        assert ("blob", 0, "", False) == (listed.name, listed.size, listed.etag, listed.committed)

    def test_an_empty_blob_is_listed_as_committed(self, container: BlobContainer) -> None:
        etag = etag_of(container.put("empty", b""))
        [listed] = container.list(uncommitted=True)
        assert (etag, True) == (listed.etag, listed.committed)

    def test_a_committed_blob_has_its_blocks_in_the_order_of_the_list(self, container: BlobContainer) -> None:
        for block_id, data in (("01", b"a"), ("02", b"b"), ("03", b"c")):
            container.stage_block("blob", block_id, data)
        etag = etag_of(container.commit_block_list("blob", ["03", "01"]))
        content = container.get("blob")
        assert (b"ca", 2, etag) == (content.data, content.properties.size, content.properties.etag)

    def test_any_buffer_can_be_staged(self, container: BlobContainer) -> None:
        container.stage_block("blob", "01", bytearray(b"ab"))
        container.stage_block("blob", "02", memoryview(b"xcdx")[1:3])
        container.commit_block_list("blob", ["01", "02"])
        assert b"abcd" == container.get("blob").data

    def test_a_block_can_be_staged_again(self, container: BlobContainer) -> None:
        container.stage_block("blob", "01", b"old")
        container.stage_block("blob", "01", b"new")
        container.commit_block_list("blob", ["01"])
        assert b"new" == container.get("blob").data

    def test_the_same_list_can_be_committed_again(self, container: BlobContainer) -> None:
        container.stage_block("blob", "01", b"data")
        first = etag_of(container.commit_block_list("blob", ["01"]))
        second = etag_of(container.commit_block_list("blob", ["01"]))
        assert b"data" == container.get("blob").data
        assert first != second

    def test_a_commit_drops_the_staged_blocks_that_it_does_not_name(self, container: BlobContainer) -> None:
        container.stage_block("blob", "01", b"mine")
        container.stage_block("blob", "02", b"theirs")
        container.commit_block_list("blob", ["01"])
        assert isinstance(container.commit_block_list("blob", ["02"]), Missing)
        assert b"mine" == container.get("blob").data

    def test_a_commit_with_an_unknown_block_changes_nothing(self, container: BlobContainer) -> None:
        container.stage_block("blob", "01", b"data")
        assert isinstance(container.commit_block_list("blob", ["01", "99"]), Missing)
        assert container.properties("blob") is None
        assert isinstance(container.commit_block_list("blob", ["01"]), Done)

    def test_a_commit_if_absent_is_done_once(self, container: BlobContainer) -> None:
        container.stage_block("blob", "01", b"data")
        assert isinstance(container.commit_block_list("blob", ["01"], condition=IF_ABSENT), Done)
        assert isinstance(container.commit_block_list("blob", ["01"], condition=IF_ABSENT), Conflict)

    def test_the_block_ids_of_a_blob_are_those_of_its_last_commit(self, container: BlobContainer) -> None:
        assert [] == list(container.block_ids("blob"))
        for block in ("b-00001", "b-00000"):
            container.stage_block("blob", block, b"data")
        container.commit_block_list("blob", ["b-00001", "b-00000"])
        assert ["b-00001", "b-00000"] == list(container.block_ids("blob"))
        container.put("whole", b"data")
        assert [] == list(container.block_ids("whole"))

    def test_block_ids_of_a_blob_have_one_length(self, container: BlobContainer) -> None:
        container.stage_block("blob", "01", b"data")
        with pytest.raises(ConfigurationError, match="one length"):
            container.stage_block("blob", "001", b"data")

    @pytest.mark.parametrize("block_id", ["", "x" * 65, "with space", "\u00e9"])
    def test_an_invalid_block_id_is_refused(self, container: BlobContainer, block_id: str) -> None:
        with pytest.raises(ConfigurationError, match="Block id"):
            container.stage_block("blob", block_id, b"data")

    def test_an_empty_block_is_refused(self, container: BlobContainer) -> None:
        with pytest.raises(ConfigurationError, match="0 bytes"):
            container.stage_block("blob", "01", b"")

    def test_more_than_fifty_thousand_blocks_are_refused(self, container: BlobContainer) -> None:
        with pytest.raises(ConfigurationError, match="50,000"):
            container.commit_block_list("blob", ["01"] * 50_001)


class TestBlobs:
    def test_a_blob_is_read_as_it_was_put(self, container: BlobContainer) -> None:
        etag = etag_of(container.put("a/b c/\u00fc%20+?#.avro", b"data"))
        content = container.get("a/b c/\u00fc%20+?#.avro")
        assert (b"data", 4, etag) == (content.data, content.properties.size, content.properties.etag)
        assert ["a/b c/\u00fc%20+?#.avro"] == names_of(container)

    def test_attributes_are_stored(self, container: BlobContainer) -> None:
        attributes = BlobAttributes({"writer_id": "w 1"}, {"state": "new"}, "Cool", "application/avro")
        container.stage_block("committed", "01", b"data")
        container.commit_block_list("committed", ["01"], attributes)
        container.put("put", b"data", attributes)
        for name in ("committed", "put"):
            found = container.properties(name)
            assert found is not None
            assert ({"writer_id": "w 1"}, "Cool", "application/avro") == (
                found.metadata,
                found.tier,
                found.content_type,
            )
            assert {"state": "new"} == container.tags(name)
        assert [{"writer_id": "w 1"}] * 2 == [blob.metadata for blob in container.list()]

    def test_a_write_replaces_the_attributes(self, container: BlobContainer) -> None:
        container.put("blob", b"1", BlobAttributes({"a": "1"}, {"t": "1"}))
        container.put("blob", b"2")
        found = container.properties("blob")
        assert found is not None
        assert ({}, {}) == (found.metadata, container.tags("blob"))

    def test_the_age_of_a_blob_is_measured_by_the_clock_of_the_service(self, container: BlobContainer) -> None:
        assert container.age("blob") is None
        container.put("blob", b"1")
        age = container.age("blob")
        assert age is not None
        assert 0 <= age < 60
        assert age <= container.get("blob").age < 60
        assert age <= container.get("blob", 0, 0).age < 60
        assert age <= container.get("blob", 1).age < 60

    def test_last_modified_has_a_time_zone(self, container: BlobContainer) -> None:
        container.put("blob", b"1")
        found = container.properties("blob")
        assert found is not None
        assert found.last_modified.utcoffset() is not None
        assert found.last_modified > datetime(2020, 1, 1, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [(0, None, b"0123456789"), (3, 4, b"3456"), (7, None, b"789"), (7, 100, b"789"), (10, 5, b""), (0, 0, b"")],
    )
    def test_a_range_is_cut_at_the_end(
        self, container: BlobContainer, start: int, length: int | None, expected: bytes
    ) -> None:
        container.put("blob", b"0123456789")
        content = container.get("blob", start, length)
        assert (expected, 10) == (content.data, content.properties.size)

    def test_an_empty_blob_is_read(self, container: BlobContainer) -> None:
        container.put("blob", b"")
        assert b"" == container.get("blob").data

    def test_a_blob_larger_than_one_request_is_read_whole(
        self, container: BlobContainer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("azure_account.container.READ_CHUNK_BYTES", 4)
        container.put("blob", b"0123456789")
        assert b"0123456789" == container.get("blob").data
        assert b"12345678" == container.get("blob", 1, 8).data

    def test_reading_an_absent_blob_is_an_error_that_names_it(self, container: BlobContainer) -> None:
        with pytest.raises(NotFoundError, match="absent"):
            container.get("absent")
        with pytest.raises(NotFoundError, match="absent"):
            container.tags("absent")
        assert container.properties("absent") is None

    def test_reading_another_version_is_a_conflict(self, container: BlobContainer) -> None:
        etag = etag_of(container.put("blob", b"1"))
        assert b"1" == container.get("blob", if_match=etag).data
        container.put("blob", b"2")
        with pytest.raises(ConflictError):
            container.get("blob", if_match=etag)

    def test_a_put_if_absent_is_done_once(self, container: BlobContainer) -> None:
        assert isinstance(container.put("blob", b"1", condition=IF_ABSENT), Done)
        assert isinstance(container.put("blob", b"2", condition=IF_ABSENT), Conflict)
        assert b"1" == container.get("blob").data

    def test_a_put_if_match_replaces_only_that_version(self, container: BlobContainer) -> None:
        etag = etag_of(container.put("blob", b"1"))
        assert isinstance(container.put("blob", b"x", condition=STALE), Conflict)
        assert isinstance(container.put("blob", b"2", condition=Condition(if_match=etag)), Done)
        assert isinstance(container.put("blob", b"3", condition=Condition(if_match=etag)), Conflict)
        assert b"2" == container.get("blob").data

    def test_if_match_star_is_true_for_any_version(self, container: BlobContainer) -> None:
        container.put("blob", b"1")
        assert isinstance(container.put("blob", b"2", condition=Condition(if_match="*")), Done)

    def test_a_put_if_match_of_an_absent_blob_is_a_conflict(self, container: BlobContainer) -> None:
        assert isinstance(container.put("blob", b"x", condition=STALE), Conflict)

    def test_the_etag_of_a_listing_can_be_the_condition_of_a_write(self, container: BlobContainer) -> None:
        etag = etag_of(container.put("blob", b"1"))
        [listed] = container.list()
        assert etag == listed.etag
        assert isinstance(container.delete("blob", condition=Condition(if_match=listed.etag)), Done)

    def test_a_delete_if_match_keeps_another_version(self, container: BlobContainer) -> None:
        container.put("blob", b"1")
        assert isinstance(container.delete("blob", condition=STALE), Conflict)
        assert b"1" == container.get("blob").data

    def test_a_second_delete_is_missing(self, container: BlobContainer) -> None:
        container.put("blob", b"1")
        assert Done() == container.delete("blob")
        assert isinstance(container.delete("blob"), Missing)

    def test_deleting_an_uncommitted_blob_drops_its_blocks(self, container: BlobContainer) -> None:
        container.stage_block("blob", "01", b"data")
        assert Done() == container.delete("blob")
        assert [] == list(container.list(uncommitted=True))

    def test_setting_tags_removes_those_that_are_not_given(self, container: BlobContainer) -> None:
        container.put("blob", b"1", BlobAttributes(tags={"a": "1"}))
        assert isinstance(container.set_tags("blob", {"b": "x/y=z"}), Done)
        assert {"b": "x/y=z"} == container.tags("blob")
        assert isinstance(container.set_tags("absent", {}), Missing)

    def test_tags_are_listed_only_on_request(self, container: BlobContainer) -> None:
        container.put("a", b"1", BlobAttributes(tags={"a": "1", "b": "x/y=z"}))
        container.put("b", b"1")
        container.stage_block("c", "01", b"1")
        assert [{}, {}] == [blob.tags for blob in container.list()]
        assert [{"a": "1", "b": "x/y=z"}, {}] == [blob.tags for blob in container.list(tags=True)]
        assert ["a", "b", "c"] == [blob.name for blob in container.list(uncommitted=True, tags=True)]

    @pytest.mark.parametrize(
        "tags",
        [{f"k{n}": "" for n in range(11)}, {"k": "\u00e9"}, {"k,": ""}, {"": "v"}, {"k" * 129: ""}, {"k": "v" * 257}],
    )
    def test_tags_beyond_the_limits_are_refused(self, container: BlobContainer, tags: dict[str, str]) -> None:
        with pytest.raises(ConfigurationError, match="tag"):
            container.put("blob", b"1", BlobAttributes(tags=tags))

    @pytest.mark.parametrize(
        "metadata", [{"with-hyphen": ""}, {"1a": ""}, {"a": "\u00e9"}, {"a": " x"}, {"a": "1", "A": "2"}]
    )
    def test_metadata_beyond_the_limits_is_refused(self, container: BlobContainer, metadata: dict[str, str]) -> None:
        with pytest.raises(ConfigurationError, match="Metadata"):
            container.put("blob", b"1", BlobAttributes(metadata))

    def test_an_unknown_tier_is_refused(self, container: BlobContainer) -> None:
        with pytest.raises(ConfigurationError, match="Lukewarm"):
            container.put("blob", b"1", BlobAttributes(tier="Lukewarm"))


class TestCopies:
    def test_a_copy_has_the_bytes_blocks_and_metadata_of_its_source(self, container: BlobContainer) -> None:
        for block, data in (("0", b"da"), ("1", b"ta")):
            container.stage_block("a/source %.avro", block, data)
        container.commit_block_list("a/source %.avro", ["0", "1"], BlobAttributes({"k": "v"}, {"tag": "t"}))
        source = container.properties("a/source %.avro")
        assert source is not None
        etag = etag_of(container.copy("a/_kept/é+.avro", source.name, source_etag=source.etag, condition=IF_ABSENT))
        copy = container.get("a/_kept/é+.avro")
        assert (b"data", {"k": "v"}, etag) == (copy.data, dict(copy.properties.metadata), copy.properties.etag)
        assert ["0", "1"] == list(container.block_ids("a/_kept/é+.avro"))
        found = container.properties("a/_kept/é+.avro")
        assert found is not None
        assert "success" == found.copy_status
        assert b"data" == container.get(source.name).data

    def test_a_copy_if_absent_is_made_once(self, container: BlobContainer) -> None:
        etag = etag_of(container.put("source", b"data"))
        container.put("there", b"other")
        assert isinstance(container.copy("there", "source", source_etag=etag, condition=IF_ABSENT), Conflict)
        there = etag_of(container.put("there", b"newer"))
        assert isinstance(container.copy("there", "source", source_etag=etag, condition=STALE), Conflict)
        assert b"newer" == container.get("there").data
        etag_of(container.copy("there", "source", source_etag=etag, condition=Condition(if_match=there)))
        assert b"data" == container.get("there").data

    def test_another_version_of_the_source_is_not_copied(self, container: BlobContainer) -> None:
        container.put("source", b"data")
        assert isinstance(container.copy("copy", "source", source_etag='"0x1"'), Conflict)
        assert isinstance(container.copy("copy", "no source", source_etag='"0x1"'), Missing)
        assert container.properties("copy") is None


class TestUndelete:
    """For an account with soft delete, and without versioning."""

    def test_a_deleted_blob_comes_back_with_all_that_it_had(self, container: BlobContainer) -> None:
        container.put("a/blob", b"data", BlobAttributes(metadata={"k": "v"}, tags={"t": "1"}))
        assert isinstance(container.delete("a/blob"), Done)
        assert [] == names_of(container, uncommitted=True)
        assert container.properties("a/blob") is None
        assert isinstance(container.undelete("a/blob"), Done)
        content = container.get("a/blob")
        assert (b"data", {"k": "v"}) == (content.data, content.properties.metadata)
        assert {"t": "1"} == container.tags("a/blob")
        assert ["a/blob"] == names_of(container)

    def test_a_blob_that_was_never_there_is_missing(self, container: BlobContainer) -> None:
        assert isinstance(container.undelete("never"), Missing)

    def test_a_blob_that_is_there_stays_as_it_is(self, container: BlobContainer) -> None:
        container.put("blob", b"old")
        container.delete("blob")
        container.put("blob", b"new")
        assert isinstance(container.undelete("blob"), Done)
        assert b"new" == container.get("blob").data


class TestListing:
    def test_a_listing_is_in_name_order_and_by_prefix(self, container: BlobContainer) -> None:
        for name in ("b/2", "a/1", "b/1", "b/10", "c"):
            container.put(name, b"x")
        assert ["a/1", "b/1", "b/10", "b/2", "c"] == names_of(container)
        assert ["b/1", "b/10", "b/2"] == names_of(container, "b/")
        assert [] == names_of(container, "z")

    def test_a_listing_starts_at_a_name_which_is_included(self, container: BlobContainer) -> None:
        for name in ("log/1", "log/2", "log/3", "other"):
            container.put(name, b"x")
        assert ["log/2", "log/3"] == names_of(container, "log/", start_from="log/2")
        assert ["log/3"] == names_of(container, "log/", start_from="log/25")

    def test_a_listing_has_many_pages(self, container: BlobContainer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("azure_account.memory.service.PAGE_BLOBS", 2)
        monkeypatch.setattr("azure_account.sdk.blobs.PAGE_BLOBS", 2)
        for n in range(5):
            container.put(f"b{n}", b"x")
        assert [f"b{n}" for n in range(5)] == names_of(container)
        assert ["b3", "b4"] == names_of(container, start_from="b3")


class TestLeases:
    mine, theirs = str(uuid.uuid4()), str(uuid.uuid4())

    def test_a_lease_has_one_holder_at_a_time(self, container: BlobContainer) -> None:
        container.put("blob", b"1")
        assert isinstance(container.acquire_lease("blob", self.mine, 15), Done)
        assert isinstance(container.acquire_lease("blob", self.theirs, 15), Conflict)
        assert isinstance(container.acquire_lease("blob", self.mine, 15), Done)
        assert isinstance(container.renew_lease("blob", self.mine), Done)
        assert isinstance(container.renew_lease("blob", self.theirs), Conflict)

    def test_properties_show_whether_the_lease_is_held(self, container: BlobContainer) -> None:
        container.put("blob", b"1")

        def shown() -> list[bool]:
            found = container.properties("blob")
            assert found is not None
            [listed] = container.list("blob")
            return [found.leased, container.get("blob").properties.leased, listed.leased]

        assert [False] * 3 == shown()
        container.acquire_lease("blob", self.mine, 60)
        assert [True] * 3 == shown()
        container.release_lease("blob", self.mine)
        assert [False] * 3 == shown()
        container.acquire_lease("blob", self.theirs, 60)
        container.break_lease("blob")
        assert [False] * 3 == shown()

    def test_a_released_lease_can_be_acquired(self, container: BlobContainer) -> None:
        container.put("blob", b"1")
        container.acquire_lease("blob", self.mine, 15)
        assert isinstance(container.release_lease("blob", self.theirs), Conflict)
        assert isinstance(container.release_lease("blob", self.mine), Done)
        assert isinstance(container.acquire_lease("blob", self.theirs, 15), Done)

    def test_a_broken_lease_cannot_be_renewed(self, container: BlobContainer) -> None:
        container.put("blob", b"1")
        container.acquire_lease("blob", self.mine, 60)
        assert isinstance(container.break_lease("blob"), Done)
        assert isinstance(container.renew_lease("blob", self.mine), Conflict)
        assert isinstance(container.put("blob", b"2"), Done)
        assert isinstance(container.acquire_lease("blob", self.theirs, 15), Done)

    def test_only_the_holder_of_the_lease_writes(self, container: BlobContainer) -> None:
        container.put("blob", b"1")
        container.acquire_lease("blob", self.mine, 15)
        assert isinstance(container.put("blob", b"x"), Conflict)
        assert isinstance(container.put("blob", b"x", lease_id=self.theirs), Conflict)
        assert isinstance(container.put("blob", b"2", lease_id=self.mine), Done)
        assert isinstance(container.delete("blob"), Conflict)
        assert isinstance(container.set_tags("blob", {"a": "b"}), Conflict)
        with pytest.raises(ConflictError, match="LeaseIdMissing"):
            container.stage_block("blob", "01", b"x")
        assert b"2" == container.get("blob").data
        assert isinstance(container.delete("blob", lease_id=self.mine), Done)

    def test_a_write_with_a_lease_that_is_not_held_is_a_conflict(self, container: BlobContainer) -> None:
        container.put("blob", b"1")
        assert isinstance(container.put("blob", b"2", lease_id=self.mine), Conflict)

    def test_an_absent_blob_has_no_lease(self, container: BlobContainer) -> None:
        assert isinstance(container.acquire_lease("absent", self.mine, 15), Missing)
        container.put("blob", b"1")
        assert isinstance(container.renew_lease("blob", self.mine), Conflict)
        assert isinstance(container.break_lease("blob"), Conflict)

    def test_an_invalid_lease_id_or_duration_is_refused(self, container: BlobContainer) -> None:
        with pytest.raises(ConfigurationError, match="UUID"):
            container.acquire_lease("blob", "me", 15)
        with pytest.raises(ConfigurationError, match="15 to 60"):
            container.acquire_lease("blob", self.mine, 10)


class TestTables:
    row = Entity("p", "r", {"int": 1, "long": 2**40, "text": "x'y", "float": 1.5, "flag": True, "\u0061_1": "\u00fc"})

    def test_a_table_is_created_once(self, account: StorageAccount) -> None:
        table = account.table(f"t{uuid.uuid4().hex}")
        assert table.create() is True
        assert table.create() is False

    def test_a_missing_table_is_named_in_the_error(self, account: StorageAccount) -> None:
        table = account.table("noSuchTable")
        with pytest.raises(NotFoundError, match="noSuchTable"):
            table.insert(self.row)
        with pytest.raises(NotFoundError, match="noSuchTable"):
            table.get("p", "r")
        with pytest.raises(NotFoundError, match="noSuchTable"):
            table.delete("p", "r")

    def test_an_entity_is_read_as_it_was_inserted(self, table: Table) -> None:
        etag = etag_of(table.insert(self.row))
        found = table.get("p", "r")
        assert found is not None
        assert (self.row.properties, etag) == (found.properties, found.etag)
        assert table.get("p", "other") is None

    def test_the_age_of_an_entity_is_measured_by_the_clock_of_the_service(self, table: Table) -> None:
        table.insert(self.row)
        one, [all_of_them], [partition] = table.get("p", "r"), table.query(), table.query("p")
        for found in (one, all_of_them, partition):
            assert found is not None
            assert found.age is not None
            assert 0 <= found.age < 60

    def test_an_entity_is_inserted_once(self, table: Table) -> None:
        assert isinstance(table.insert(self.row), Done)
        assert isinstance(table.insert(self.row), Conflict)
        assert isinstance(table.replace(self.row, condition=IF_ABSENT), Conflict)

    def test_a_replace_drops_the_properties_that_it_does_not_have(self, table: Table) -> None:
        table.insert(Entity("p", "r", {"a": 1, "b": 2}))
        assert isinstance(table.replace(Entity("p", "r", {"b": 3})), Done)
        found = table.get("p", "r")
        assert found is not None
        assert {"b": 3} == found.properties

    def test_a_replace_if_match_replaces_only_that_version(self, table: Table) -> None:
        first = Condition(if_match=etag_of(table.insert(self.row)))
        assert isinstance(table.replace(self.row, condition=first), Done)
        assert isinstance(table.replace(self.row, condition=first), Conflict)
        assert isinstance(table.replace(Entity("p", "gone", {}), condition=first), Missing)

    def test_a_delete_if_match_keeps_another_version(self, table: Table) -> None:
        first = Condition(if_match=etag_of(table.insert(self.row)))
        table.replace(self.row)
        assert isinstance(table.delete("p", "r", condition=first), Conflict)
        assert isinstance(table.delete("p", "r"), Done)
        assert isinstance(table.delete("p", "r"), Missing)

    def test_a_query_is_by_partition_and_in_key_order(self, table: Table) -> None:
        for partition_key, row_key in (("2", "b"), ("1", "z"), ("2", "a"), ("o'k", "")):
            table.insert(Entity(partition_key, row_key, {}))
        assert [
            ("1", "z"),
            ("2", "a"),
            ("2", "b"),
            ("o'k", ""),
        ] == [(row.partition_key, row.row_key) for row in table.query()]
        assert ["a", "b"] == [row.row_key for row in table.query("2")]
        assert [""] == [row.row_key for row in table.query("o'k")]
        assert [] == list(table.query("none"))

    def test_a_query_has_many_pages(self, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("azure_account.memory.tables.PAGE_ENTITIES", 2)
        monkeypatch.setattr("azure_account.sdk.tables.PAGE_ENTITIES", 2)
        for n in range(5):
            table.insert(Entity("p", str(n), {}))
        assert ["0", "1", "2", "3", "4"] == [row.row_key for row in table.query("p")]

    @pytest.mark.parametrize("name", ["ab", "1abc", "with-hyphen", "tables", "x" * 64])
    def test_an_invalid_table_name_is_refused(self, account: StorageAccount, name: str) -> None:
        with pytest.raises(ConfigurationError, match="Table name"):
            account.table(name)

    @pytest.mark.parametrize("key", ["a/b", "a\\b", "a#b", "a?b", "a\tb", "x" * 513])
    def test_an_invalid_key_is_refused(self, table: Table, key: str) -> None:
        with pytest.raises(ConfigurationError, match="Table key"):
            table.insert(Entity(key, "r", {}))
        with pytest.raises(ConfigurationError, match="Table key"):
            table.get("p", key)

    def test_an_integer_of_over_64_bits_is_refused(self, table: Table) -> None:
        with pytest.raises(ConfigurationError, match="64 bits"):
            table.insert(Entity("p", "r", {"n": 2**63}))
