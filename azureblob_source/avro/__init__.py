"""Avro: schemas, the column-wise encoder, the decoder with schema resolution, container files. Pure.

schema    schema_parser ─► types ─► schema; defaults, compatibility (Arrow and Avro), nesting and limits
writing   encoding: choice ─► columns, numbers, nested ─► pieces ─► assembly; encode is the entry point
reading   files: container_file, splitting, block_codecs ─► decoding: resolve ─► plan ─► program ─► scan ─► arrays
"""
