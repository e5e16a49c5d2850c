"""Which scanner reads: the compiled one where it is installed, else the Forth machine. Both give the same values.

Variable AZUREBLOB_DECODER is `auto` (the default), `native` or `pure`. The last two allow no other.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from arrow_avro.decoding.forth_scan import ForthScanner
    from arrow_avro.decoding.native_scan import NativeScanner

VARIABLE = "AZUREBLOB_DECODER"

Scanner: TypeAlias = "ForthScanner | NativeScanner"

logger = logging.getLogger("arrow_avro")


def scanner_class() -> type[Scanner]:
    """The class of the scanners to use. Raises ConfigurationError if the one that was asked for is not installed."""
    return chosen(os.environ.get(VARIABLE, "auto"))


@cache
def chosen(wanted: str) -> type[Scanner]:
    """The class of the scanners, by what is wanted and what is installed. The log says it once."""
    installed = find_spec("pyspark_azureblob_native") is not None
    found = ("native" if installed else "pure") if wanted == "auto" else wanted
    if found == "pure":
        from arrow_avro.decoding.forth_scan import ForthScanner  # noqa: PLC0415 - loaded only where it reads

        logger.info("Avro is decoded by the decoder in pure Python")
        return ForthScanner
    if found != "native":
        raise ConfigurationError(f"variable {VARIABLE} is {wanted!r}. Set it to auto, native or pure.")
    if not installed:
        step = f"Install pyspark-azureblob[native], or set {VARIABLE} to auto."
        raise ConfigurationError(f"variable {VARIABLE} is native, but the compiled decoder is not installed. {step}")
    from arrow_avro.decoding.native_scan import NativeScanner  # noqa: PLC0415 - loaded only where it reads

    logger.info("Avro is decoded by the compiled decoder")
    return NativeScanner
