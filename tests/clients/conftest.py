"""The tests here run with both decoders."""

from tests.arrow_avro.conftest import each_decoder

__all__ = ["each_decoder"]
