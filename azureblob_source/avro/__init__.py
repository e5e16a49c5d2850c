"""Avro: schemas, the column-wise encoder, the decoder with resolution, container files. Pure.

writing   types ─ schema ─ fit ─► column_codec (columns, numbers, nested) ─► pieces ─ assembly ─► encode
reading   container_file ─ splitting ─ compression ─► resolve ─ plan ─► program ─ scan ─► arrays ─► decode
"""
