"""Read-only key-value stores that DataFrames and streams fill, for joins inside tasks.

    fill   rows ─► partition of each key ─► a task for each partition: entries into RocksDB ─► checkpoint ─► version
    read   a batch's pin ─► version ─► checkpoints, once per host ─► view ─► values of the batch's keys

encoding/   keys and values as bytes; which partition has a key
engine/     a partition on disk, in RocksDB: changes are applied with their position, all or nothing
versions/   what is published: the manifest, the one fill, the pins of readers
host/       one copy of a checkpoint on a host, for all its processes
forms/      how a process holds a version: in RocksDB, or all of it in memory
view        a version, opened for reading: look up, get, scan
verifying   whether versions can be read, and what is in them is where it belongs
metrics     what fills and readers count
spark/      stores in Spark: fill them, join with them
cli/        list, get, verify
"""
