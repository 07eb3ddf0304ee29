"""Copies of host arrays on the device under a budget: gpumem_residency.h for PyTorch, CuPy and Numba.

    from gpumem.residency import Residency, write

    layers = Residency(budget=8 << 30)
    weights = [layers.register(tensor) for tensor in pinned_tensors]
    layers.announce(weights)
    for at, weight in enumerate(weights):
        layers.prefetch(weights[at + 1 : at + 2])
        with layers.use(weight, stream=torch.cuda.current_stream().cuda_stream) as (copy,):
            x = x @ copy.torch()

A copy is valid inside of its `with`. Its work goes to the stream that is named there. Streams are integers; 0 is the legacy
default stream. Numbers of objects are integers. The context that is current at the creation is that of the residency.
"""

import contextlib
import ctypes

import gpumem

_core = ctypes.CDLL(gpumem.core_library())
_core.gpumem_last_error.restype = ctypes.c_char_p
_READ, _WRITE, _READ_WRITE = 1, 2, 3
_GPU_ONLY, _DROP, _WAIT, _OUT_OF_MEMORY = 1, 1, 8, 2
_COUNTS = ("hits misses allocations reused reused_evicted evictions written_back given_back given_back_bytes transfers_to_device "
           "bytes_to_device transfers_to_host bytes_to_host copies objects resident resident_bytes pool_bytes peak_bytes "
           "host_bytes allocate_ns evict_ns transfer_ns").split()


class _Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("budget", ctypes.c_size_t), ("eviction", ctypes.c_char_p), ("staging", ctypes.c_size_t),
                ("objects", ctypes.c_size_t), ("window", ctypes.c_size_t), ("seed", ctypes.c_uint64), ("flags", ctypes.c_uint64),
                ("copy_threads", ctypes.c_size_t)]


class _Object(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("address", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("version", ctypes.c_uint64),
                ("flags", ctypes.c_uint64)]


class _Use(ctypes.Structure):
    _fields_ = [("object", ctypes.c_uint64), ("access", ctypes.c_uint64), ("address", ctypes.c_void_p), ("number", ctypes.c_uint64)]


class _Stats(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), *((name, ctypes.c_uint64) for name in _COUNTS)]


def _check(status):
    if status:
        text = _core.gpumem_last_error().decode()
        raise MemoryError(text) if status == _OUT_OF_MEMORY else ValueError(text)


def write(number):
    """All bytes of the object are written: nothing is transferred to the device."""
    return number, _WRITE


def read_write(number):
    """The object is read and changed."""
    return number, _READ_WRITE


class Copy:
    """An object on the device, for everything that takes __cuda_array_interface__: cupy.asarray, numba.cuda.as_cuda_array."""

    def __init__(self, address, about):
        self.address, self._about = address, about

    @property
    def __cuda_array_interface__(self):
        _, size, shape, typestr, _ = self._about
        return {"shape": shape if typestr else (size,), "typestr": typestr or "|u1", "data": (self.address, False), "version": 3}

    def torch(self):
        """A tensor on this memory, with the type and shape of the one that was registered."""
        import torch

        _, size, shape, _, dtype = self._about
        raw = torch.as_tensor(Copy(self.address, (0, size, (size,), "|u1", None)), device="cuda")
        return raw.view(dtype).view(shape) if dtype is not None else raw


def _describe(array):
    """(address, bytes, shape, type of the array interface or "", dtype of PyTorch or None) of host memory that is contiguous."""
    if hasattr(array, "data_ptr"):
        if not array.is_contiguous():
            raise ValueError("the tensor is not contiguous")
        return array.data_ptr(), array.numel() * array.element_size(), tuple(array.shape), "", array.dtype
    about = memoryview(array)
    if not about.contiguous or about.readonly:
        raise ValueError("the array is not contiguous, or read-only")
    raw = (ctypes.c_char * about.nbytes).from_buffer(about.cast("B") if about.ndim else about)
    typestr = getattr(array, "__array_interface__", {}).get("typestr", "")
    return ctypes.addressof(raw), about.nbytes, tuple(about.shape), typestr, None


