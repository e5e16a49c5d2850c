"""Whether a checkpoint is that of the query that has filled a store, and one spelling of its folder."""

from __future__ import annotations

import pytest

from adjunct_store.spark.filling.query_checkpoint import CheckpointState, one_spelling


@pytest.mark.parametrize(
    ("state", "published", "query", "misfit"),
    [
        (CheckpointState(), -1, "", ""),
        (CheckpointState(0, -1, "q"), -1, "q", ""),
        (CheckpointState(0, -1, "q"), 0, "q", ""),
        (CheckpointState(3, 2, "q"), 2, "q", ""),
        (CheckpointState(3, 3, "q"), 3, "", ""),
        (CheckpointState(query="q"), -1, "q", ""),
        (CheckpointState(), 3, "q", "the checkpoint is not there, and the store has batches up to 3"),
        (CheckpointState(), 3, "", "the checkpoint is not there, and the store has batches up to 3"),
        (CheckpointState(), -1, "q", "the checkpoint is not there, and query q fills the store"),
        (CheckpointState(3, 2, "r"), 3, "q", "the checkpoint is of query r, and query q fills the store"),
        (
            CheckpointState(3, 2, "q"),
            4,
            "q",
            "the checkpoint has planned batch 3 and committed batch 2, and the store has batches up to 4",
        ),
        (
            CheckpointState(3, 3, "q"),
            2,
            "q",
            "the checkpoint has planned batch 3 and committed batch 3, and the store has batches up to 2",
        ),
    ],
)
def test_a_checkpoint_fits_the_store_that_its_query_has_filled(
    state: CheckpointState, published: int, query: str, misfit: str
) -> None:
    assert misfit == state.misfit(published, query)


@pytest.mark.parametrize(
    ("qualified", "spelling"),
    [
        ("file:/mnt/x", "/mnt/x"),
        ("file:///mnt/x", "/mnt/x"),
        ("file:/mnt/./y/../x/", "/mnt/x"),
        ("file:/mnt/a b", "/mnt/a b"),
        ("abfss://c@a.dfs.core.windows.net/x/", "abfss://c@a.dfs.core.windows.net/x"),
        ("dbfs:/mnt/../x", "dbfs:/mnt/../x"),
    ],
)
def test_a_local_folder_has_one_spelling_and_others_are_as_hadoop_writes_them(qualified: str, spelling: str) -> None:
    assert spelling == one_spelling(qualified)
