"""Programs that a test commands line by line, and checks that say what differs."""

import os
import subprocess

NOBODY = 65534


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def equal(got, expected, what):
    check(got == expected, f"{what}: {got!r} instead of {expected!r}")


def environment(cuda, **more):
    """That of a program on the simulated CUDA in the folder `cuda`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPUMEM_", "SIMCUDA_", "LD_")) and k != "MALLOC_PERTURB_"}
    return {**kept, "LD_LIBRARY_PATH": cuda, **more}


def other_user(program):
    """Arguments of subprocess.run by which another user runs the program. None where none can; a line says why."""
    arguments = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    if os.geteuid():
        print("left out, for want of root: the same by another user")
        return None
    try:
        subprocess.run([program, "--help"], stdout=subprocess.DEVNULL, **arguments)
    except PermissionError:
        print(f"left out, for another user cannot enter the folders of {program}: the same by such a user")
        return None
    return arguments


class Commanded:
    """A program that says `ready`, and answers each line with one that begins with the same word."""

    def __init__(self, command, limit_s, **more):
        self.limit_s = limit_s
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
        self.answer("ready")

    def answer(self, word):
        line = self.process.stdout.readline().split()
        died = self.process.stderr.read() if not line and self.process.stderr else ""
        check(line and line[0] == word, f"the program said {line} instead of {word}: {died}")
        self.state(*map(int, line[1:]))

    def state(self, *numbers):
        """What the answer says of the program, beginning with its process id."""
        self.pid = numbers[0]

    def do(self, *words):
        for word in words:
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
            self.answer(self.answer_to(word))

    def answer_to(self, word):
        return word

    def end(self):
        """What it wrote to standard error, if that is a pipe."""
        self.process.stdin.close()
        equal(self.process.wait(self.limit_s), 0, "the program's exit status")
        return self.process.stderr.read() if self.process.stderr else ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
