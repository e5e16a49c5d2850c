"""JSON documents in blobs that are changed by conditional writes only.

form        how a document is stored: its format version and digest
document    read, create, replace; a lost answer is resolved by the document's write id
owner       a document that one process owns at a time, fenced by an epoch
"""
