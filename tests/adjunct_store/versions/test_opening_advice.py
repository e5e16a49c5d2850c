"""What an error advises a fill that finds another store: followed, it helps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from adjunct_store.versions.opening import BY_QUERY
from foundation.errors import ConfigurationError
from tests.adjunct_store.stores import new_account, opened, published

if TYPE_CHECKING:
    from collections.abc import Callable

    from adjunct_store.versions.manifest_store import Fill
    from azure_account.container import BlobContainer

KINDS = ("fill", "fill_stream", "AdjunctStores", "fill_data_sets")


def start(kind: str, container: BlobContainer, source: str, *, rebuild: bool = False) -> Fill:
    """A fill as the functions open it. A streaming query goes on only with a store that it has filled."""
    match kind:
        case "fill":
            return opened(container, source=source, adds=True, rebuild=rebuild)
        case "AdjunctStores":
            return opened(container, source=f"{source}{BY_QUERY}7c", adds=True, rebuild=rebuild)
        case "fill_data_sets":
            return opened(container, source=source, bounded=True, rebuild=rebuild)
    checked: Callable[..., str] = lambda opening: _checked(opening, rebuild=rebuild)  # noqa: E731
    return opened(container, source=source, before_take_over=checked, rebuild=rebuild)


def _checked(opening: object, *, rebuild: bool) -> str:
    generation, base = opening.generation, opening.base  # type: ignore[attr-defined]
    if base is not None and not generation.query and not rebuild:
        raise ConfigurationError("the checkpoint has no batch")
    return "5a"


@pytest.mark.parametrize("there", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_following_the_advice_for_a_store_of_another_source_helps(there: str, kind: str) -> None:
    container = new_account().container("box")
    published(start(there, container, "planes"), 0, sealed=there == "fill_data_sets")
    with pytest.raises(ConfigurationError, match="Check the path of the store") as refused:
        start(kind, container, "batch")
    assert "rebuild=True" in str(refused.value)
    advised = re.search("give source='(.*?)'", str(refused.value))
    assert (kind == there and kind != "AdjunctStores") <= (advised is not None)
    if advised is not None:
        start(kind, container, advised[1])
    start(kind, container, "batch", rebuild=True)
