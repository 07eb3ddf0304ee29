"""Device memory of this process that leaves the device and comes back (GPUMEM_SUSPEND=on): functions of gpumem.h."""

import contextlib
import ctypes


class _Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("keep", ctypes.c_char_p), ("drop", ctypes.c_char_p), ("flags", ctypes.c_uint64),
                ("patience_ns", ctypes.c_uint64), ("to", ctypes.c_char_p), ("only", ctypes.c_char_p)]


_WAIT, _ASIDE, _OUT_OF_MEMORY = 1, 2, 2


def suspend(keep=None, drop=None, only=None, to=None, wait=False, aside=False, patience=10.0):
    """Copies device memory to the host and gives it back to the device; returns the bytes that left.

    Globs name blocks by tag or by a part of their call site: those of `keep` stay, those of `drop` come back as zeros, those of `only` alone
    leave. The first call that submits work brings all back; with `wait` such calls wait for resume(). With `aside` nothing is held: the
    program goes on, and must not use that memory until resume(). `patience`: seconds that the work in flight may take.
    `to`: a folder for a file that holds the contents in place of host memory.

    RuntimeError: the process does not run under gpumem with --suspend=on, or gpumem says why it cannot be. MemoryError: of the host. After an
    error the process is as before.
    """
    options = _Options(ctypes.sizeof(_Options), _text(keep), _text(drop), wait * _WAIT | aside * _ASIDE, int(patience * 1e9), _text(to), _text(only))
    return _moved("gpumem_suspend", ctypes.byref(options))


def resume(glob=None):
    """Brings back what the glob names, by default all; returns the bytes that came back.

    MemoryError: the device has too little free memory; the process stays suspended, and a later call can succeed. RuntimeError: see suspend().
    """
    return _moved("gpumem_resume", _text(glob))


def suspended():
    """Whether calls that submit work are held. False, too, without gpumem."""
    library = _preloaded()
    return bool(library and library.gpumem_suspended())


@contextlib.contextmanager
def asleep(**options):
    """The process is suspended for the body of a with statement, if nothing wakes it before; the arguments are those of suspend().

    The body must not submit work with `wait`: nobody would end the sleep.
    """
    suspend(**options)
    try:
        yield
    finally:
        resume()


@contextlib.contextmanager
def tag(name):
    """Blocks that this thread allocates in the body have the tag, a word of at most 31 bytes. Without gpumem nothing happens."""
    library = _preloaded()
    if library:
        library.gpumem_tag_push(name.encode())
    try:
        yield
    finally:
        if library:
            library.gpumem_tag_pop()


def _text(text):
    return None if text is None else str(text).encode()


def _preloaded():
    """The preloaded library; None: the process does not run under gpumem."""
    process = ctypes.CDLL(None)
    return process if hasattr(process, "gpumem_preloaded_mark_1") else None


def _moved(name, argument):
    library, count = _preloaded(), ctypes.c_size_t()
    if not library:
        raise RuntimeError("this process does not run under gpumem; start it by: gpumem run --suspend=on -- python ...")
    library.gpumem_last_error.restype = ctypes.c_char_p
    status = getattr(library, name)(argument, ctypes.byref(count))
    if status:
        raise (MemoryError if status == _OUT_OF_MEMORY else RuntimeError)(library.gpumem_last_error().decode())
    return count.value
