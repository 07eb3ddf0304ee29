"""The allocator of gpumem_plug.h, for frameworks that take their memory from outside.

One resource serves all of it: use("log(limit(2GiB,cache(async)))") chooses it, before the first allocation; else it is
"async". Pointers and streams are integers; stream 0 is the legacy default stream.
"""

import ctypes

import gpumem

_core = ctypes.CDLL(gpumem.core_library())
_SIGNATURES = {
    "gpumem_last_error": (ctypes.c_char_p, ()),
    "gpumem_plug_use": (ctypes.c_int, (ctypes.c_char_p,)),
    "gpumem_plug_allocate": (ctypes.c_void_p, (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)),
    "gpumem_plug_free": (None, (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)),
    "gpumem_plug_record_stream": (None, (ctypes.c_void_p, ctypes.c_void_p)),
    "gpumem_plug_trim": (None, ()),
}
for _name, (_result, _arguments) in _SIGNATURES.items():
    getattr(_core, _name).restype = _result
    getattr(_core, _name).argtypes = _arguments


def use(text):
    """Chooses the resource by its text."""
    if _core.gpumem_plug_use(text.encode()):
        raise ValueError(_core.gpumem_last_error().decode())


def allocate(size, device, stream=0):
    """Memory for work that is submitted to the stream from now on; 0 for no bytes."""
    memory = _core.gpumem_plug_allocate(size, device, stream)
    if not memory and size:
        raise MemoryError(_core.gpumem_last_error().decode())
    return memory or 0


def free(memory, size, device, stream=0):
    """Frees memory in the order of the stream, with the values that it was allocated with."""
    _core.gpumem_plug_free(memory, size, device, stream)


def record_stream(memory, stream):
    """Work of another stream uses the memory, too."""
    _core.gpumem_plug_record_stream(memory, stream)


def trim():
    """Gives free memory that the resource caches back to the driver."""
    _core.gpumem_plug_trim()


def pytorch_allocator():
    """For torch.cuda.memory.change_current_allocator(), and its allocator() for torch.cuda.MemPool()."""
    import torch

    plugged = torch.cuda.memory.CUDAPluggableAllocator(gpumem.core_library(), "gpumem_plug_allocate", "gpumem_plug_free")
    for setter, name in (("set_record_stream_fn", "gpumem_plug_record_stream"), ("set_reset_fn", "gpumem_plug_trim")):
        getattr(plugged.allocator(), setter)(ctypes.cast(getattr(_core, name), ctypes.c_void_p).value)
    return plugged


def cupy_allocator():
    """For cupy.cuda.set_allocator(). A block is freed in the order of the stream that it was allocated on."""
    import cupy

    blocks = {}

    def malloc(size, device):
        stream = cupy.cuda.get_current_stream().ptr
        try:
            memory = allocate(size, device, stream)
        except MemoryError as missing:
            raise cupy.cuda.memory.OutOfMemoryError(size, 0, 0) from missing
        blocks[memory] = size, stream
        return memory

    def release(memory, device):
        size, stream = blocks.pop(memory)
        free(memory, size, device, stream)

    return cupy.cuda.PythonFunctionAllocator(malloc, release).malloc


def numba_memory_manager():
    """For numba.cuda.set_memory_manager(). Memory is usable on every stream, as Numba wants it."""
    from numba import cuda

    class Manager(cuda.HostOnlyCUDAMemoryManager):
        interface_version = 1

        def initialize(self):
            pass  # a resource is ready when plug.use() returns

        def memalloc(self, size):
            device = self.context.device.id
            memory = allocate(size, device)
            return cuda.MemoryPointer(self.context, _device_pointer(memory), size, finalizer=lambda: free(memory, size, device))

        def get_memory_info(self):
            free_bytes, total = ctypes.c_size_t(), ctypes.c_size_t()
            if ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2(ctypes.byref(free_bytes), ctypes.byref(total)):
                raise RuntimeError("the device's memory is not known")
            return cuda.MemoryInfo(free=free_bytes.value, total=total.value)

        def get_ipc_handle(self, memory):
            raise NotImplementedError("memory of a pool has no handle for other processes")

    return Manager


def _device_pointer(memory):
    """As Numba's binding of the driver wants it."""
    from numba.cuda.cudadrv import driver

    binding = getattr(driver, "binding", None)
    return binding.CUdeviceptr(memory) if binding and getattr(driver, "USE_NV_BINDING", True) else ctypes.c_uint64(memory)
