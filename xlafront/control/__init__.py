"""Structured control flow: primitives with jaxprs as parameters (loops, branches, solves), and the functions built on them."""
