"""Where the parts of an installed gpumem lie."""

import pathlib

_prefix = pathlib.Path(__file__).resolve().parent


def tool():
    """Path of the program `gpumem`."""
    return _installed("bin/gpumem", "gpumem")


def core_library():
    """Path of libgpumem-core, for ctypes and for frameworks that load an allocator from a file."""
    return _installed("lib/libgpumem-core.so.0", "libgpumem-core.so.0")


def _installed(path, name):
    """The file of the wheel; without one, the name by which the system finds it."""
    file = _prefix / path
    return str(file) if file.exists() else name
