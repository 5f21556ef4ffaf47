"""Work-arounds for what XLA does badly today; each can be deleted when XLA improves.

This file is the one entry: other rooms import `tuning` and no module of it.

- `compiler_options`: XLA options by program. Small programs use the emitter that compiles faster, few kernels are compiled in
  one part, simulated kernels without optimizations, loops over sampled numbers use wide vectors, and products of int8 the
  library of the GPU's maker.
- `sorting_on_cpu`: sorts of integers in place of sorts by a comparison of floats.
- `wide_loops`: functions of sampled numbers as arithmetic that loops over them vectorize.
- `vectorized_functions`: sines, angles and remainders of large arrays as arithmetic that loops vectorize.
- `reduced_flags`: reductions of booleans as extremes of floats.
- `small_products`: batches of products of small matrices as sums of outer products.
- `called_samplers`: samplers that stay calls, so that their numbers are computed once.

Functions here change how a program is compiled or lowered. Results are the same bits, and each module says why; only the sums
of `small_products` and the `vectorized_functions` are rounded otherwise in their last bit.
"""

from xlafront.tuning.called_samplers import as_one_row, sample_once
from xlafront.tuning.compiler_options import PRODUCTS_OF_BYTES, SIMULATED_KERNELS, tuned_options, without_unrolling
from xlafront.tuning.reduced_flags import lower_reduced_flags, reduces_flags
from xlafront.tuning.small_products import applies as are_products_small, lower as lower_small_products
from xlafront.tuning.sorting_on_cpu import applies as sorts_integers, lower as lower_sort
from xlafront.tuning.vectorized_functions import vectorized
from xlafront.tuning.wide_loops import erf_inv, is_for_one_cpu, log1p, mark_module, wide_rule

__all__ = [
    "PRODUCTS_OF_BYTES", "SIMULATED_KERNELS", "are_products_small", "as_one_row", "erf_inv", "is_for_one_cpu", "log1p",
    "lower_reduced_flags", "lower_small_products", "lower_sort", "mark_module", "reduces_flags", "sample_once",
    "sorts_integers", "tuned_options", "vectorized", "wide_rule", "without_unrolling"]
