"""Times pairs of cuMemAllocAsync and cuMemFreeAsync from Python, by ctypes; a line of the bench's kind for each row.

 - python-same: each pair from the same stack.
 - python-changed: each pair from another function than the pair before, of functions that allocated before.
 - python-new: each pair from a function that never allocated before."""
import ctypes
import time

SAMPLES, FUNCTIONS, DEPTH = 21, 256, 8

driver = ctypes.CDLL("libcuda.so.1")
address, context, device = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_int()
place, size = ctypes.byref(address), ctypes.c_size_t(1 << 20)
allocate, free, stream = driver.cuMemAllocAsync, driver.cuMemFreeAsync, ctypes.c_void_p()


def check(error):
    if error:
        raise SystemExit(77 if error == 100 else f"python_calls.py: error {error} of the driver")


def make(count):
    """Functions of one line each, in files of their own, below DEPTH callers."""
    made = []
    for number in range(count):
        names = {"allocate": allocate, "free": free, "place": place, "size": size, "stream": stream, "address": address}
        lines = ["def f0():", " allocate(place, size, stream); free(address, stream)"]
        for depth in range(1, DEPTH):
            lines += [f"def f{depth}():", f" f{depth - 1}()"]
        exec(compile("\n".join(lines), f"made_{number}_{id(names)}.py", "exec"), names)
        made.append(names[f"f{DEPTH - 1}"])
    return made


def time_each(functions):
    """Nanoseconds a call."""
    begin = time.perf_counter_ns()
    for function in functions:
        function()
    return (time.perf_counter_ns() - begin) / len(functions)


def show(name, samples):
    samples.sort()
    print(name, FUNCTIONS, samples[0], samples[len(samples) // 2], samples[-1])


check(driver.cuInit(0))
check(driver.cuDeviceGet(ctypes.byref(device), 0))
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
check(driver.cuCtxSetCurrent(context))
known = make(FUNCTIONS)
for _ in range(3):
    time_each(known)
show("python-same", [time_each(known[:1] * FUNCTIONS) for _ in range(SAMPLES)])
show("python-changed", [time_each(known) for _ in range(SAMPLES)])
show("python-new", [time_each(functions) for functions in [make(FUNCTIONS) for _ in range(SAMPLES)]])
