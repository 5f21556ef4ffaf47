"""Batching: operations over one more dimension, and `vmap`."""
