"""From a checkpoint to directories: files downloaded, verified and assembled; and whether checkpoints are whole."""
