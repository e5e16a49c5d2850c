"""Coordination: take-overs of real processes and of simulated ones, what it requests of storage, and large jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import coordination_costs, coordination_model, coordination_processes

if TYPE_CHECKING:
    from benchmarks.report import Report


def run(rounds: int, copies: int) -> list[Report]:  # noqa: ARG001 - no flights
    """One table of real processes, and those of the simulation."""
    return [coordination_processes.table(rounds), *coordination_model.tables(rounds), coordination_costs.table()]
