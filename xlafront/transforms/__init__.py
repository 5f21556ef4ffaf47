"""Transformations of functions and jaxprs: differentiation, batching, and calls with custom rules."""
