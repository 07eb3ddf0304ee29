"""The Python for programs that draw: this one, or the system's where only that one has matplotlib."""
import importlib.util
import os
import subprocess
import sys

SYSTEM = "/usr/bin/python3"


def draws(python):
    return os.path.exists(python) and not subprocess.run([python, "-c", "import matplotlib"], capture_output=True).returncode


def python():
    return sys.executable if importlib.util.find_spec("matplotlib") or not draws(SYSTEM) else SYSTEM
