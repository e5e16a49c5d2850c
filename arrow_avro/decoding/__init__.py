"""From Avro to Arrow: `decode` is the entry point, `plan` begins the example that other modules continue."""
