# Written by `python -m tests.stubs`.
from xlafront.planning.roofline import RooflineResult as RooflineResult
from xlafront.planning.roofline import RooflineRuleContext as RooflineRuleContext
from xlafront.planning.roofline import RooflineShape as RooflineShape
from xlafront.planning.roofline import register_roofline as register_roofline
from xlafront.planning.roofline import register_standard_roofline as register_standard_roofline
from xlafront.planning.roofline import roofline as roofline
from xlafront.planning.roofline import roofline_and_grad as roofline_and_grad

