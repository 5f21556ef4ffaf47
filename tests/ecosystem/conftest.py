"""These tests need the libraries of the extra `ecosystem` (`pip install '.[ecosystem]'`), and are there where it is installed."""

from importlib.util import find_spec

collect_ignore = ["test_ecosystem.py"] if any(find_spec(library) is None for library in (
    "blackjax", "chex", "diffrax", "distrax", "equinox", "flax", "haiku", "jmp", "keras", "numpyro", "optax", "optimistix", "orbax",
    "penzai", "tensorflow_probability")) else []
