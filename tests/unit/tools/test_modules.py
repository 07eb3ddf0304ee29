"""Traces of programs that load thousands of libraries, one over the other and the same one again and again.

usage: test_modules.py GPUMEM PROGRAM HAVE_DW COUNTED_WORK [VALGRIND]
"""
import importlib.util
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as t
from tool_case import ToolCase

GPUMEM, PROGRAM = map(os.path.abspath, sys.argv[1:3])
HAVE_DW, COUNTED_WORK, VALGRIND = sys.argv[3] == "true", sys.argv[4], "".join(sys.argv[5:6])
del sys.argv[1:]
BASE, APART = 0x7f0000000000, 0x400000


def chunks(items, kind):
    out, open_chunk = b"", b""
    for item in items:
        if len(open_chunk) + len(item) > 250000:
            out, open_chunk = out + t.chunk(open_chunk, kind=kind), b""
        open_chunk += item
    return out + t.chunk(open_chunk, kind=kind)


def trace(modules, chains):
    """Each call chain asked for one block."""
    records = [t.module(base, base, base + size, path) for base, size, path in modules]
    records += [t.site(i + 1, chain) for i, chain in enumerate(chains)]
    events = [t.event(i, i, "alloc", "cuMemAlloc", 4096 * i, i, site=i) for i in range(1, len(chains) + 1)]
    return t.header() + chunks(records, 2) + chunks(events, 1)


def load_frame():
    """The chain of the program's call in load_frame(), as offsets."""
    line = subprocess.run([PROGRAM], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    _, base, *addresses = [int(word, 0) for word in line.split()]
    return [address - base for address in addresses if base <= address < base + APART]


def loaded(paths, count):
    """That many modules and a call chain in each; the paths again and again."""
    offsets = load_frame()
    modules = [(BASE + i * APART, APART, paths[i % len(paths)]) for i in range(count)]
    return modules, [[base + offset for offset in offsets] for base, _, _ in modules]


class Modules(ToolCase):
    GPUMEM = GPUMEM

    def leaks(self, name):
        """Bytes, blocks and call site of each."""
        return re.findall(r"([\d.]+) \S*B in ([\d]+) blocks?  (.*)", self.good("report", "--top=1000", name))

    def links(self, count):
        names = [self.path("lib%d.so" % i) for i in range(count)]
        for name in names:
            os.symlink(PROGRAM, name)
        return names

    def test_the_latest_module_at_an_address_counts(self):
        modules = [(0x10000, 0x10000, "/x/first.so"), (0x30000, 0x8000, "/x/alone.so"),
                   (0x14000, 0x4000, "/x/second.so"), (0x13000, 0x2000, "/x/third.so"), (0x30000, 0, "/x/empty.so")]
        addresses = [0xffff, 0x10000, 0x12fff, 0x13001, 0x14ffe, 0x15001, 0x17fff, 0x18001, 0x1ffff, 0x20001, 0x30001]
        self.write("x.trace", trace(modules, [[address] for address in addresses]))
        names = {size: site for size, _, site in self.leaks("x.trace")}
        self.assertEqual([names[str(i + 1)] for i in range(len(addresses))],
                         ["0xffff", "0x10000", "first.so+0x2fff", "third.so+0x1", "third.so+0x1ffe", "second.so+0x1001",
                          "second.so+0x3fff", "first.so+0x8001", "first.so+0xffff", "0x20001", "alone.so+0x1"])

    @unittest.skipUnless(HAVE_DW, "built without libdw")
    def test_each_file_is_named(self):
        self.write("x.trace", trace(*loaded(self.links(600), 900)))
        blocks = {re.sub(r"^load_frame at program.c:\d+ ", "", site): count for _, count, site in self.leaks("x.trace")}
        self.assertEqual(blocks, {"(lib%d.so)" % i: "2" if i < 300 else "1" for i in range(600)})

    def work(self, paths, count):
        spec = importlib.util.spec_from_file_location("counted_work", COUNTED_WORK)
        counted = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(counted)
        self.write("x.trace", trace(*loaded(paths, count)))
        return counted.count(VALGRIND, "all", [GPUMEM, "report", self.path("x.trace")])

    def assert_linear(self, paths):
        """Five times the modules: about five times the work."""
        self.assertLess(self.work(paths, 2500), 7 * self.work(paths, 500))

    @unittest.skipUnless(VALGRIND, "no valgrind that counts")
    def test_work_for_files_that_are_gone(self):
        self.assert_linear(["/none/lib%d.so" % i for i in range(2500)])

    @unittest.skipUnless(VALGRIND, "no valgrind that counts")
    def test_work_for_many_files(self):
        self.assert_linear(self.links(2500))

    @unittest.skipUnless(VALGRIND, "no valgrind that counts")
    def test_work_for_one_file_again_and_again(self):
        self.assert_linear(self.links(1))


if __name__ == "__main__":
    unittest.main()
