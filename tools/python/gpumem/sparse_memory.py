"""Where gpumem.sparse takes device memory: the pools of PyTorch and CuPy, or any object that has

    allocate(size, device, stream) -> address        free(address, size, device, stream)

as gpumem.plug does, whose memory is that of a resource. Memory is used in the order of `stream`, an integer.
"""

import ctypes
import sys

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class _Torch:
    """PyTorch's current allocator. A tensor holds each block, so that PyTorch knows which streams use it."""

    def __init__(self):
        self.held = {}

    def allocate(self, size, _, stream):
        import torch

        with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
            tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
        self.held[tensor.data_ptr()] = tensor, stream
        return tensor.data_ptr()

    def free(self, address, _, __, stream):
        import torch

        tensor, allocated = self.held.pop(address)
        if stream != allocated:
            tensor.record_stream(torch.cuda.ExternalStream(stream))


class _CuPy:
    """CuPy's current allocator. Its pool gives a block to the next user in the stream of the allocation."""

    def __init__(self):
        self.held = {}

    def allocate(self, size, _, stream):
        import cupy

        with cupy.cuda.ExternalStream(stream):
            memory = cupy.cuda.alloc(size)
        self.held[memory.ptr] = memory, stream
        return memory.ptr

    def free(self, address, _, __, stream):
        import cupy

        memory, allocated = self.held.pop(address)
        if stream != allocated:
            cupy.cuda.ExternalStream(allocated).wait_event(cupy.cuda.ExternalStream(stream).record())
        with cupy.cuda.ExternalStream(allocated):
            del memory


_POOLS = {"torch": _Torch, "cupy": _CuPy}


def _device():
    """The current device of the framework that is there."""
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        return sys.modules["torch"].cuda.current_device()
    return sys.modules["cupy"].cuda.Device().id if "cupy" in sys.modules else 0


class Hook:
    """The two functions for the library, as addresses. It must live as long as memory that they have served."""

    def __init__(self, memory):
        source = _POOLS[memory]() if isinstance(memory, str) else memory
        self.error, device = None, _device()

        def allocate(_, size, stream):
            try:
                self.error = None
                return source.allocate(size, device, stream or 0)
            except Exception as error:  # the library says that it is out of memory, and Python why
                self.error = error
                return None

        def free(_, address, size, stream):
            if not sys.is_finalizing():
                source.free(address, size, device, stream or 0)

        self._kept = _ALLOCATE(allocate), _FREE(free)
        self.allocate, self.free = (ctypes.cast(function, ctypes.c_void_p) for function in self._kept)


def hook_of(memory):
    """None: the library's own memory."""
    if memory is None:
        return None
    if isinstance(memory, str) and memory not in _POOLS:
        raise ValueError(f"memory {memory!r} is not one of {', '.join(_POOLS)}")
    if not isinstance(memory, str) and not (hasattr(memory, "allocate") and hasattr(memory, "free")):
        raise TypeError(f"memory of a {type(memory).__name__}, which has no allocate() and free()")
    return Hook(memory)
