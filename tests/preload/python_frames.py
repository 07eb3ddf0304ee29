"""Allocates device memory from many kinds of Python code, for run_python.py. Each allocation has a size of its own.

Prints what the interpreter itself says of the stack at that moment, a line of JSON for each allocation: its size, then
file, line and function of each frame, innermost first.

usage: python_frames.py SCENARIO...
"""

import ast
import asyncio
import atexit
import ctypes
import functools
import gc
import json
import os
import sys
import threading

runtime = ctypes.CDLL("libcudart.so.13")
sizes = iter(range(1 << 20, 1 << 30, 4096))


def note(frame):
    size = next(sizes)
    stack = []
    while frame:
        code = frame.f_code
        stack.append([code.co_filename, frame.f_lineno, getattr(code, "co_qualname", code.co_name)])
        frame = frame.f_back
    os.write(1, json.dumps([size, *stack]).encode() + b"\n")
    return size


def allocate():
    address = ctypes.c_void_p()
    error = runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(note(sys._getframe())))
    assert error == 0
    return address


def functions():
    def inner(depth):
        return inner(depth - 1) if depth else allocate()

    inner(3)
    for depth in 2, 1, 2:
        inner(depth)
    (lambda: allocate())()
    [allocate() for _ in range(2)]
    {key: allocate() for key in "ab"}
    list(map(lambda _: allocate(), "ab"))
    functools.partial(inner, 1)()
    sorted([2, 1], key=lambda _: allocate().value)
    (
        allocate(),
        allocate(),
    )


class Layer:
    def __init__(self):
        self.memory = allocate()

    @property
    def more(self):
        return allocate()

    @staticmethod
    def fixed():
        allocate()

    def __del__(self):
        allocate()

    def __getitem__(self, key):
        return allocate()


def classes():
    layer = Layer()
    layer.more, layer[0]
    Layer.fixed()
    del layer
    cycle = Layer()
    cycle.self = cycle
    del cycle
    gc.collect()

    class Made(type):
        def __new__(meta, *words):
            allocate()
            return super().__new__(meta, *words)

    class Named(metaclass=Made):
        memory = allocate()


def generators():
    def pieces():
        yield allocate()
        try:
            yield allocate()
        finally:
            allocate()

    def outer():
        yield from pieces()

    for _ in outer():
        allocate()
    list(allocate() for _ in range(2))
    stopped = outer()
    next(stopped), next(stopped)
    stopped.close()


def exceptions():
    class Leave:
        def __enter__(self):
            allocate()

        def __exit__(self, *error):
            allocate()
            return True

    with Leave():
        allocate()
        raise ValueError
    try:
        try:
            raise KeyError(allocate())
        except KeyError:
            allocate()
            raise
        finally:
            allocate()
    except KeyError:
        allocate()


def coroutines():
    async def leaf():
        allocate()
        await asyncio.sleep(0)
        return allocate()

    async def main():
        await asyncio.gather(leaf(), leaf())
        async for _ in numbers():
            allocate()

    async def numbers():
        yield allocate()
        await asyncio.sleep(0)
        yield allocate()

    asyncio.run(main())


def threads():
    def work():
        for _ in range(3):
            allocate()

    started = [threading.Thread(target=work) for _ in range(4)]
    for thread in started:
        thread.start()
        thread.join()


def at_once():
    """Threads that run at the same time; the order of lines on standard output does not matter."""

    def work(name):
        for _ in range(200):
            exec(compile("def step():\n allocate()\nstep()", name, "exec"), {"allocate": allocate})

    started = [threading.Thread(target=work, args=(f"<thread {i}>",)) for i in range(8)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def foreign():
    """Threads that Python did not start: with Python code in a callback, and with none (a free)."""
    libc = ctypes.CDLL(None)
    callback_type = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

    def run(function, argument):
        thread = ctypes.c_ulong()
        assert libc.pthread_create(ctypes.byref(thread), None, function, argument) == 0
        assert libc.pthread_join(thread, None) == 0

    def callback(_):
        allocate()

    kept = callback_type(callback)
    run(kept, None)
    run(kept, None)
    run(runtime.cudaFree, allocate())


def replaced():
    """Code objects that are freed, with others at their addresses."""
    for i in range(50):
        exec(compile("allocate()", f"<cell {i:02}>", "exec"), {"allocate": allocate})
    for i in range(50):
        exec(compile("\n" * i + "allocate()", "<cell>", "exec"), {"allocate": allocate})
    for i in range(50):
        exec(compile(f"def f{i:02}(): allocate()\nf{i:02}()", "<cell>", "exec"), {"allocate": allocate})


def names():
    for name in ("größe", "面积", "𝛼𝛽", "x" * 300):
        exec(compile(f"def {name}():\n    allocate()\n{name}()", f"/tmp/{name}.py", "exec"), {"allocate": allocate})
    exec(compile("allocate()", "/tmp/a\tb\\c.py", "exec"), {"allocate": allocate})
    exec(compile("allocate()", "", "exec"), {"allocate": allocate})
    exec(compile(ast.parse("allocate()"), os.fsdecode(b"/tmp/\xff\xfe.py"), "exec"), {"allocate": allocate})


def deep():
    def inner(depth):
        return inner(depth - 1) if depth else allocate()

    for depth in 40, 100, 400, 100:
        inner(depth)


def long():
    """Line increments that need several entries of the table."""
    text = "allocate()\n" + "\n" * 500 + "(\nallocate(),\n" + "\n" * 300 + "allocate())\n" + "a = 1\n" * 400 + "allocate()"
    exec(compile(text, "long.py", "exec"), {"allocate": allocate})


def forked():
    allocate()
    if os.fork() == 0:
        allocate()
        functions()
        sys.stdout.flush()
        os._exit(0)
    os.wait()
    allocate()


def too_much():
    """Out of memory, which gpumem explains."""
    assert runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 50)) != 0


def at_exit():
    atexit.register(allocate)


def main():
    for name in sys.argv[1:]:
        globals()[name]()


if __name__ == "__main__":
    main()
