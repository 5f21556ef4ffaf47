# Written by `python -m tests.stubs`.
from xlafront.base.layouts import Format as Format
from xlafront.base.layouts import Layout as Layout
from xlafront.lax.layout_constraint import with_layout_constraint as with_layout_constraint

