"""Random histories of owners of one ledger, each request of which others may precede, and whose answers may be lost.

Processes open the ledger with epochs of their own choice, and act whenever they are drawn, also after another one has
opened it: these are the ones that wake. An operator deletes the ledger, and amends it. The truth sees every write when
it takes effect, whoever has sent it and however long ago.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, LateEffect, LostAnswer, Reset, TimeOut
from azure_account.memory.service import MemoryService
from foundation.errors import AzureBlobError, ConflictError, FencedError, TransientError
from tests.azure_account.documents.ledger import BLOB, Ledger, added, from_json, ledgers, own_ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.documents.document import Stored
    from azure_account.documents.owner import DocumentOwner, OwnedDocumentBlob
    from azure_account.memory.faults import Fault, NumberedAttempt
    from azure_account.retrying.retry_loop import Request

T = TypeVar("T")
STEPS = 25
MOST_REQUESTS = 200
"""Of one operation. Ten attempts of five requests, each read back, are 100."""
GIVES_UP = "times in a row"
LOST = 6
"""How many writes in a row get no answer: more than are sent before the outcome stays unknown."""
BUSY = 10_000
"""How many writes of one operation a busy rival precedes."""


class Violation(BaseException):
    """What must not happen; not an `Exception`, so that nothing handles it."""


@dataclass
class Truth:
    """The ledger as it is stored, and who has opened it."""

    stored: Ledger | None = None
    last: Ledger | None = None
    """The same, also while it is deleted."""
    makers: dict[str, str] = field(default_factory=dict)
    """By id of a write or a writer, the process that has made it; "" for the operator."""
    acknowledged: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def changed(self, now: Ledger | None) -> None:
        """A write has taken effect."""
        before, self.stored = self.last, now
        if now is None:
            return
        self.last = now
        if before is None or before == now:
            return
        sender, owner = self.makers[now.write_id], self.makers[now.writer]
        if now.entries[: len(before.entries)] != before.entries or len(set(now.entries)) < len(now.entries):
            raise Violation(f"entries {before.entries} became {now.entries}")
        if now.epoch < before.epoch:
            raise Violation(f"epoch {before.epoch} became {now.epoch}")
        if (now.epoch, now.writer) != (before.epoch, before.writer):
            if now.entries != before.entries or sender != owner:
                raise Violation(f"{sender} has written {now} over {before}")
        elif sender not in {"", owner}:
            raise Violation(f"{sender} has written, and {owner} owns it")


class WatchedService(MemoryService):
    """Reports every write to the truth."""

    truth: Truth

    def changed(self, container: str, blob: str) -> None:
        data = self.contents(container).get(blob)
        self.truth.changed(None if data is None else from_json(data, blob))


class Disturbed(FaultInjector):
    """The requests of one process: others act before they are sent, and answers are lost, as is drawn."""

    def __init__(self, world: World) -> None:
        super().__init__(self._fault)
        self._world = world
        self._requests = 0
        self._lost = 0
        self.busy = 0
        """How many more writes a rival precedes."""

    def begin(self, *, busy: bool, lost: int) -> None:
        """Another operation. lost: so many writes get no answer."""
        self._requests, self.busy, self._lost = 0, BUSY if busy else 0, lost

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        self._requests += 1
        if self._requests > MOST_REQUESTS:
            raise Violation("an operation does not give up")
        if request.operation == "put" and self.busy:
            self.busy -= 1
            self._world.amend()
        elif self._world.draws.random() < 0.15:
            self._world.nested()
        return super().attempt(request, send)

    def _fault(self, attempt: NumberedAttempt) -> Fault | None:
        draws = self._world.draws
        if attempt.operation != "put" or self._world.truth.stored is None:
            return None  # the ledger is created once: a late creation could not be told from another ledger
        if self._lost == 0 and draws.random() > 0.12:
            return None
        late = LateEffect(1_000) if self._lost == LOST else Reset()
        others = (LostAnswer(), TimeOut(), LateEffect(draws.choice((1, 2))))
        fault: Fault = late if self._lost else draws.choice((late, *others))
        self._lost = max(0, self._lost - 1)
        self._world.truth.seen[f"fault: {type(fault).__name__}"] += 1
        return fault


@dataclass
class Process:
    """A process that has opened the ledger, or is about to."""

    name: str
    faults: Disturbed
    store: OwnedDocumentBlob[Ledger]
    owner: DocumentOwner[Ledger] | None = None
    entries: int = 0
    last_id: str = ""
    acting: bool = False

    def next_entry(self) -> str:
        self.entries += 1
        return f"{self.name}.{self.entries}"


class World:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.draws = random.Random(seed)
        self.truth = Truth()
        service = WatchedService(soft_delete=1e9)
        service.truth = self.truth
        self.account = MemoryAccount(service)
        self.account.container("box").create()
        self.processes: list[Process] = []
        self._ids = 0
        self._depth = 0
        self._creating = False
        """Whether a process has found no ledger, and makes one: it would replace another one that is deleted now."""
        self._operator = ledgers(self.account.container("box"), lambda: self._new_id(None))

    def run(self) -> None:
        for _ in range(STEPS):
            self._step()
        for each in self.processes:
            each.faults.apply_late_effects()
        last = self.truth.last
        lost = [each for each in self.truth.acknowledged if last is None or each not in last.entries]
        if lost:
            raise Violation(f"{lost} were acknowledged, and are not in {last}")

    def nested(self) -> None:
        """Another process acts between two requests of one."""
        if self._depth < 2 and self.processes:
            self._depth += 1
            try:
                self._step()
            finally:
                self._depth -= 1

    def amend(self) -> None:
        """The operator changes the ledger, which stays with its owner."""
        if self.truth.stored is not None:
            self.truth.seen["amended"] += 1
            self._operator.amend(added(f"operator.{self._ids}"))  # type: ignore[arg-type]

    def _step(self) -> None:
        act = self.draws.choice(
            (self._open, self._change, self._change, self._change, self._nothing, self._replace, self._replace)
        )
        if self.draws.random() < 0.15:
            act = self.draws.choice((self._delete, self.amend, self._undelete, self._wake_late, self._wake_late))
        act()
        for each in self.processes:
            if each.owner is not None and not each.acting:
                self._check_possible(each.name, each.owner)

    def _new_id(self, process: Process | None) -> str:
        self._ids += 1
        id_ = f"id{self._ids}"
        self.truth.makers[id_] = "" if process is None else process.name
        if process is not None:
            process.last_id = id_
        return id_

    def _open(self) -> None:
        """Epochs are one above the ledger's, the ledger's own, or any other."""
        name = f"p{len(self.processes)}"
        faults = Disturbed(self)
        container = self.account.restarted(faults).container("box")
        process = Process(name, faults, ledgers(container, lambda: self._new_id(process)))
        self.processes.append(process)
        seen, last, deleted = self.truth.seen, self.truth.last, self.truth.stored is None
        epoch = None if last is None else self.draws.choice((None, None, last.epoch, 1, 3, 5))
        self._creating = self._creating or last is None
        self._begin(process)
        try:
            process.owner = own_ledger(process.store, epoch, lambda: self._find(process))
        except FencedError:
            seen["an opening is fenced"] += 1
            if epoch is None or self.truth.last is None or epoch >= self.truth.last.epoch:
                raise Violation(f"{name} is refused with epoch {epoch}") from None
        except ConflictError:
            seen["an opening misses a deleted ledger"] += 1
        except TransientError as error:
            seen[f"an opening {'gives up' if GIVES_UP in str(error) else 'stays unknown'}"] += 1
        else:
            seen["opened"] += 1
            seen["a deleted ledger is undeleted"] += deleted and last is not None
            self._check_owned(name, process.owner)
        process.acting = False
        self._creating = self._creating and last is not None

    def _find(self, process: Process) -> Stored[Ledger] | None:
        found = process.store.read() or process.store.undelete()
        if found is None and self.truth.last is not None:
            raise ConflictError("The ledger was deleted.")
        return found

    def _begin(self, process: Process) -> None:
        process.acting = True
        process.faults.begin(
            busy=self.draws.random() < 0.04,
            lost=self.draws.choice((LOST, LOST - 1)) if self.draws.random() < 0.08 else 0,
        )

    def _some(self) -> tuple[Process, DocumentOwner[Ledger]] | None:
        owners = [(each, each.owner) for each in self.processes if each.owner is not None and not each.acting]
        return self.draws.choice((*owners, *owners[-1:] * 3)) if owners else None

    def _delete(self) -> None:
        if self._creating:
            return
        self.truth.seen["deleted"] += self.truth.stored is not None
        self.account.container("box").delete(BLOB)

    def _undelete(self) -> None:
        if self.truth.stored is None and self.truth.last is not None:
            self._operator.undelete()

    def _wake_late(self) -> None:
        """Requests of processes that may be long dead arrive."""
        before = self.truth.last
        for each in self.processes:
            each.faults.apply_late_effects()
        self.truth.seen["a late write takes effect"] += self.truth.last != before

    def _change(self) -> None:
        found = self._some()
        if found is None:
            return
        process, owner = found
        entry = process.next_entry()
        if self._acted(process, owner, lambda: owner.change(added(entry))):
            self.truth.acknowledged.append(entry)
            self._check_owned(process.name, owner)

    def _nothing(self) -> None:
        """A change that changes nothing finds out who owns the ledger."""
        found = self._some()
        if found is None:
            return
        process, owner = found
        if self._acted(process, owner, lambda: owner.change(lambda ledger: ledger)):
            self._check_owned(process.name, owner)

    def _replace(self) -> None:
        found = self._some()
        if found is None:
            return
        process, owner = found
        entry = process.next_entry()
        document = replace(owner.document, entries=(*owner.document.entries, entry))
        written: list[bool] = []
        if not self._acted(process, owner, lambda: written.append(owner.replace(document))):
            return
        if written == [True]:
            self.truth.acknowledged.append(entry)
        elif self.truth.stored is not None and self.truth.stored.write_id == process.last_id:
            raise Violation(f"{process.name} has written {entry}, and is told that it has not")
        self.truth.seen["a replacement meets another change"] += written == [False]

    def _acted(self, process: Process, owner: DocumentOwner[Ledger], act: Callable[[], object]) -> bool:
        """Whether the operation has returned."""
        seen, sleeping = self.truth.seen, not self._owns(owner)
        seen["a process that has lost the ledger wakes"] += sleeping
        self._begin(process)
        try:
            act()
        except FencedError:
            seen["a change is fenced"] += 1
            if self._owns(owner):
                raise Violation(f"{process.name} owns the ledger, and is fenced") from None
        except ConflictError:
            seen["a change misses a deleted ledger"] += 1
        except TransientError as error:
            seen[f"a change {'gives up' if GIVES_UP in str(error) else 'stays unknown'}"] += 1
        else:
            process.acting = False
            return True
        process.acting = False
        return False

    def _owns(self, owner: DocumentOwner[Ledger]) -> bool:
        last = self.truth.last
        return last is not None and (last.epoch, last.writer) == (owner.document.epoch, owner.document.writer)

    def _check_owned(self, name: str, owner: DocumentOwner[Ledger]) -> None:
        """What is confirmed is so: nobody acts between the last answer and this."""
        if self.truth.stored != owner.document:
            raise Violation(f"{name} has {owner.document}, and stored is {self.truth.stored}")

    def _check_possible(self, name: str, owner: DocumentOwner[Ledger]) -> None:
        """An owner knows what may be stored, unless the operator has changed it."""
        last = self.truth.last
        if last is None or not self._owns(owner) or self.truth.makers[last.write_id] == "":
            return
        possible = {each.entries for each in owner.possible}
        if last.entries not in possible:
            raise Violation(f"{last} is stored, and {name} knows of {possible}")
        self.truth.seen["a write without an answer is stored"] += last.entries != owner.document.entries


def run_seed(seed: int) -> tuple[str | None, Counter[str]]:
    """What was violated in a history, and what has happened in it."""
    world = World(seed)
    try:
        world.run()
    except (Violation, AzureBlobError) as violation:
        return f"{type(violation).__name__}: {violation}", world.truth.seen
    return None, world.truth.seen
