# Written by `python -m tests.stubs`.
from xlafront.core.refs import AbstractRef as AbstractRef
from xlafront.lax.refs import _RefMeta as __RefMeta
from xlafront.lax.refs import _set as _source_set
from xlafront.lax.refs import addupdate as addupdate
from xlafront.lax.refs import empty_ref as empty_ref
from xlafront.lax.refs import free_ref as free_ref
from xlafront.lax.refs import freeze as freeze
from xlafront.lax.refs import get as get
from xlafront.lax.refs import new_ref as new_ref
from xlafront.lax.refs import swap as swap

Ref: __RefMeta
set = _source_set
