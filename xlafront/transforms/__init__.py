"""Functions from functions to functions, on what programs do: differentiation, batching, rules of users."""
