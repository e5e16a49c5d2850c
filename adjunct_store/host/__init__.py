"""What the processes of one host share on its disk: fetched versions to read, and directories to write, under locks."""
