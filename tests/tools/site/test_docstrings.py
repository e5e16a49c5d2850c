"""Docstrings of this house as reStructuredText."""

from __future__ import annotations

import pytest

from tools.site.docstrings import Part, parts, rest


def test_a_docstring_has_text_code_items_and_errors() -> None:
    text = """Join rows with `a_store`.

    join(rows)
    show()

```python
def f(x):

    return x
```

rows: a DataFrame. Its columns: any.
keys, values: columns, in
    their order.
other: no parameter.

Slow. `ConfigurationError` if a column is missing, `NotFoundError` without a version: see `fill`. Call it again then.
"""
    assert parts(text, {"rows", "keys", "values"}) == [
        Part("text", "Join rows with `a_store`."),
        Part("code", "    join(rows)\n    show()"),
        Part("code", "def f(x):\n\n    return x"),
        Part("item", "a DataFrame. Its columns: any.", "rows"),
        Part("item", "columns, in their order. other: no parameter.", "keys"),
        Part("item", "columns, in their order. other: no parameter.", "values"),
        Part("text", "Slow."),
        Part("error", "if a column is missing.", "ConfigurationError"),
        Part("error", "without a version: see `fill`. Call it again then.", "NotFoundError"),
    ]


def test_items_may_stand_in_one_line() -> None:
    assert [
        Part("text", "A checkpoint."),
        Part("item", "its number.", "id"),
        Part("item", "texts by key.", "offsets"),
    ] == parts("A checkpoint. id: its number. offsets: texts by key.", {"id", "offsets"})


@pytest.mark.parametrize(
    "sentence",
    [
        "After a `TransientError` the files stay.",
        "The directory must not change: `ConflictError` if it does.",
        "`FencedError` is final.",
    ],
)
def test_an_error_within_a_sentence_stays_there(sentence: str) -> None:
    assert [Part("text", sentence)] == parts(sentence)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Raises CorruptError for bytes that are no rows.", "for bytes that are no rows."),
        ("`CorruptError`, which names the blob, for such bytes; more.", "which names the blob, for such bytes; more."),
    ],
)
def test_an_error_may_be_introduced(text: str, expected: str) -> None:
    assert [Part("error", expected, "CorruptError")] == parts(text)


def test_a_list_of_modules_and_a_diagram_are_code() -> None:
    table = "backup/     back up\nrecord/     which there are"
    assert [Part("code", table)] == parts(table)
    assert [Part("code", "    rows ─► envelopes")] == parts("    rows ─► envelopes")


def test_code_is_a_role_that_may_be_a_link_and_other_markup_is_text() -> None:
    assert [
        r"\*not\* :py:obj:`emphasis`, ``a.b`` and ``<x>``, a\_ name",
        "",
        ":param given: ``container/path``",
        ":raises FencedError: if it is lost.",
        "",
    ] == rest(
        "*not* `emphasis`, `a.b` and `<x>`, a_ name\n\ngiven: `container/path`\n\n`FencedError` if it is lost.",
        {"given"},
    )
