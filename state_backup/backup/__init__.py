"""From directories to a checkpoint: arguments checked, files uploaded, the record written."""
