"""Figures that must not rise: long signatures, class names with two meanings, clocks, words to avoid."""

from __future__ import annotations

import re

from tools.figures import (
    NEED_THE_LINE_ABOVE,
    WORDS,
    ambiguous_classes,
    clocks,
    counts,
    docstrings,
    global_clocks,
    long_signatures,
    modules,
    sizes,
    words,
)

CLOCK = "foundation/clock.py"
ASK_THE_GLOBAL_CLOCK = {"azure_account/sdk/attempt_limit.py", "azure_account/sdk/failures.py", "foundation/meters.py"}
MODULES = modules()


def test_public_functions_have_at_most_six_parameters() -> None:
    assert {"coordination/processors/participant.py:Participant.__init__ (9)"} >= set(long_signatures(MODULES))


def test_a_public_class_name_has_one_meaning() -> None:
    assert [] == ambiguous_classes(MODULES)


def test_one_module_asks_the_machine_for_the_time() -> None:
    assert {CLOCK} == {place.partition(":")[0] for place in clocks(MODULES)}


def test_time_is_an_argument() -> None:
    assert ASK_THE_GLOBAL_CLOCK == {place.partition(":")[0] for place in global_clocks(MODULES)}


def test_strings_and_docstrings_use_usual_words() -> None:
    assert [] == words(MODULES)


def test_docstrings_are_understood_without_the_line_above() -> None:
    assert [] == [text for module in MODULES for text in docstrings(module.tree) if NEED_THE_LINE_ABOVE.match(text)]


def test_messages_name_options_in_one_form() -> None:
    bare = re.compile(r"[Oo]ptions? (?:$|[a-z.]+[A-Z])")  # and not: Option `codec` is …
    assert [] == [(module.path, line) for module in MODULES for line, text in module.strings() if bare.match(text)]


def test_the_figures_have_their_lines() -> None:
    assert {"Modules", "Module", "Log", "Docstrings"} == {line.split()[0].rstrip(":") for line in counts(MODULES)}
    assert any(line.startswith("azure_account") for line in sizes(MODULES))


def test_every_kind_of_finding_is_found() -> None:
    assert [] != long_signatures(MODULES, most=3)
    assert ["anew", "is none", "so many", "No more"] == WORDS.findall(
        "anew, is none, is None, so many, no more than two. No more"
    )
