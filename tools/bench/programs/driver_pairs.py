"""Pairs of cuMemAlloc and cuMemFree by the driver, as `pair:BYTES`. Each line of standard input is a number of pairs, measured when it
comes. Usage: driver_pairs.py BYTES. One line of the bench's kind for each measure."""
import ctypes
import sys
import time

SKIP = 77
size = int(sys.argv[1])
try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit(SKIP)
context, address = ctypes.c_void_p(), ctypes.c_uint64()
if driver.cuInit(0) or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or driver.cuCtxSetCurrent(context):
    sys.exit(SKIP)
allocate, free, place, bytes_of = driver.cuMemAlloc_v2, driver.cuMemFree_v2, ctypes.byref(address), ctypes.c_size_t(size)


def pair():
    begin = time.perf_counter_ns()
    failed = allocate(place, bytes_of) or free(address)
    took = time.perf_counter_ns() - begin
    if failed:
        sys.exit(f"error {failed}")
    return took


for _ in range(100):
    pair()
for line in sys.stdin:
    times = sorted(pair() for _ in range(int(line)))
    print(f"pair:{size}", len(times), times[0], times[len(times) // 2], times[-1], f"mean={sum(times) // len(times)}", flush=True)
