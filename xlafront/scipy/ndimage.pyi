# Written by `python -m tests.stubs`.
from xlafront.numpy.resizing import map_coordinates as map_coordinates

