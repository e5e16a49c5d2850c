"""The command line: who leads and who runs what (`status`), and a program that runs under leadership (`run`)."""
