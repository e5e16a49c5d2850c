"""Control messages through intermediate streams: watermarks and the end of the stream, in band with the data.

An upstream job of n tasks writes envelopes into a stream of m partitions: a type byte and data. After its rows, every
task sends its watermark to every partition, and at last its end (`producer`). The consumer separates control messages
from user messages (`envelopes`) and keeps a tracker for each partition, whose watermark is the minimum over the tasks
(`partition_tracker`). An operator over several streams takes the minimum of theirs (`combined`). All of this is pure;
`spark` applies it to DataFrames.
"""
