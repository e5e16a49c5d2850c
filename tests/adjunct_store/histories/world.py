"""The storage of a history, and what fills and tasks do with the code under test."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from adjunct_store.spark.filling.query_checkpoint import CheckpointState, one_spelling
from adjunct_store.versions.manifest import Manifest, VisibleFrom
from adjunct_store.versions.manifest_store import open_fill
from adjunct_store.versions.opening import FillRequirements
from adjunct_store.versions.pins import ReaderId, pin_version, release
from adjunct_store.versions.transitions import Publication
from azure_account.location import Location
from azure_account.memory.faults import Fault, LateEffect, LostAnswer, ProcessDied, Reset
from foundation.errors import AzureBlobError, ConfigurationError, FencedError, NotFoundError, TransientError
from tests.adjunct_store.histories.truth import PINS_EXPIRE, Filler, Truth, blob_of, changes, reader_of
from tests.adjunct_store.stores import NAMES, OTHER, PARTITIONS, SCHEMA, STORE, generations_in
from tests.histories.process import HistoryProcess
from tests.histories.world import Late, World
from tests.state_backup.histories.processes import POLICY

if TYPE_CHECKING:
    from random import Random

    from adjunct_store.versions.manifest import Version
    from adjunct_store.versions.manifest_store import Fill
    from adjunct_store.versions.opening import TakeoverPlan
    from azure_account.container import BlobContainer
    from azure_account.retrying.retry_loop import Request


FOLDER, ANOTHER = "/fills/planes", "/fills/other"
SPELLINGS = ("file:{}", "file://{}/", "file:/.{}", "file:{}/x/..")


class RefusedError(AzureBlobError):
    """What Spark raises for a query that it does not start."""


class StoreProcess(HistoryProcess):
    """A fill or a task. query, driver, batch: of a task.

    writer: the id under which a fill has opened the store. sealing: a fill does not know whether its last batch was.
    building: a fill does not know whether the generation that it builds again is registered. replaced: a publication
    has shown that it is. folder: of a fill's checkpoints. told: it replaces what is there. saw: the manifest that it
    has read last.
    """

    policy = POLICY
    writer = ""
    query = ""
    driver = ""
    batch = 0
    sealing = False
    building = False
    replaced = False
    folder = ""
    told = False
    saw = Manifest()

    def aim_of(self, request: Request) -> str:
        """What a request is for."""
        if request.name == NAMES.manifest:
            return f"{request.operation} manifest"
        if request.name.startswith(NAMES.all_pins):
            return f"{request.operation} pin"
        return str(request.operation)


@dataclass(kw_only=True)
class StoreWorld(World[StoreProcess]):
    """One history's storage and processes. records: of each state, its epoch and its checkpoints, newest first."""

    keep: int
    bounded: bool
    truth: Truth = field(default_factory=Truth)
    make: Callable[..., StoreProcess] = StoreProcess
    expected: tuple[type[Exception], ...] = (FencedError, TransientError)
    records: dict[tuple[int, int], tuple[int, list[str]]] = field(default_factory=dict)
    checkpoints: int = 0
    queries: dict[str, dict[int, CheckpointState]] = field(default_factory=dict)
    """By folder, the checkpoint of the query of each generation."""
    disturbed: bool = False
    """Whether a fill was told to replace the store, or a checkpoint was lost: the right fill may be refused."""
    drivers: dict[str, str] = field(default_factory=dict)
    """By query, the process that runs it."""
    jobs: list[str] = field(default_factory=list)
    """Batch jobs whose DataFrames are used."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.truth.clock = self.clock

    def note(self, process: StoreProcess, request: Request, fault: Fault | None) -> None:
        """A process makes a request."""
        super().note(process, request, fault)
        aim, truth = process.aim_of(request), self.truth
        if aim == "get manifest":
            process.saw = truth.manifest
        if process.writer and truth.manifest.writer != process.writer and aim in {"put manifest", "put", "list pin"}:
            truth.seen[f"a replaced fill wakes: {aim}"] += 1
        pin = NAMES.reader_and_batch(request.name) if aim == "delete pin" and process.kind == "fill" else None
        truth.seen["a clean-up deletes a pin that is followed"] += pin is not None and truth.followed(*pin)
        if aim in {"put manifest", "put pin"} and isinstance(fault, LostAnswer | Reset):
            truth.seen[f"lost answer: {aim}, {'done' if isinstance(fault, LostAnswer) else 'not done'}"] += 1

    def arrive(self, late: Late[StoreProcess]) -> None:
        """A late request takes effect."""
        before = self.truth.blobs.get(late.request.name)
        super().arrive(late)
        done = before != self.truth.blobs.get(late.request.name)
        self.truth.seen[f"late effect: {late.process.aim_of(late.request)}{', done' if done else ''}"] += 1

    # --- what a fill does ---------------------------------------------------------------------------------------------

    def fill_store(self, process: StoreProcess) -> None:
        """Open the store and publish some batches."""
        try:
            self._fill(process)
        except ProcessDied:
            self.truth.seen["a mistaken fill dies"] += process.folder == ANOTHER
            raise

    def _fill(self, process: StoreProcess) -> None:
        """An error that is not final is followed by the same batch.

        A publication may find the fill's generation replaced only if the fill itself has built it again, got no answer,
        and nobody else has the store. Then it builds it once more, as the error says.
        """
        try:
            fill = self._open(process, process.container)
        except (ConfigurationError, RefusedError) as error:
            self._refused(process, error)
            return
        process.writer = fill._manifest.document.writer
        for _ in range(process.draws.choice([1, 2, 4, 6])):
            try:
                fill = self._next_generation(process, fill)
                self._batch(process, fill)
                if process.draws.random() < 0.1:
                    fill.clean_up()
            except FencedError:
                if self.truth.manifest.writer == process.writer:
                    self.truth.fail("a fill is fenced that nobody has replaced")
                self.truth.seen["a fill is fenced"] += 1
                raise
            except TransientError:
                self.truth.seen["a publication fails and the fill goes on"] += 1
            except ConfigurationError:
                current = self.truth.manifest.current
                moved = current is not None and current.number != fill.generation.number
                if not (process.building and moved and self.truth.manifest.writer == process.writer):
                    raise
                process.replaced = True
                self.truth.seen["a fill finds what it has built again without an answer"] += 1

    def _next_generation(self, process: StoreProcess, fill: Fill) -> Fill:
        """The fill of the next batch: most often the same one, else one that builds another generation."""
        if fill.generation.sealed:
            return fill.build_beside(SCHEMA, fill.generation.source)
        if process.replaced or (process.draws.random() < 0.04 and not self.bounded):
            fill = self._build_again(process, fill)
            process.building = process.replaced = False
            self.truth.seen["a fill builds its store again"] += 1
        return fill

    def _build_again(self, process: StoreProcess, fill: Fill) -> Fill:
        """Perhaps it gets no answer, and takes effect when the fill has given up."""
        process.building = True
        if process.draws.random() < 0.3:
            process.faults[:0] = [("put manifest", LateEffect()), *[("put manifest", Reset())] * 4]
        try:
            return fill.build_again(above=max(self._queries(process), default=0))
        except TransientError:
            for place in [place for place, late in enumerate(self.late) if late.process is process][-1:]:
                self.land(place)
            raise

    def lose_checkpoint(self, folder: str) -> None:
        """The checkpoints of a fill are gone, and with them its queries."""
        for process in self.processes:
            if process.folder == folder:
                process.kill()
        if self.queries.pop(folder, None):
            self.disturbed = True

    def _refused(self, process: StoreProcess, error: Exception) -> None:
        """A fill that is refused has changed nothing, and the right one is refused for a reason only.

        Its take-over may have had an effect after its answer was lost, but only if another fill has taken the store
        over since: else the fill reads its own write back, and is not refused.
        """
        seen, text = self.truth.seen, str(error)
        seen["a fill is refused that had the store without an answer"] += bool(process.names & set(self.truth.writers))
        if self.truth.manifest.writer in process.names:
            self.truth.fail(f"{process} is refused, and has taken the store over: {text}")
        if process.told and not isinstance(error, RefusedError):
            self.truth.fail(f"{process} is told to replace the store, and is refused: {text}")
        if process.folder == FOLDER and not self.disturbed and not isinstance(error, RefusedError):
            self.truth.fail(f"the right fill is refused: {text}")
        newest = process.saw.newest
        serving = None if newest is None else process.saw.generation(newest.generation)
        if "it is filled from" in text and serving is not None and serving.source.endswith(process.folder):
            self.truth.fail(f"{process} is refused, and readers see what its source has filled: {text}")
        seen["Spark refuses a fill"] += isinstance(error, RefusedError)
        seen["a mistaken fill is refused"] += process.folder == ANOTHER and "it is filled from" in text
        seen["a lost checkpoint is refused"] += "the checkpoint is not there" in text

    def _open(self, process: StoreProcess, container: BlobContainer) -> Fill:
        draws, current = process.draws, self.truth.manifest.current
        process.folder = draws.choice(
            [FOLDER] * 5 + [ANOTHER if current is not None and process.kind == "fill" else FOLDER]
        )
        process.told = process.kind == "last" or draws.random() < (0.4 if self.disturbed else 0.12)
        self.disturbed = self.disturbed or process.told
        spelled = draws.choice(SPELLINGS).format(process.folder)
        source = f"checkpoint {one_spelling(spelled)}"
        self.truth.fillers[f"p{process.number}"] = Filler(source, process.told)
        self.truth.seen["a store is opened by another spelling"] += current is not None and current.source == source
        schema = SCHEMA if current is None else dict(current.schema)
        terms = FillRequirements(
            source,
            PARTITIONS,
            bootstrap=draws.random() < 0.4,
            bounded=self.bounded,
            keep=self.keep,
            rebuild=process.told,
            above=max(self._queries(process), default=0),
            pins_expire=PINS_EXPIRE,
            threads=1,
        )
        return open_fill(
            Location.in_container(container, STORE),
            draws.choice([SCHEMA, OTHER]) if process.told else schema,
            terms,
            before_take_over=lambda opening: self._start_query(process, opening),
            clock=self.clock,
            new_id=process.new_id,
        )

    def _queries(self, process: StoreProcess) -> dict[int, CheckpointState]:
        return self.queries.setdefault(process.folder, {})

    def _start_query(self, process: StoreProcess, opening: TakeoverPlan) -> str:
        """What `fill_stream` does before the store is taken over. Data sets have no query."""
        if process.kind != "last" and process.draws.random() < 0.08:
            raise RefusedError("Spark refuses the query")
        if self.bounded:
            return ""
        queries, number = self._queries(process), opening.generation.number
        published = -1 if opening.base is None else opening.base.batch
        misfit = queries.get(number, CheckpointState()).misfit(published, opening.generation.query)
        if misfit:
            raise ConfigurationError(misfit)
        return queries.setdefault(number, CheckpointState(query=process.new_id())).query

    def _batch(self, process: StoreProcess, fill: Fill) -> None:
        """A batch of the filling query: the one after the base, or the base's once more.

        No batch comes after one that may be sealed: that is published again.
        """
        base, generation = fill.base, fill.generation
        later = process.draws.random() < 0.85 and not process.sealing
        batch = 0 if base is None else base.batch + later
        first = self._first_batch(process, generation.number)
        there = range(first + batch + 1) if batch == 0 else (first + batch,)
        self._plan(process, generation.number, batch)
        checkpoints = {
            partition: self._back_up(process, fill, partition, [each for each in there if changes(each, partition)])
            for partition in range(PARTITIONS)
            if any(changes(each, partition) for each in there)
        }
        self.truth.seen["a batch is published again"] += base is not None and batch == base.batch
        ready = process.draws.random() < 0.4 or process.sealing
        process.sealing = ready and generation.serves is VisibleFrom.SEALED
        version = fill.publish(
            Publication(
                batch,
                checkpoints,
                batch + 1,
                100,
                bootstrapped=ready and generation.serves is VisibleFrom.BOOTSTRAPPED,
                sealed=process.sealing,
            )
        )
        process.sealing = False
        if generation.number in self._queries(process) and process.draws.random() < 0.7:
            state = self._queries(process)[generation.number]
            self._queries(process)[generation.number] = replace(state, committed=max(state.committed, batch))
        self.trace(f"{process} has published version {version.number}, batch {batch} of generation {generation.number}")
        if version.number >= self.truth.manifest.next_version or version.batch < batch:
            self.truth.fail(f"version {version.number} is reported and was not published")

    def _first_batch(self, process: StoreProcess, generation: int) -> int:
        """Up to which batch of the source the first batch of a generation goes: it is built again of all at once."""
        newest = self.truth.manifest.newest
        grown = 0 if newest is None else self.truth.joined.get(newest.generation, 0) + max(newest.batch, 0)
        drawn = process.draws.choice([0, grown])
        if generation not in self.truth.joined:
            self.truth.joined[generation] = 0 if self.bounded else drawn
            self.truth.seen["a store that has grown is built again in one batch"] += self.truth.joined[generation] > 0
        return self.truth.joined[generation]

    def _plan(self, process: StoreProcess, generation: int, batch: int) -> None:
        """Spark notes a batch before it runs it, and the one before it as done."""
        if not self.bounded:
            state = self._queries(process).setdefault(generation, CheckpointState(query=process.new_id()))
            done = max(state.committed, batch - 1)
            self._queries(process)[generation] = replace(state, planned=max(state.planned, batch), committed=done)

    def _back_up(self, process: StoreProcess, fill: Fill, partition: int, batches: list[int]) -> str:
        """What a task does with `state_backup`: the base's content and the batch are the next checkpoint of the state.

        A fill with a lower epoch is fenced. What is neither among the newest two nor in use is deleted.
        """
        state, base, in_use = (fill.generation.number, partition), fill.base, fill.in_use(partition)
        try:
            had = self._read(process, *state, "" if base is None else base.checkpoints[partition])
        except NotFoundError as error:
            if self.truth.manifest.writer == process.writer:
                raise
            raise FencedError(f"the fill that has taken the store over does not need it any more: {error}") from None
        self._check_epoch(state, fill.epoch)
        self.checkpoints += 1
        id_ = f"1700000000000-{self.checkpoints}"
        process.container.put(blob_of(*state, id_), json.dumps([*had, *batches]).encode())
        before = self._check_epoch(state, fill.epoch)
        after = [id_, *before[:1], *(each for each in before[1:] if each in in_use)]
        self.records[state] = fill.epoch, after
        for dropped in set(before) - set(after):
            process.container.delete(blob_of(*state, dropped))
        return id_

    def _check_epoch(self, state: tuple[int, int], epoch: int) -> list[str]:
        opened, checkpoints = self.records.get(state, (0, []))
        if opened > epoch:
            raise FencedError(f"epoch {opened} has taken the state over from epoch {epoch}")
        self.records[state] = epoch, checkpoints
        return checkpoints

    def _read(self, process: StoreProcess, generation: int, partition: int, checkpoint: str) -> list[int]:
        if not checkpoint:
            return []
        found: list[int] = json.loads(process.container.get(blob_of(generation, partition, checkpoint)).data)
        return found

    # --- what a task does ---------------------------------------------------------------------------------------------

    def read_store(self, process: StoreProcess) -> None:
        """Pin a version for the batch of the reader, then read it."""
        query, batch, could = process.query, process.batch, self.truth.manifest.newest is not None
        reader = ReaderId(reader_of(query), process.driver)
        try:
            version, generation = pin_version(process.container, STORE, reader, batch, new_id=process.new_id)
        except NotFoundError:
            if could:
                raise
            self.truth.seen["a reader waits for the first version"] += 1
            return
        if generation.number != version.generation:
            self.truth.fail(f"version {version.number} comes with generation {generation.number}")
        self.trace(f"{process} uses version {version.number} for batch {batch} of {query}")
        self.truth.uses(process, query, batch, version)
        try:
            self._read_all(process, version)
        except NotFoundError as error:
            if not self.truth.given_up(query, batch):
                self.truth.fail(f"a task cannot read what it has pinned: {error}")
        finally:
            self.truth.at_work.pop(process, None)

    def _read_all(self, process: StoreProcess, version: Version) -> None:
        for partition, checkpoint in enumerate(version.checkpoints):
            self._read(process, version.generation, partition, checkpoint)

    def forget_job(self, job: str) -> None:
        """The process of a batch job releases its pin, since nobody has its DataFrame."""
        self.jobs.remove(job)
        self.truth.current_batch[job] = 1
        release(self.container, STORE, job)
        self.truth.seen["a batch job is forgotten"] += 1

    # --- the end ------------------------------------------------------------------------------------------------------

    def end(self, draws: Random) -> None:
        """All processes end, late requests arrive or not; another fill takes over, and only what is needed is left."""
        for process in self.alive():
            process.kill()
        self.land_or_lose(draws)
        last = self.start("last", lambda _: None)
        last.container = self.container
        fill = self._open(last, self.container)
        fill.clean_up()
        if not generations_in(self.container) <= {each.number for each in self.truth.manifest.generations}:
            self.truth.fail("after a clean-up there are blobs of generations that are gone")
        for query in self.truth.current_batch:
            release(self.container, STORE, reader_of(query))
        fill.clean_up()
        manifest = self.truth.manifest
        unseen = [each for each in manifest.versions if not manifest.serves(each)]
        if len(manifest.versions) - len(unseen) > self.keep or len(unseen) > 1:
            self.truth.fail(f"after a clean-up there are versions that nobody needs: {manifest.versions}")
        try:
            if not fill.generation.sealed:
                self._batch(last, fill)
        except AzureBlobError as error:
            self.truth.fail(f"the last fill cannot publish: {error!r}")
