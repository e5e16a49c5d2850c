"""Of a key that a map has more than once, the last entry is kept: against a dict for each map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrow_avro.decoding.duplicate_keys import entries_to_keep

pytestmark = pytest.mark.usefixtures("each_decoder")

# Texts that are easily taken for one another: of few characters, with zeros, with the same beginning and end.
TEXTS = st.one_of(st.text("a\0", max_size=3), st.text("ab", max_size=2).map(lambda middle: f"--------{middle}--------"))
KEYS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "string": (pa.string(), TEXTS),
    "bytes": (pa.binary(), TEXTS.map(str.encode)),
    "int": (pa.int32(), st.integers(-3, 3)),
    "long": (pa.int64(), st.sampled_from([-(2**63), 2**63 - 1, -1, 0, 1])),
    "boolean": (pa.bool_(), st.booleans()),
    "struct": (pa.struct([("x", pa.int32())]), st.builds(lambda number: {"x": number}, st.integers(0, 3))),
}


def kept(maps: list[list[Any]]) -> list[list[int]]:
    """The places of the entries that each map keeps, counted over all maps."""
    start, places = 0, []
    for keys in maps:
        last = {str(key): start + place for place, key in enumerate(keys)}
        places.append(sorted(last.values()))
        start += len(keys)
    return places


@pytest.mark.parametrize("kind", KEYS)
@given(st.data())
def test_of_equal_keys_in_a_map_the_last_entry_is_kept(kind: str, data: st.DataObject) -> None:
    arrow, values = KEYS[kind]
    one = st.lists(values, max_size=5)
    alike = st.builds(lambda keys, count: [keys] * count, one, st.integers(1, 4))
    maps = data.draw(st.one_of(st.lists(one, min_size=1, max_size=4), alike))
    expected = kept(maps)
    keys = pa.array([key for each in maps for key in each], arrow)
    found = entries_to_keep(np.array([len(each) for each in maps], np.int64), keys)
    if [len(each) for each in expected] == [len(each) for each in maps]:
        assert found is None
    else:
        assert found is not None
        counts, places = found
        assert [len(each) for each in expected] == counts.tolist()
        assert [place for each in expected for place in each] == places.to_pylist()
