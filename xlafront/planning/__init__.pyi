# Written by `python -m tests.stubs`.
from xlafront.planning.compiling import plan as plan
from xlafront.planning.costs import Buffer as Buffer
from xlafront.planning.costs import Collective as Collective
from xlafront.planning.remat import Choice as Choice
from xlafront.planning.remat import RematPlan as RematPlan
from xlafront.planning.remat import plan_remat as plan_remat
from xlafront.planning.report import Memory as Memory
from xlafront.planning.report import Plan as Plan
from xlafront.planning.search import plan_search as plan_search
from xlafront.planning.search_report import Candidate as Candidate
from xlafront.planning.search_report import SearchResult as SearchResult

