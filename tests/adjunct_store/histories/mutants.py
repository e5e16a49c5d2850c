"""Mistakes in the protocol that the histories must catch."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from adjunct_store.versions import transitions
from adjunct_store.versions.cleaning import KnownPins
from adjunct_store.versions.manifest import Manifest, VersionState
from adjunct_store.versions.manifest_store import Fill
from tests.histories.mutants import Mutant, edited

_FILL = "adjunct_store.versions.manifest_store:Fill"
_PINNING = "adjunct_store.versions.pins:Pinning"


def _pins_before_retiring(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean-up lists the pins, then makes versions retiring; those without a pin in that listing are dropped."""
    change, listed = Fill._change, KnownPins.unused_versions
    found: dict[int, set[int]] = {}

    def list_first(fill: Fill, *args: object) -> None:
        manifest = fill._manifest.document
        numbers = {each.number for each in manifest.versions}
        found[id(fill)] = listed(fill._pins, manifest, numbers)
        change(fill, *args)  # type: ignore[arg-type]

    def from_before(*args: object) -> Collection[int]:
        retiring = args[2]
        assert isinstance(retiring, set)
        return {number for unused in found.values() for number in unused} & retiring

    def clean(fill: Fill, sweep: bool) -> object:
        found.setdefault(id(fill), set())
        return original(fill, sweep)

    original = Fill._clean
    monkeypatch.setattr(Fill, "_clean", clean)
    monkeypatch.setattr(Fill, "_change", list_first)
    monkeypatch.setattr(KnownPins, "unused_versions", from_before)


