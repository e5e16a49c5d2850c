"""A store is filled: rows of DataFrames and streams become its versions."""
