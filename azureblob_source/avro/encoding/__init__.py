"""Arrow columns become Avro."""
