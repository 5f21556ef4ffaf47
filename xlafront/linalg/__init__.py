"""Linear algebra: factorizations, spectra and polynomials. Loaded on first use."""
