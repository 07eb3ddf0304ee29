#!/usr/bin/env python3
"""Memory that leaves the device and comes back, by functions of Python and by the interface of torch_memory_saver, on the simulated CUDA.
Run under libgpumem.so with GPUMEM_SUSPEND=on, or without (`none`).

usage: python_suspend.py SOURCE asleep | saver | none
"""

import ctypes
import pathlib
import sys

MIB = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)


def begin():
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)


def block(size, value):
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    call("cuMemsetD8_v2", address, ctypes.c_ubyte(value), ctypes.c_size_t(size))
    return address


def value(address):
    byte = ctypes.c_ubyte()
    call("cuMemcpyDtoH_v2", ctypes.byref(byte), ctypes.c_uint64(address.value + MIB), ctypes.c_size_t(1))
    return byte.value


def free():
    unused, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("cuMemGetInfo_v2", ctypes.byref(unused), ctypes.byref(total))
    return unused.value


def asleep(gpumem):
    weights = block(6 * MIB, 7)
    with gpumem.tag("kv"):
        cache = block(8 * MIB, 9)
    full = free()
    with gpumem.asleep(drop="kv"):
        assert gpumem.suspended() and free() >= full + 14 * MIB
    assert not gpumem.suspended() and free() == full and (value(weights), value(cache)) == (7, 0)
    with gpumem.asleep():
        assert value(weights) == 7 and not gpumem.suspended()
    assert gpumem.suspend(keep="kv", wait=True) == 6 * MIB
    assert gpumem.resume("kv") == 0 and gpumem.resume() == 6 * MIB
    try:
        gpumem.suspend(wait=True, aside=True)
        raise AssertionError("no error")
    except RuntimeError as error:
        assert "set aside" in str(error), error


def saver(gpumem):
    from gpumem.torch_memory_saver import torch_memory_saver

    others = block(4 * MIB, 1)
    with torch_memory_saver.region("weights", enable_cpu_backup=True):
        weights = block(6 * MIB, 7)
        with torch_memory_saver.region("kv"):
            cache = block(8 * MIB, 9)
        with torch_memory_saver.disable():
            scratch = block(2 * MIB, 3)
    full = free()
    torch_memory_saver.pause("kv")
    assert free() == full + 8 * MIB and [value(each) for each in (others, weights, scratch)] == [1, 7, 3]
    torch_memory_saver.pause()
    assert free() == full + 14 * MIB and [value(each) for each in (others, scratch)] == [1, 3]
    torch_memory_saver.resume("weights")
    assert free() == full + 8 * MIB and value(weights) == 7
    torch_memory_saver.resume()
    assert free() == full and value(cache) == 0
    torch_memory_saver.pause("no such tag")
    assert free() == full and torch_memory_saver.enabled


def none(gpumem):
    with gpumem.tag("kv"):
        pass
    assert not gpumem.suspended()
    for move in gpumem.suspend, gpumem.resume:
        try:
            move()
            raise AssertionError("no error")
        except RuntimeError as error:
            assert "gpumem run --suspend=on" in str(error), error


def main(source, part):
    sys.path[:0] = [str(pathlib.Path(__file__).parent / "stubs"), f"{source}/tools/python"]
    import gpumem

    begin()
    {"asleep": asleep, "saver": saver, "none": none}[part](gpumem)
    print("ok", part)


main(*sys.argv[1:])