def _drops_without_retiring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions beyond `keep` serve until a clean-up has found no pin of them."""

    def beyond(manifest: Manifest) -> set[int]:
        newest = manifest.newest
        own = [each.number for each in manifest.versions if newest is not None and manifest.serves(each)]
        return set(own[manifest.keep :])

    def clean(fill: Fill, sweep: bool) -> object:
        manifest = fill._manifest.document
        numbers = beyond(manifest)
        hidden = replace(
            manifest,
            versions=tuple(
                replace(v, state=VersionState.RETIRING) if v.number in numbers else v for v in manifest.versions
            ),
        )
        unused = fill._pins.unused_versions(hidden, numbers)

        def without(now: Manifest) -> Manifest:
            left = tuple(each for each in now.versions if each.number not in unused)
            return transitions.drop(replace(now, versions=left), set())

        fill._change(without)
        return original(fill, sweep)

    original = Fill._clean
    monkeypatch.setattr(transitions, "retire", lambda manifest: manifest)
    monkeypatch.setattr(Fill, "_clean", clean)


MUTANTS: dict[str, Mutant] = {
    "a pin is confirmed when it is put": edited(f"{_PINNING}._write", "step.act is not PinAction.PUT", "True"),
    "an unconfirmed pin is used": edited(
        "adjunct_store.versions.pin:next_step",
        "if manifest.serves(version):",
        "if True:\n            return PinStep(PinAction.USE, version)\n        if True:",
    ),
    "a pin is confirmed without reading the manifest again": edited(
        f"{_PINNING}.pin",
        "manifest = self._manifest()",
        "manifest = manifest if written is not None else self._manifest()",
    ),
    "a pin of a retiring version is confirmed": edited(
        "adjunct_store.versions.pin:next_step", "if manifest.serves(version):", "if True:"
    ),
    "a pin of a version that is not visible is put": edited(
        "adjunct_store.versions.manifest:Manifest.serves",
        "generation is not None and generation.visible",
        "generation is not None",
    ),
    "a pin is written without a condition": edited(
        f"{_PINNING}._write", "None if stored is None else stored.etag", "getattr(self._pins.read(), 'etag', None)"
    ),
    "an old pin is not renewed": edited(
        "adjunct_store.versions.pin:next_step", "age >= RENEWED * manifest.pins_expire, pin.driver", "False, pin.driver"
    ),
    "a batch deletes the pin of the one before": edited(
        f"{_PINNING}.delete_older", "max(self._batch - 1, 0)", "self._batch + 1"
    ),
    "a batch deletes the pins of other drivers": edited(
        f"{_PINNING}._delete_own", "stored.document.driver == self._driver", "True"
    ),
    "a driver does not note that it shares a pin": edited(
        "adjunct_store.versions.pin:next_step", "pin.driver in {driver, SHARED}", "True"
    ),
    "a driver takes over the pin of another one": edited(
        f"{_PINNING}._write", "self._driver if alone else SHARED", "self._driver"
    ),
    "a followed pin does not count": edited(
        "adjunct_store.versions.pin:counts", "FOLLOWED if followed", "FOLLOWED / 100 if followed"
    ),
    "a pin that is written again while it is deleted does not count": edited(
        "adjunct_store.versions.cleaning:KnownPins._deleted", "isinstance(outcome, Done | Missing)", "True"
    ),
    "a clean-up lists the pins before it marks versions as retiring": _pins_before_retiring,
    "a clean-up drops versions without retiring them": _drops_without_retiring,
    "a clean-up does not count unconfirmed pins": edited(
        "adjunct_store.versions.cleaning:_version_of",
        "return from_json(container.get(blob).data, blob).version",
        "pin = from_json(container.get(blob).data, blob)\n        return pin.version if pin.confirmed else _GONE",
    ),
    "a drop takes versions that have retired since the pins were listed": edited(
        "adjunct_store.versions.transitions:drop", "each.number in unused", "(each.number in unused or len(unused) > 1)"
    ),
    "the epoch is not checked when the manifest is read again": edited(
        "azure_account.documents.owner:OwnedDocumentBlob.check_owner",
        "(found.epoch, found.writer) != (own.epoch, own.writer)",
        "False",
    ),
    "the manifest is written without a condition": edited(
        "azure_account.documents.document:DocumentBlob.write",
        "IF_ABSENT if before is None else Condition(if_match=before)",
        "Condition()",
    ),
    "a fill publishes to the generation that it has registered without an answer": edited(
        f"{_FILL}._current", "current.number != self._generation.number", "False"
    ),
    "a generation is deleted while a version refers to it": edited(
        "adjunct_store.versions.cleaning:delete_generations",
        "{each.number for each in manifest.generations}",
        "{each.number for each in manifest.generations[-1:]}",
    ),
    "a generation leaves the manifest with a version": edited(
        "adjunct_store.versions.transitions:drop",
        "{each.generation for each in versions}",
        "{each.generation for each in versions if each.state is VersionState.SERVING}",
    ),
    "a batch that was published before is published again": edited(
        "adjunct_store.versions.transitions:publish", "new.batch <= base.batch", "False"
    ),
    "what may have been published is not in use": edited(
        f"{_FILL}.in_use", "self._manifest.possible", "self._manifest.possible[:1]"
    ),
    "only the base is in use": edited(
        f"{_FILL}.in_use", "for each in manifest.versions}", "for each in manifest.versions[:1]}"
    ),
    "all generations that the manifest does not name are deleted": edited(
        "adjunct_store.versions.cleaning:delete_generations", "or generation >= manifest.next_generation", ""
    ),
    "a fill replaces what another source has filled": edited(
        "adjunct_store.versions.opening:find_opening",
        "_check_same(storage, current, wanted, terms)\n        continues = terms.persistent",
        "continues = terms.persistent and current.source == wanted.source",
    ),
    "a fill goes on with what another source has filled": edited(
        "adjunct_store.versions.recovery:difference", "generation.source != wanted.source", "False"
    ),
    "the right fill is refused when another source has begun to replace the store": edited(
        "adjunct_store.versions.transitions:continued",
        "dropped = serving is not None and serving.source == source",
        "dropped = False",
    ),
    "what a fill of the same source has begun is dropped": edited(
        "adjunct_store.versions.transitions:continued",
        "dropped = adds or current.serves is VisibleFrom.SEALED",
        "dropped = True",
    ),
    "the store is taken over before Spark has the query": edited(
        "adjunct_store.versions.manifest_store:open_fill",
        "query = before_take_over(opening)",
        "storage.manifests.write(transitions.taken_over(opening.next, new_id(), 0.0), before)\n"
        "            query = before_take_over(opening)",
    ),
    "a store is built again when its checkpoint is lost": edited(
        "adjunct_store.versions.opening:find_opening",
        "None if terms.rebuild else manifest.current",
        "None if terms.rebuild or not terms.above else manifest.current",
    ),
    "a checkpoint that is lost is not missed": edited(
        "adjunct_store.spark.filling.query_checkpoint:CheckpointState.misfit",
        "if self.planned < 0 and (published >= 0 or (query and not self.query)):",
        "if self.planned < 0:\n        return ''\n    if False:",
    ),
    "a wrong checkpoint is not looked at again when the store has changed": edited(
        "adjunct_store.versions.manifest_store:open_fill", "storage.manifests.read() == before", "True"
    ),
}
