"""The commit log of a stream: commit a batch in it, publish the batch, or void what cannot be published."""
