"""How the entries of a version are found.

partitions  the open databases of a view
disk        multi-gets of RocksDB
memory      all values in arrays, found by a hash of the key
adaptive    the one first, and the other when it pays
key_index   the hash
limit       how much one look-up may find
contents    all entries of a partition, verified
"""
