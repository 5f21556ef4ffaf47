"""Measurements against JAX, NumPy and PyTorch, each in processes of its own: `python -m benchmarks --against jax`."""
