"""As much of Numba as plugs in a memory manager."""

import abc
import sys
import types


def _required(*names):
    return {name: abc.abstractmethod(lambda self, *arguments: None) for name in names}


class _Manager(abc.ABC):
    vars().update(_required("memalloc", "initialize", "get_ipc_handle", "get_memory_info", "interface_version"))

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
