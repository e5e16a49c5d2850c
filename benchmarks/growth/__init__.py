"""How the cost of writes and reads grows, beside peers: one property of the data grows at a time, the others stay.

points      what grows: rows, columns, partitions, blobs, versions committed before, cores
contenders  how each of them writes and reads by Spark
job         the program that does so, on Spark 4.0, the newest that Delta 4.0.1 runs on; one process a decoder
histories   streams, tables and folders with versions that were committed before
section     `python -m benchmarks growth`: the contenders take turns; a proxy counts their requests
figure      the plots and the growth rates of its figures
"""
