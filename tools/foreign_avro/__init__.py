"""Reads Avro files that others wrote, and compares every row with what fastavro reads."""
