"""CuPy computes in memory of gpumem: products on two streams, each checked.

usage: cupy_allocator.py [RESOURCE]; RESOURCE: text of the resource, as libgpumem(7) describes it; async unless given.
"""

import sys

import cupy

from gpumem import plug

if len(sys.argv) > 1:
    plug.use(sys.argv[1])
cupy.cuda.set_allocator(plug.cupy_allocator())

wrong = 0
for stream in (cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)):
    with stream:
        for size in (64, 256, 1024):
            a = cupy.arange(size * size, dtype=cupy.float32).reshape(size, size) % 7
            product = a @ cupy.eye(size, dtype=cupy.float32) - a
            wrong += int(cupy.count_nonzero(product))
    stream.synchronize()
print("ok cupy_allocator", wrong, "wrong")
