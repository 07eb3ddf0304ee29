"""GPU memory of this process under gpumem: traces of a part of a run, marks, the peak; and where an installed gpumem lies.

    with gpumem.trace("step.gmt"):
        train_step()
    gpumem.mark("epoch 3")
    print(gpumem.peak())
    with gpumem.tag("kv"):
        cache = make_cache()
    with gpumem.asleep(drop="kv"):
        wait_for_requests()

suspend() and what belongs to it need `gpumem run --suspend=on`. trace() and peak() need the process to run under gpumem (`gpumem run -- python train.py`, or LD_PRELOAD=libgpumem.so). They
run the program `gpumem`, so a call takes some milliseconds. Without gpumem mark() does nothing.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import time

from gpumem._suspend import _preloaded, asleep, resume, suspend, suspended, tag  # noqa: F401

_prefix = pathlib.Path(__file__).resolve().parent


def tool():
    """Path of the program `gpumem`."""
    return _installed("bin/gpumem", "gpumem")


def core_library():
    """Path of libgpumem-core, for ctypes and for frameworks that load an allocator from a file."""
    return _installed("lib/libgpumem-core.so.0", "libgpumem-core.so.0")


def mark(text):
    """Begins a phase of the program in the trace; `gpumem report --phases` shows the memory of each."""
    library = _preloaded()
    if library:
        library.gpumem_mark(str(text).encode(errors="replace"))


def peak():
    """Largest live bytes of all devices so far. RuntimeError: the process does not run under gpumem or has not used CUDA."""
    return json.loads(_run("top", "--json", "--count=1", str(os.getpid())))["memory"]["peak_bytes"]


@contextlib.contextmanager
def trace(file, stacks=None):
    """Records the body of a with statement into a new file. `stacks`: frames of each call site, see `gpumem help trace`.

    Blocks that are live before are in the trace, too. RuntimeError: no CUDA, the process does not run under gpumem, or records already; FileExistsError.
    """
    path = os.path.abspath(os.fspath(file))
    if os.path.exists(path):
        raise FileExistsError(f"{path} exists, and a trace replaces no file")
    options = [] if stacks is None else [f"--stacks={stacks}"]
    _run("trace", "start", f"--trace={path.replace('%', '%%')}", *options, str(os.getpid()), meanwhile=_answer())
    try:
        yield path
    finally:
        _run("trace", "stop", str(os.getpid()), meanwhile=_answer())


def _answer():
    """A call that answers the request of another process: a trace begins with a call of its own process."""
    try:
        ctypes.CDLL("libcuda.so.1").cuInit(0)
    except OSError as error:
        raise RuntimeError(f"no CUDA: {error}") from None
    return ctypes.CDLL(None).gpumem_live_count


def _run(*words, meanwhile=None):
    """What the program `gpumem` prints, which does not run under gpumem itself. `meanwhile` is called until it ends."""
    if not _preloaded():
        raise RuntimeError("this process does not run under gpumem; start it by: gpumem run -- python ...")
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and not name.startswith("GPUMEM_")}
    if not shutil.which(tool()):
        raise RuntimeError("the program gpumem is in no folder of PATH")
    with subprocess.Popen([tool(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as child:
        while meanwhile and child.poll() is None:
            meanwhile()
            time.sleep(0.001)
        out, error = child.communicate()
    if child.returncode:
        raise RuntimeError(error.strip() or f"gpumem {words[0]} ended with status {child.returncode}")
    return out


def _installed(path, name):
    """The file of the wheel; without one, the name by which the system finds it."""
    file = _prefix / path
    return str(file) if file.exists() else name


def __getattr__(name):
    if name != "__version__":
        raise AttributeError(f"module 'gpumem' has no attribute '{name}'")
    library = _preloaded() or ctypes.CDLL(core_library())
    library.gpumem_version.restype = ctypes.c_char_p
    return library.gpumem_version().decode()
