"""Differentiation: dual values, linear programs and their transposes, and the functions made of them."""
