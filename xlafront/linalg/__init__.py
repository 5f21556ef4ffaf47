"""Algorithms on matrices, written with NumPy's functions; loaded when first used."""
