# Written by `python -m tests.stubs`.
from xlafront.numpy.segments import segment_max as segment_max
from xlafront.numpy.segments import segment_min as segment_min
from xlafront.numpy.segments import segment_prod as segment_prod
from xlafront.numpy.segments import segment_sum as segment_sum

