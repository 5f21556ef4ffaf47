"""Loops and branches: operations that contain programs, and the functions made of them."""
