"""Runs a script while its device memory leaves and comes back at random times; what it prints must not change.

usage: suspend_often.py SEED SCRIPT [ARGUMENT...]   (under the preloaded library; natively it only runs the script)
"""

import atexit
import ctypes
import os
import random
import runpy
import sys
import threading
import time


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("keep", ctypes.c_char_p), ("drop", ctypes.c_char_p), ("flags", ctypes.c_uint64),
                ("patience_ns", ctypes.c_uint64)]  # fmt: skip


def suspend_often(library, seed, ended, counts):
    choose = random.Random(seed)
    while not ended.is_set():
        time.sleep(choose.random() * 0.3)
        wait = choose.random() < 0.3
        status = library.gpumem_suspend(ctypes.byref(Options(ctypes.sizeof(Options), None, None, int(wait), 0)), None)
        counts[status] = counts.get(status, 0) + 1
        if wait and status == 0:
            time.sleep(choose.random() * 0.1)
            library.gpumem_resume(None, None)


def main():
    seed, script = int(sys.argv[1]), sys.argv[2]
    library, ended, counts = ctypes.CDLL(None), threading.Event(), {}
    if hasattr(library, "gpumem_suspend"):
        library.gpumem_last_error.restype = ctypes.c_char_p
        thread = threading.Thread(target=suspend_often, args=(library, seed, ended, counts))
        thread.start()
        atexit.register(lambda: os.environ.get("SUSPEND_COUNTS") and print(counts, file=sys.stderr))
    sys.argv = sys.argv[2:]
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        ended.set()
        if hasattr(library, "gpumem_suspend"):
            thread.join()


if __name__ == "__main__":
    main()
