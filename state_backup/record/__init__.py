"""What is in a state's folder in storage: the record, and the blobs that it names."""
