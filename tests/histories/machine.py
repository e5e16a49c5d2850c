"""Random histories of a state machine, the same ones on every run of the same tests.

Hypothesis also draws constants that it finds in the modules that are loaded, so other tests make other histories.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


class SeededMachine(RuleBasedStateMachine):
    """A state machine with many small choices of its own. Rules add what they have drawn to `seed`."""

    seed = 0

    def draw(self, below: int) -> int:
        """The next number of the history, less than `below`."""
        self.seed = (self.seed * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.seed >> 4) % below


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
