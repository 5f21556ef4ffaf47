"""Compilation of kernels for NVIDIA GPUs, by Triton.

`kernel` writes the module of a `pallas_call` and the custom call that holds it. XLA's plugin for CUDA compiles it; neither the
plugin nor a GPU is needed to lower. `memory` turns references into pointers and masks, `operations` has the rules of other
primitives, `writer` the types and shapes of Triton's tensors.
"""
