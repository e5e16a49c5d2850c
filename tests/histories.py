"""Random histories of a state machine, the same ones on every run of the same tests.

Hypothesis also draws constants that it finds in the modules that are loaded, so other tests make other histories.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_histories(
    machine: type[RuleBasedStateMachine], examples: int, steps: int, phases: tuple[Phase, ...] = tuple(Phase)
) -> None:
    """Run a state machine for so many histories of at most so many steps."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            phases=phases,
            deadline=None,
            derandomize=True,
            database=None,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
