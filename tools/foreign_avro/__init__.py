"""Reads Avro files of other writers, and compares every row with fastavro's."""
