"""Symbolic sizes: expressions over dimension variables, their bounds, and their solution from shapes."""
