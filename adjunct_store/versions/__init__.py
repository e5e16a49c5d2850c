"""Which versions a store has, who may fill it, and which version a batch of a reader uses.

names           the blobs of a store
manifest        generations and versions: what is published
recovery        whether a fill may continue the generation that it finds
transitions     the changes of a manifest
pin             what a task does with the pin that it finds
cleaning        versions that no pin uses, and blobs that no generation has
opening         what a fill finds, before it takes the store over
manifest_store  the fill: it changes the manifest
pins            the readers: they pin versions
"""
