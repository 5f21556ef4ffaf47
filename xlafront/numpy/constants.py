"""NumPy's constants, and those of its helpers that work here unchanged."""

from __future__ import annotations

import numpy as np

e, pi, euler_gamma, inf, nan, newaxis = np.e, np.pi, np.euler_gamma, np.inf, np.nan, None
get_printoptions, set_printoptions, printoptions = np.get_printoptions, np.set_printoptions, np.printoptions
index_exp, s_ = np.index_exp, np.s_
ComplexWarning = np.exceptions.ComplexWarning
