"""Special functions that are computed by series, fractions and loops, elementwise. `xlafront.lax` names them."""
