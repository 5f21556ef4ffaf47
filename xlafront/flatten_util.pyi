# Written by `python -m tests.stubs`.
from xlafront.numpy.flatten_util import ravel_pytree as ravel_pytree

