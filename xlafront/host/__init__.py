"""Interaction of compiled programs with Python: callbacks, runtime checks, debugging, profiling, storage of arrays."""
