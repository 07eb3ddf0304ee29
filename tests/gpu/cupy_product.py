"""A matrix product and a reduction with CuPy; CUPY_POOL=off: every array is a cudaMalloc of its own."""
import os

import cupy

if os.environ.get("CUPY_POOL") == "off":
    cupy.cuda.set_allocator(None)

a = cupy.arange(512 * 512, dtype=cupy.float32).reshape(512, 512) % 7
b = a @ a.T
total = float(cupy.asarray(b, dtype=cupy.float64).sum())
pool = cupy.get_default_memory_pool()
del a, b
pool.free_all_blocks()
print(f"ok cupy_product sum {total:.1f}")
