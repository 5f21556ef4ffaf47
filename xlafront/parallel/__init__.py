"""Computations over several devices and processes."""
