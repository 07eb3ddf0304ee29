"""As much of Numba as plugs in a memory manager."""

import sys
import types


class _Manager:
    def __init__(self, context):
        self.context = context


class _Pointer:
    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        self.pointer, self.size, self.finalizer = pointer, size, finalizer

    def __del__(self):
        self.finalizer()


context = types.SimpleNamespace(device=types.SimpleNamespace(id=0))
cuda = types.ModuleType("numba.cuda")
cuda.HostOnlyCUDAMemoryManager, cuda.MemoryPointer = _Manager, _Pointer
cuda.MemoryInfo = types.SimpleNamespace
cuda.cudadrv = types.ModuleType("numba.cuda.cudadrv")
cuda.cudadrv.driver = types.ModuleType("numba.cuda.cudadrv.driver")  # without the binding: pointers are of ctypes
for _module in (cuda, cuda.cudadrv, cuda.cudadrv.driver):
    sys.modules[_module.__name__] = _module
