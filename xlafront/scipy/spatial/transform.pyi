# Written by `python -m tests.stubs`.
from xlafront.scipy.rotations import Rotation as Rotation
from xlafront.scipy.rotations import Slerp as Slerp

