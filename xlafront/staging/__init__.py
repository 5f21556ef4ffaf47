"""From a call to a compiled program: signatures, tracing, devices and shardings, lowering, dispatch."""
