# Written by `python -m tests.stubs`.
from xlafront.transforms.taylor import JetTrace as JetTrace
from xlafront.transforms.taylor import JetTracer as JetTracer
from xlafront.transforms.taylor import ZeroSeries as ZeroSeries
from xlafront.transforms.taylor import ZeroSeries as _ZeroSeries
from xlafront.transforms.taylor import ZeroTerm as ZeroTerm
from xlafront.transforms.taylor import ZeroTerm as _ZeroTerm
from xlafront.transforms.taylor import def_comp as def_comp
from xlafront.transforms.taylor import def_deriv as def_deriv
from xlafront.transforms.taylor import deflinear as deflinear
from xlafront.transforms.taylor import defzero as defzero
from xlafront.transforms.taylor import deriv_prop as deriv_prop
from xlafront.transforms.taylor import fact as fact
from xlafront.transforms.taylor import jet as jet
from xlafront.transforms.taylor import linear_prop as linear_prop
from xlafront.transforms.taylor import zero_prop as zero_prop
import builtins as _builtins

jet_rules: _builtins.dict
zero_series: _ZeroSeries
zero_term: _ZeroTerm
