# Written by `python -m tests.stubs`.
from xlafront.random.stateful import StatefulPRNG as StatefulPRNG
from xlafront.random.stateful import stateful_rng as stateful_rng

