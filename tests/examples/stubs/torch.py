"""As much of PyTorch as plugs in an allocator: tensors of floats whose memory comes from it. Runs on the simulated CUDA, where
the host reaches device memory."""

import contextlib
import ctypes
import types

_MALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_RECORD = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_RESET = ctypes.CFUNCTYPE(None)
_plugged = None


class CUDAPluggableAllocator:
    """PyTorch looks both functions up by name, and takes the further ones as addresses on the inner object."""

    def __init__(self, path, malloc, free):
        library = ctypes.CDLL(path)
        self.malloc, self.free = _MALLOC((malloc, library)), _FREE((free, library))
        self.record_stream = self.reset = None

    def allocator(self):
        return self

    def set_record_stream_fn(self, address):
        self.record_stream = _RECORD(address)

    def set_reset_fn(self, address):
        self.reset = _RESET(address)


class Tensor:
    def __init__(self, count, value):
        self.bytes = 4 * count
        self.memory = _plugged.malloc(self.bytes, 0, None)
        if not self.memory:
            raise RuntimeError("an illegal memory access was encountered")
        self.values = (ctypes.c_float * count).from_address(self.memory)
        self.values[:] = [value] * count

    def sum(self):
        return sum(self.values)

    def record_stream(self, stream):
        _plugged.record_stream(self.memory, stream)

    def __del__(self):
        if getattr(self, "memory", None):
            _plugged.free(self.memory, self.bytes, 0, None)


def _begin():
    """PyTorch makes the device's primary context current when it is first used."""
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    for result in driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), driver.cuCtxSetCurrent(context):
        assert result == 0


def ones(count, device):
    assert device == "cuda" and _plugged
    _begin()
    return Tensor(count, 1.0)


def _change(allocator):
    global _plugged
    _plugged = allocator


cuda = types.SimpleNamespace(
    memory=types.SimpleNamespace(CUDAPluggableAllocator=CUDAPluggableAllocator, change_current_allocator=_change),
    empty_cache=lambda: _plugged.reset(),
    MemPool=object,
    use_mem_pool=contextlib.nullcontext,
)
