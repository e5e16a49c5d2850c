"""Avro: schemas, the column-wise encoder, the decoder with resolution, container files. Pure.

writing   types ─ schema ─ fit ─► column_codec (columns, numbers, nested, default) ─► pieces ─ assembly ─► encode
reading   container_file ─ compression ─► wire ─ plan ─ resolve ─ arrays ─► decode
"""
