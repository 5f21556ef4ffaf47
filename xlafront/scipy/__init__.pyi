# Written by `python -m tests.stubs`.
from xlafront.scipy import cluster as cluster
from xlafront.scipy import fft as fft
from xlafront.scipy import integrate as integrate
from xlafront.scipy import interpolate as interpolate
from xlafront.scipy import linalg as linalg
from xlafront.scipy import ndimage as ndimage
from xlafront.scipy import optimize as optimize
from xlafront.scipy import signal as signal
from xlafront.scipy import sparse as sparse
from xlafront.scipy import spatial as spatial
from xlafront.scipy import special as special
from xlafront.scipy import stats as stats

