"""Avro becomes Arrow columns."""
