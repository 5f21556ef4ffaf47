"""Ordinary differential equations."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.solvers.ode": """abs2 fit_4th_order_polynomial initial_step_size interp_fit_dopri mean_error_ratio odeint
        optimal_step_size ravel_first_arg runge_kutta_step""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
