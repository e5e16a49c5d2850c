"""Keys and values as bytes. Pure.

schema      the columns of a store
keys        keys in bytes that have their order
spark_hash  the partition of a key, as Spark computes it
values      values as Avro datums
arrays      Arrow arrays from bytes and numpy
"""
