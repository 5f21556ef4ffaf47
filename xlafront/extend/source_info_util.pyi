# Written by `python -m tests.stubs`.
from xlafront.core.source import SourceInfo as SourceInfo
from xlafront.interpreters.source_info_util import NameStack as NameStack
from xlafront.interpreters.source_info_util import Scope as Scope
from xlafront.interpreters.source_info_util import current as current
from xlafront.interpreters.source_info_util import current_name_stack as current_name_stack
from xlafront.interpreters.source_info_util import extend_name_stack as extend_name_stack
from xlafront.interpreters.source_info_util import new_name_stack as new_name_stack
from xlafront.interpreters.source_info_util import new_source_info as new_source_info
from xlafront.interpreters.source_info_util import register_exclusion as register_exclusion
from xlafront.interpreters.source_info_util import reset_name_stack as reset_name_stack
from xlafront.interpreters.source_info_util import set_name_stack as set_name_stack
from xlafront.interpreters.source_info_util import summarize as summarize
from xlafront.interpreters.source_info_util import transform_name_stack as transform_name_stack
from xlafront.interpreters.source_info_util import user_context as user_context

