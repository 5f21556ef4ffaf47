"""Elementwise special functions computed by series, continued fractions and loops; exported by `xlafront.lax`."""
