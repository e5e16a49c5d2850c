"""Control messages through intermediate streams: watermarks and ends of streams, in band with the data.

An upstream job of n tasks writes envelopes into a stream of m partitions: a type byte and the data behind it. Behind
its rows every task tells every partition how far it has come (`emission`), and at last that it has ended. The consumer
tells envelopes apart (`envelopes`) and keeps one book of each partition: the watermark is the least of them (`books`).
"""
