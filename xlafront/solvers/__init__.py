"""Iterative solvers for linear systems, minimization and ordinary differential equations."""
