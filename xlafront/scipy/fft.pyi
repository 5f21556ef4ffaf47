# Written by `python -m tests.stubs`.
from xlafront.scipy.cosine_transforms import dct as dct
from xlafront.scipy.cosine_transforms import dctn as dctn
from xlafront.scipy.cosine_transforms import idct as idct
from xlafront.scipy.cosine_transforms import idctn as idctn

