"""Systems of equations, minima and differential equations, by iteration."""
