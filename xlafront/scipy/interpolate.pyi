# Written by `python -m tests.stubs`.
from xlafront.scipy.regular_grids import RegularGridInterpolator as RegularGridInterpolator

