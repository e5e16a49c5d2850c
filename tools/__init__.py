"""Set-up of a checkout, and what its tests, demo and benchmarks run: Java, Node, Azurite, a local Spark, processes.

Not part of the product.
"""
