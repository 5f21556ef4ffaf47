"""Functions from functions to functions: `jit` and its kin."""
