"""Sparse arrays: formats, the operations on them, and functions of dense arrays made functions of sparse ones."""
