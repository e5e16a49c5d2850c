"""The manifest as a value and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from adjunct_store.versions.manifest import Generation, Manifest, Version, VersionState, VisibleFrom, from_json, to_json
from azure_account.documents.form import sealed
from foundation.errors import ConfigurationError, CorruptError

A, B = "1700000000000-1", "1700000000001-0"
OLD = Generation(1, {"keys": ["tail"]}, 2, "planes 1")
NEW = Generation(4, {"keys": ["tail", "day"]}, 3, "planes 2", VisibleFrom.BOOTSTRAPPED)
MANIFEST = Manifest(
    epoch=3,
    writer="w",
    write_id="i",
    next_generation=5,
    next_version=10,
    generations=(OLD, NEW),
    versions=(
        Version(9, 4, (A, "", B), (0, -1, 0), 0, 7, 70),
        Version(7, 1, (A, B), (41, 40), 41, 5, 50, VersionState.SERVING, "2026-01-01"),
        Version(6, 1, (A, A), (39, 40), 40, 5, 50, VersionState.RETIRING, tombstones=3),
    ),
    keep=2,
    pins_expire=60.0,
    since_publication=1.5,
)
BLOB = "stores/planes/store.json"


def test_it_is_the_same_after_json() -> None:
    for manifest in (Manifest(), MANIFEST):
        assert manifest == from_json(to_json(manifest), BLOB)


def test_the_newest_version_is_one_that_readers_may_see() -> None:
    assert 7 == getattr(MANIFEST.newest, "number", None)
    bootstrapped = replace(MANIFEST, generations=(OLD, replace(NEW, bootstrapped=True)))
    assert 9 == getattr(bootstrapped.newest, "number", None)
    assert Manifest().newest is None
    assert 9 == getattr(MANIFEST.newest_of(4), "number", None)
    assert NEW == MANIFEST.current


@pytest.mark.parametrize(
    ("serves", "bootstrapped", "sealed", "visible"),
    [
        (VisibleFrom.FIRST_VERSION, False, False, True),
        (VisibleFrom.BOOTSTRAPPED, False, True, False),
        (VisibleFrom.BOOTSTRAPPED, True, False, True),
        (VisibleFrom.SEALED, True, False, False),
        (VisibleFrom.SEALED, False, True, True),
    ],
)
def test_a_generation_serves_from_a_moment_on(
    serves: VisibleFrom, bootstrapped: bool, sealed: bool, visible: bool
) -> None:
    assert visible == replace(NEW, serves=serves, bootstrapped=bootstrapped, sealed=sealed).visible


def test_one_of_a_newer_release_is_not_damaged() -> None:
    with pytest.raises(
        ConfigurationError, match="format version 2; this release reads up to 1, so it needs a newer release"
    ):
        from_json(sealed({"format-version": 2}), BLOB)


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "Expecting value"),
        (b"[]", "list indices must be"),
        (b'{"format-version":1}', "'digest' is missing"),
        (to_json(MANIFEST).replace(b'"epoch":3', b'"epoch":4'), "its digest is not that of its content"),
        (sealed({"format-version": 1, "epoch": 3}), "'writer' is missing"),
        (to_json(replace(MANIFEST, next_generation=4)), r"its generations are \[1, 4\], and the next one is 4"),
        (to_json(replace(MANIFEST, next_version=9)), r"its versions are \[9, 7, 6\], and the next one is 9"),
        (to_json(replace(MANIFEST, versions=MANIFEST.versions[::-1])), r"its versions are \[6, 7, 9\]"),
        (to_json(replace(MANIFEST, generations=(NEW,))), "version 7 does not fit its generation 1"),
        (to_json(replace(MANIFEST, generations=(OLD, replace(NEW, partitions=4)))), "version 9 does not fit"),
    ],
)
def test_a_damaged_one_is_noticed(data: bytes, cause: str) -> None:
    with pytest.raises(CorruptError, match=f"Manifest {BLOB} is damaged: .*{cause}"):
        from_json(data, BLOB)


def test_every_field_is_compulsory() -> None:
    fields = json.loads(to_json(MANIFEST))
    fields.pop("digest")
    for part in (fields, fields["generations"][0], fields["versions"][0]):
        for name in list(part):
            value = part.pop(name)
            with pytest.raises(CorruptError, match=f"'{name}' is missing"):
                from_json(sealed(fields), BLOB)
            part[name] = value


def test_an_id_that_is_none_is_noticed() -> None:
    fields = json.loads(to_json(MANIFEST))
    fields["versions"][0]["checkpoints"][0] = "../secret"
    del fields["digest"]
    with pytest.raises(CorruptError, match="is no checkpoint id"):
        from_json(sealed(fields), BLOB)
