#!/usr/bin/env python3
"""What frameworks of Python plug in, on the simulated CUDA: stubs/ stands for the frameworks. The examples compile.

usage: python_doors.py SOURCE LIBRARY-FOLDER SIMULATED-CUDA
"""

import ctypes
import os
import pathlib
import py_compile
import sys
import tempfile


def expect_error(kind, word, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        assert word in str(error), error
        return
    raise AssertionError(f"no {kind.__name__}")


def programs_compile(source):
    files = [*(source / "examples/python").glob("*.py"), *(source / "tools/python").rglob("*.py")]
    assert len(files) >= 6, files
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            py_compile.compile(str(file), cfile=f"{folder}/compiled", doraise=True)


def live(core):
    """Blocks that the resource in use has."""

    class Info(ctypes.Structure):
        _fields_ = [("struct_size", ctypes.c_size_t), ("live_count", ctypes.c_uint64), ("live_bytes", ctypes.c_uint64), ("mismatches", ctypes.c_uint64)]

    core.gpumem_plug_resource.restype = ctypes.c_void_p
    info = Info(ctypes.sizeof(Info))
    assert core.gpumem_resource_get_info(ctypes.c_void_p(core.gpumem_plug_resource()), ctypes.byref(info)) == 0
    assert info.mismatches == 0
    return info.live_count


def functions(plug, core):
    expect_error(ValueError, "no-such-name", plug.use, "no-such-name")
    plug.use("limit(64MiB,async)")
    expect_error(ValueError, "limit(64MiB,async)", plug.use, "native")
    memory = plug.allocate(1 << 20, 0)
    assert memory and live(core) == 1
    plug.record_stream(memory, 0)
    plug.free(memory, 1 << 20, 0)
    assert plug.allocate(0, 0) == 0 and live(core) == 0
    expect_error(MemoryError, "", plug.allocate, 65 << 20, 0)
    plug.trim()


def pytorch(plug, core):
    import torch

    torch.cuda.memory.change_current_allocator(plug.pytorch_allocator())
    ones = torch.ones(1000, device="cuda")
    assert ones.sum() == 1000 and live(core) == 1
    ones.record_stream(None)
    del ones
    assert live(core) == 0
    torch.cuda.empty_cache()


def cupy(plug, core):
    import cupy

    malloc = plug.cupy_allocator()
    blocks = [malloc(size) for size in (512, 1 << 20)]
    assert live(core) == 2 and blocks[0].ptr != blocks[1].ptr
    cupy.stream.ptr = 2  # the per-thread stream; blocks go back to the stream that they came from
    del blocks
    assert live(core) == 0
    expect_error(MemoryError, str(65 << 20), malloc, 65 << 20)


def numba(plug, core):
    import numba

    manager = plug.numba_memory_manager()(numba.context)
    block = manager.memalloc(4096)
    assert manager.interface_version == 1 and block.size == 4096 and block.pointer.value and live(core) == 1
    del block
    assert live(core) == 0
    info = manager.get_memory_info()
    assert 0 < info.free <= info.total
    expect_error(NotImplementedError, "other processes", manager.get_ipc_handle, None)


def residency(plug, core):
    from array import array

    from gpumem.residency import Residency, read_write, write

    size = 1 << 16
    host = [array("B", [7 + i]) * size for i in range(4)]
    with Residency(budget=3 * size, staging=1 << 17) as copies:
        layers = [copies.register(one) for one in host]
        copies.announce(layers)
        assert copies.prefetch(layers[:2]) == 2
        for layer in layers:
            with copies.use(layer) as (copy,):
                assert copy.__cuda_array_interface__["shape"] == (size,) and copy.address
        counts = copies.stats()
        assert (counts["hits"], counts["misses"], counts["evictions"]) == (2, 4, 1), counts
        with copies.use(read_write(layers[0])) as (copy,):
            ctypes.CDLL("libcuda.so.1").cuMemsetD8Async(ctypes.c_uint64(copy.address), ctypes.c_ubyte(9), ctypes.c_size_t(16), None)
        assert bytes(copies.sync(layers[0])[:17]) == bytes([9] * 16 + [7])
        made = copies.result(256)
        with copies.use(write(made)) as (copy,):
            ctypes.CDLL("libcuda.so.1").cuMemsetD8Async(ctypes.c_uint64(copy.address), ctypes.c_ubyte(3), ctypes.c_size_t(256), None)
        assert bytes(copies.sync(made)) == bytes([3] * 256)
        host[1][0] = 99
        copies.update(layers[1], 1)
        copies.unregister(layers[3])
        expect_error(ValueError, "was unregistered", copies.announce, layers)
        with copies.use(layers[0], layers[1], layers[2]):
            extra = copies.register(array("B", [1]) * size)
            expect_error(MemoryError, "nothing can be evicted", copies.use(extra).__enter__)
    expect_error(ValueError, "fifo", Residency, 0, "fifo")


def main(source):
    programs_compile(pathlib.Path(source))
    sys.path[:0] = [str(pathlib.Path(__file__).parent / "stubs"), f"{source}/tools/python"]
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    import gpumem
    from gpumem import plug

    core = ctypes.CDLL(gpumem.core_library())
    for part in (functions, pytorch, cupy, numba, residency):
        part(plug, core)


if __name__ == "__main__":
    folders = f"{sys.argv[2]}:{sys.argv[3]}"
    if os.environ.get("LD_LIBRARY_PATH") != folders:  # read by the linker at the start of a program
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "LD_LIBRARY_PATH": folders})
    main(sys.argv[1])
