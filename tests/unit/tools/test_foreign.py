"""Paths that name no plain file: a pipe that nobody writes is an error in one line and not a wait, a device is not
opened."""
import os
import pty
import shutil
import subprocess
import sys
import unittest

import trace_file
from tool_case import ToolCase

ToolCase.GPUMEM = os.path.abspath(sys.argv.pop(1))
STRIPPED = os.path.abspath(sys.argv.pop(1))  # a program without symbols
NOBODY = 65534
LIMIT_S = 30  # a tool that waits for a pipe waits forever


class Foreign(ToolCase):
    def setUp(self):
        super().setUp()
        os.mkfifo(self.path("pipe"))

    def tool(self, *arguments):
        done = subprocess.run([self.GPUMEM, *arguments], cwd=self.folder.name, capture_output=True, text=True, timeout=LIMIT_S,
                              stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def refuse(self, words, *arguments, status=1):
        got = self.tool(*arguments)
        self.assertEqual((got[0], got[2].count("\n")), (status, 1), (arguments, got))
        self.assertIn(words, got[2])

    def test_a_pipe_as_trace(self):
        self.write("x.gmt", trace_file.sample())
        for arguments in (["report", "pipe"], ["report", "--leaks", "pipe"], ["diff", "x.gmt", "pipe"], ["export", "--to=csv", "-o", "out", "pipe"],
                          ["plan", "-o", "out", "pipe"], ["html", "-o", "out.html", "pipe"]):
            got = self.tool(*arguments)
            self.assertNotEqual(got[0], 0, arguments)
            self.assertIn("pipe: is not a plain file", got[2])

    def test_a_device_as_trace(self):
        """A terminal that is opened would become the one of the tool, or hold the line; it is only looked at."""
        ours, theirs = pty.openpty()
        try:
            self.refuse(f"{os.ttyname(theirs)}: is not a plain file", "report", os.ttyname(theirs))
        finally:
            os.close(ours)
            os.close(theirs)
        self.refuse("/dev/null: is not a plain file", "report", "/dev/null")

    def test_a_folder_with_a_pipe(self):
        self.write("traces/x.gmt", trace_file.sample())
        os.mkfifo(self.path("traces/y.gmt"))
        self.assertEqual(self.tool("report", "traces")[0], 0)

    def report_of_module(self, path):
        records = trace_file.module(0x10000, 0x10000, 0x20000, path) + trace_file.site(1, [0x10123])
        events = trace_file.event(1, 1000, "alloc", "cuMemAlloc", 0x1000, 4096, site=1)
        self.write("m.gmt", trace_file.header() + trace_file.chunk(records, kind=2) + trace_file.chunk(events))
        status, out, err = self.tool("report", "--leaks", "m.gmt")
        self.assertEqual((status, err), (0, ""), path)
        return out

    def test_a_module_that_is_none(self):
        """A trace names what it likes as the file of a module."""
        for module in (self.path("pipe"), "/dev/null", "/proc/self/maps", self.folder.name, self.path("none")):
            self.assertIn(os.path.basename(module) + "+0x123", self.report_of_module(module))

    @unittest.skipUnless(shutil.which("objcopy"), "needs objcopy")
    @unittest.skipIf(os.geteuid(), "needs root, to make a file of another user")
    def test_a_module_of_another_user(self):
        """It names a pipe as the file of its debug information."""
        module, debug = self.path("module"), self.path("module.debug")
        with open(debug, "wb"):
            pass
        subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", f"--add-gnu-debuglink={debug}", STRIPPED, module], check=True)
        os.chown(module, NOBODY, NOBODY)
        os.unlink(debug)
        os.mkfifo(debug)
        self.report_of_module(module)

    def test_policies(self):
        """Plans and rules that the user names."""
        for name, words in (("pipe", "is not a plain file"), (".", "is a directory"), ("none", "no such file or directory")):
            for policy in (f"plan:{name}", f"static:@{name}"):
                self.refuse(f"{name}: {words}", "run", f"--policy={policy}", "--", "true", status=2)
        self.refuse("'pipe': is not a plain file", "run", "--config=pipe", "--", "true", status=2)


if __name__ == "__main__":
    unittest.main()