class Residency:
    """See the module. budget: bytes on the device, 0 for nine tenths of what is free. wait: wait for other threads instead of raising
    MemoryError. The other options are those of struct gpumem_residency_options."""

    def __init__(self, budget=0, eviction=None, wait=False, **options):
        self._handle, self._objects = ctypes.c_void_p(), {}
        made = _Options(ctypes.sizeof(_Options), budget, eviction.encode() if eviction else None, flags=_WAIT if wait else 0, **options)
        _check(_core.gpumem_residency_create(ctypes.byref(made), ctypes.byref(self._handle)))

    def close(self):
        """Waits for the work, and frees all copies. Changes that were not synchronised are lost."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        self._objects.clear()
        _check(_core.gpumem_residency_destroy(handle))

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()

    def register(self, array, version=0):
        """The number of an object: a tensor of PyTorch on the CPU, or an array with a buffer. It is kept until unregister()."""
        return self._register(_describe(array), array, version, 0)

    def result(self, size):
        """The number of an object of `size` bytes that the device writes first."""
        return self._register((None, size, (size,), "|u1", None), None, 0, _GPU_ONLY)

    def _register(self, about, array, version, flags):
        options, number = _Object(ctypes.sizeof(_Object), about[0], about[1], version, flags), ctypes.c_uint64()
        _check(_core.gpumem_residency_register(self._handle, ctypes.byref(options), ctypes.byref(number)))
        self._objects[number.value] = about, array
        return number.value

    def unregister(self, number):
        """Ends the object; a change that was not synchronised is lost."""
        _check(_core.gpumem_residency_unregister(self._handle, ctypes.c_uint64(number)))
        self._objects.pop(number, None)

    def update(self, number, version):
        """The host has changed the array."""
        _check(_core.gpumem_residency_update(self._handle, ctypes.c_uint64(number), ctypes.c_uint64(version)))

    def _numbers(self, objects):
        return (ctypes.c_uint64 * len(objects))(*objects), ctypes.c_size_t(len(objects))

    def announce(self, objects):
        """What is used next, in its order. It replaces what was announced before."""
        _check(_core.gpumem_residency_announce(self._handle, *self._numbers(objects)))

    def prefetch(self, objects):
        """Starts to transfer objects beside the work. Returns how many are on the device or on their way."""
        started = ctypes.c_size_t()
        _check(_core.gpumem_residency_prefetch(self._handle, *self._numbers(objects), ctypes.byref(started)))
        return started.value

    @contextlib.contextmanager
    def use(self, *operands, stream=0, drop=False):
        """Copies of the objects, for work that is submitted to the stream. An operand is an object to read, or write(object) or
        read_write(object). drop: the copies end with their last use."""
        uses = (_Use * len(operands))(*(_Use(*(one if isinstance(one, tuple) else (one, _READ))) for one in operands))
        count, stream = ctypes.c_size_t(len(operands)), ctypes.c_void_p(stream)
        _check(_core.gpumem_residency_acquire(self._handle, uses, count, stream))
        try:
            yield [Copy(use.address, self._objects[use.object][0]) for use in uses]
        finally:
            _check(_core.gpumem_residency_release(self._handle, uses, count, stream, ctypes.c_uint64(_DROP if drop else 0)))

    def sync(self, number):
        """Brings the latest bytes to the host. Returns the registered array, or for a result a memoryview of its bytes."""
        host = ctypes.c_void_p()
        _check(_core.gpumem_residency_sync(self._handle, ctypes.c_uint64(number), ctypes.byref(host)))
        about, array = self._objects[number]
        return array if array is not None else memoryview((ctypes.c_char * about[1]).from_address(host.value)).cast("B")

    def stats(self):
        """{name: count} of struct gpumem_residency_stats."""
        stats = _Stats(ctypes.sizeof(_Stats))
        _check(_core.gpumem_residency_get_stats(self._handle, ctypes.byref(stats)))
        return {name: getattr(stats, name) for name in _COUNTS}
