"""Call sites with Python frames, in every tool."""
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as t

GPUMEM = os.path.abspath(sys.argv[1])
HAVE_SQLITE, HAVE_JSON = (word == "true" for word in sys.argv[2:4])
del sys.argv[1:4]

MODULES = ["libcudart.so.13", "libmodel.so", "libbinding.so", "_ctypes.cpython-311.so", "libffi.so.8",
           "libpython3.11.so.1.0", "libc.so.6"]
RUNTIME, MODEL, BINDING, CTYPES, FFI, INTERPRETER, LIBC = (0x10000000 * (i + 1) + 1 for i in range(len(MODULES)))
STEP, TRAIN, OTHER, UNDEFINED = (t.PYTHON_FRAME + n for n in (1, 2, 3, 99))


def records():
    modules = b"".join(t.module(frame - 1, frame - 1, frame + 0x1000000, "/lib/" + name)
                       for frame, name in zip(range(RUNTIME, LIBC + 1, 0x10000000), MODULES))
    return (modules + t.python(1, 42, b"Model.step", b"/home/me/train.py") + t.python(2, 7, b"<module>", b"/home/me/train.py")
            + t.python(3, 5, b"Model.step", b"/home/me/test.py"))


class PythonFrames(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, "x.trace")

    def write(self, *sites, more=b"", path=None):
        definitions, events = records() + more, b""
        for i, frames in enumerate(sites, 1):
            definitions += t.site(i, frames, outside=1 if frames[0] == RUNTIME else 0)
            events += t.event(i, i, "alloc", "cuMemAlloc", 4096 * i, 1000, site=i)
        with open(path or self.path, "wb") as f:
            f.write(t.header() + t.chunk(definitions, kind=2) + t.chunk(events))

    def gpumem(self, *words):
        return subprocess.run([GPUMEM, *words], capture_output=True, text=True, check=True, timeout=60).stdout

    def stacks(self, *sites, more=b""):
        self.write(*sites, more=more)
        lines = self.gpumem("export", "--to=collapsed", "-o", "-", "--measure=bytes", self.path).splitlines()
        return [line.rsplit(" ", 1)[0].split(";")[::-1] for line in lines]

    def test_frames_of_ctypes_and_the_interpreter_are_left_out(self):
        self.assertEqual(self.stacks([RUNTIME, FFI, FFI + 9, CTYPES, INTERPRETER, INTERPRETER + 5, LIBC, STEP, TRAIN]),
                         [["Model.step", "<module>"]])
        self.assertIn("train.py:42 Model.step\n", self.gpumem("report", self.path))

    def test_other_libraries_stay(self):
        self.assertEqual(self.stacks([RUNTIME, MODEL + 15, BINDING + 31, INTERPRETER, LIBC, STEP, TRAIN]),
                         [["libmodel.so+0x10", "libbinding.so+0x20", "Model.step", "<module>"]])
        self.assertIn("from train.py:42 Model.step\n", self.gpumem("report", "--leaks", "--stacks", self.path))

    def test_without_python_frames_the_interpreter_stays(self):
        self.assertEqual(self.stacks([RUNTIME, MODEL, FFI, INTERPRETER + 4, LIBC]),
                         [["libmodel.so+0x1", "libffi.so.8+0x1", "libpython3.11.so.1.0+0x5"]])

    def test_only_python_or_only_the_runtime_before_it(self):
        for native in [], [RUNTIME], [FFI], [INTERPRETER]:
            self.assertEqual(self.stacks(native + [STEP]), [["Model.step"]])

    def test_frameworks_written_in_python_are_wrappers(self):
        linear = t.python(9, 125, b"Linear.forward", b"/usr/lib/python3/dist-packages/torch/nn/modules/linear.py")
        self.write([RUNTIME, FFI, INTERPRETER, t.PYTHON_FRAME + 9, STEP, TRAIN], more=linear)
        report = self.gpumem("report", self.path)
        self.assertIn("train.py:42 Model.step\n", report)
        self.assertNotIn("linear.py", report)

    def test_lines_tell_sites_apart(self):
        self.write([RUNTIME, FFI, STEP], [RUNTIME, FFI, TRAIN], [RUNTIME, FFI, OTHER])
        report = self.gpumem("report", self.path)
        for place in "train.py:42 Model.step", "train.py:7 <module>", "test.py:5 Model.step":
            self.assertIn(place, report)

    def test_diff_by_file_and_function(self):
        other = os.path.join(self.folder, "y.trace")
        self.write([RUNTIME, FFI, STEP], [RUNTIME, FFI, OTHER])
        self.write([RUNTIME, FFI, CTYPES, STEP], path=other)
        changes = self.gpumem("diff", self.path, other)
        self.assertIn("test.py:5 Model.step", changes)
        self.assertNotIn("train.py", changes)

    def test_definition_that_is_missing(self):
        self.assertEqual(self.stacks([RUNTIME, FFI, STEP, UNDEFINED]), [["Model.step", "0x5059000000000063"]])

    def test_damaged_definition(self):
        for number, function, file in ((1000, 0, 0), (0, 1000, 0), (0, 0, 0xffffffff), (0, 0xfffffff9, 0xffffffff)):
            bad = bytearray(t.python(7, 1, b"f", b"g"))
            bad[16:24] = (number + function).to_bytes(4, "little") + file.to_bytes(4, "little")
            stacks = self.stacks([RUNTIME, FFI, STEP], more=bytes(bad))
            self.assertEqual(stacks, [["Model.step"]])

    def test_csv_has_the_same_report(self):
        name = "größe\t\\x41\n".encode()
        self.write([RUNTIME, MODEL, INTERPRETER, STEP], [RUNTIME, FFI, t.PYTHON_FRAME + 8], more=t.python(8, 1, name, b"a\tb.py"))
        csv = os.path.join(self.folder, "x.csv")
        self.gpumem("export", "--to=csv", "-o", csv, self.path)
        self.assertEqual(self.gpumem("report", csv).splitlines()[1:], self.gpumem("report", self.path).splitlines()[1:])

    @unittest.skipUnless(HAVE_JSON, "built without jansson")
    def test_json(self):
        self.write([RUNTIME, FFI, STEP, TRAIN])
        self.assertIn('"train.py:42 Model.step"', json.dumps(json.loads(self.gpumem("report", "--json", self.path))))

    @unittest.skipUnless(HAVE_SQLITE, "built without sqlite")
    def test_sqlite(self):
        self.write([RUNTIME, FFI, STEP, TRAIN])
        path = os.path.join(self.folder, "x.db")
        self.gpumem("export", "--to=sqlite", "-o", path, self.path)
        connection = sqlite3.connect(path)
        self.assertEqual(connection.execute("SELECT function, file, line FROM frames ORDER BY depth").fetchall(),
                         [("Model.step", "/home/me/train.py", 42), ("<module>", "/home/me/train.py", 7)])
        connection.close()

    def test_torch(self):
        self.write([RUNTIME, FFI, STEP, TRAIN])
        path = os.path.join(self.folder, "x.pickle")
        self.gpumem("export", "--to=torch", "-o", path, self.path)
        with open(path, "rb") as f:
            content = f.read()
        self.assertIn(b"/home/me/train.py", content)
        self.assertIn(b"Model.step", content)


if __name__ == "__main__":
    unittest.main()
