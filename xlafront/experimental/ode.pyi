# Written by `python -m tests.stubs`.
from xlafront.solvers.ode import abs2 as abs2
from xlafront.solvers.ode import fit_4th_order_polynomial as fit_4th_order_polynomial
from xlafront.solvers.ode import initial_step_size as initial_step_size
from xlafront.solvers.ode import interp_fit_dopri as interp_fit_dopri
from xlafront.solvers.ode import mean_error_ratio as mean_error_ratio
from xlafront.solvers.ode import odeint as odeint
from xlafront.solvers.ode import optimal_step_size as optimal_step_size
from xlafront.solvers.ode import ravel_first_arg as ravel_first_arg
from xlafront.solvers.ode import runge_kutta_step as runge_kutta_step

