"""Ordinary differential equations."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.solvers.ode": """abs2 fit_4th_order_polynomial initial_step_size interp_fit_dopri mean_error_ratio odeint
        optimal_step_size ravel_first_arg runge_kutta_step""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
