"""As much of CuPy as plugs in an allocator."""

import types


class _OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit):
        super().__init__(f"out of memory allocating {size} bytes")


class _Block:
    """cupy.cuda.MemoryPointer with the memory it owns."""

    def __init__(self, allocator, size):
        self.free, self.ptr, self.device = allocator.free, allocator.allocate(size, 0), 0

    def __del__(self):
        if hasattr(self, "ptr"):
            self.free(self.ptr, self.device)


class _PythonFunctionAllocator:
    def __init__(self, malloc_func, free_func):
        self.allocate, self.free = malloc_func, free_func

    def malloc(self, size):
        return _Block(self, size)


stream = types.SimpleNamespace(ptr=0)
cuda = types.SimpleNamespace(
    get_current_stream=lambda: stream,
    memory=types.SimpleNamespace(OutOfMemoryError=_OutOfMemoryError),
    PythonFunctionAllocator=_PythonFunctionAllocator,
)
