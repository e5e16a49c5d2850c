"""What readers find after a streaming job was killed: the format `azureblob` beside three other ways to write files.

job       the program that is killed: numbered rows from files into one of the sinks, checkpointed on the local disk
lives     starts it, kills it and all its processes at a chosen request to the storage, starts it again
listing   what a tool sees that lists the folder, each second and at the end
section   `python -m benchmarks kills`: all of it for each sink, as a table
"""
