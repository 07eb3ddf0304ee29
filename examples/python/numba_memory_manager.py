"""Numba computes in memory of gpumem: a kernel adds two arrays, and the sum is checked.

usage: numba_memory_manager.py [RESOURCE]; RESOURCE: text of the resource, as libgpumem(7) describes it; async unless given.
"""

import sys

import numpy
from numba import cuda

from gpumem import plug

if len(sys.argv) > 1:
    plug.use(sys.argv[1])
cuda.set_memory_manager(plug.numba_memory_manager())


@cuda.jit
def add(total, a, b):
    at = cuda.grid(1)
    if at < total.size:
        total[at] = a[at] + b[at]


a = numpy.arange(1 << 20, dtype=numpy.float32)
first, second, total = cuda.to_device(a), cuda.to_device(2 * a), cuda.device_array_like(a)
add[4096, 256](total, first, second)
print("ok numba_memory_manager", int((total.copy_to_host() != 3 * a).sum()), "wrong")
