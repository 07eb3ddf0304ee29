"""Colours and the progress line: on a terminal, and never in files and pipes."""
import importlib.util
import io
import os
import pty
import re
import subprocess
import sys
import termios
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as t
from tool_case import ToolCase

ToolCase.GPUMEM = os.path.abspath(sys.argv.pop(1))
PROBE, MANY_EVENTS = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
PLOT = importlib.util.spec_from_file_location("plot_main", os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                                        "../../../tools/plot/main.py"))
plot = importlib.util.module_from_spec(PLOT)
PLOT.loader.exec_module(plot)
M = 1 << 20
CODE = re.compile("\033\\[[0-9;]*m")
RED, GREEN, BOLD = "\033[31m", "\033[32m", "\033[1m"


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPUMEM_", "LD_")) and k not in ("NO_COLOR", "TERM")}
    return {**kept, "TERM": "xterm", **more}


class Terminal:
    """A terminal that keeps what is written to it."""

    def __enter__(self):
        self.master, self.slave = pty.openpty()
        self.bytes = b""
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        return self

    def read(self):
        try:
            while data := os.read(self.master, 65536):
                self.bytes += data
        except OSError:  # the other end is closed
            pass

    def __exit__(self, *_):
        os.close(self.slave)
        self.reader.join()
        os.close(self.master)

    @property
    def text(self):
        return self.bytes.decode().replace("\r\n", "\n")


class Colours(ToolCase):
    def on_terminal(self, *arguments, **more):
        with Terminal() as terminal:
            subprocess.run([self.GPUMEM, *arguments], cwd=self.folder.name, env=environment(**more), stdout=terminal.slave,
                           stderr=subprocess.DEVNULL, timeout=60)
        return terminal.text

    def setUp(self):
        super().setUp()
        self.write("a", t.sample())
        self.write("b", t.header() + t.chunk(t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 16 * M)))

    def test_report(self):
        text = self.on_terminal("report", "a")
        self.assertIn(f"\n{BOLD}TOTALS\033[0m\n", text)
        self.assertIn(f"{RED}leaked: 4.00 MiB in 2 blocks\033[0m", text)
        self.assertEqual(CODE.sub("", text), self.good("report", "a"))

    def test_diff(self):
        text = self.on_terminal("diff", "a", "b")
        self.assertRegex(text, re.escape(RED) + r" +\+\S+ MiB\033\[0m")
        self.assertRegex(text, re.escape(GREEN) + r" +-\S+ MiB\033\[0m")
        self.assertEqual(CODE.sub("", text), self.good("diff", "a", "b"))

    def test_choice(self):
        """--color comes before NO_COLOR, and NO_COLOR before the terminal."""
        plain = self.good("report", "a")
        for arguments, more, coloured in (((), {"NO_COLOR": "1"}, False), ((), {"NO_COLOR": ""}, True), ((), {"TERM": "dumb"}, False),
                                          (("--color=never",), {}, False), (("--color", "always"), {"NO_COLOR": "1"}, True),
                                          (("--color=auto",), {}, True)):
            text = self.on_terminal("report", *arguments, "a", **more)
            self.assertEqual(text != plain, coloured, (arguments, more))
            self.assertEqual(CODE.sub("", text), plain)
        self.assertIn(BOLD, self.good("report", "--color=always", "a"))
        self.assertNotIn("\033", self.good("report", "--json", "--color=always", "a"))
        for command in ("report", "diff", "top", "run"):
            status, _, err = self.run_tool(command, "--color=pink", "a", "b")
            self.assertEqual((status, err), (2, f"gpumem: {command}: --color 'pink' is none of auto|always|never\n"))

    def test_closing_lines(self):
        def closing(*arguments):
            with Terminal() as terminal:
                subprocess.run([self.GPUMEM, "run", "--library", PROBE, *arguments, "--", "/bin/true"], env=environment(PROBE="1"),
                               cwd=self.folder.name, stdout=subprocess.DEVNULL, stderr=terminal.slave, timeout=60)
            return terminal.text
        self.assertIn(f"{RED}5.00 KiB in 2 blocks\033[0m\n", closing())
        self.assertIn(f"gpumem: {BOLD}true\033[0m, process", closing())
        self.assertNotIn("\033", closing("--color=never"))
        done = subprocess.run([self.GPUMEM, "run", "--library", PROBE, "--", "/bin/true"], env=environment(PROBE="1"),
                              capture_output=True, text=True, timeout=60)
        self.assertNotIn("\033", done.stderr)

    def test_top(self):
        child = subprocess.Popen([self.GPUMEM, "run", "--library", PROBE, "--", "/bin/sh", "-c", "echo $$; exec sleep 60"],
                                 env=environment(PROBE="1"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            inner = child.stdout.readline().decode().strip()
            text = self.on_terminal("top", "--batch", "--count=1", inner)
            self.assertIn(BOLD, text)
            plain = subprocess.run([self.GPUMEM, "top", "--batch", "--count=1", inner], env=environment(), capture_output=True, text=True)
            self.assertNotIn("\033", plain.stdout + plain.stderr)
            self.assertIn("PID", plain.stdout)
        finally:
            os.killpg(child.pid, 9)
            child.communicate()

    def press(self, master, keys, words):
        """Presses the keys and returns what the terminal then shows, up to these words."""
        os.write(master, keys)
        text, end = "", time.monotonic() + 30
        while words not in text and time.monotonic() < end:
            text += os.read(master, 65536).decode(errors="replace")
        self.assertIn(words, text)
        return text

    def test_keys_of_top(self):
        child = subprocess.Popen([self.GPUMEM, "run", "--library", PROBE, "--", "/bin/sh", "-c", "echo $$; exec sleep 60"],
                                 env=environment(PROBE="1"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            inner = child.stdout.readline().decode().strip()
            pid, master = pty.fork()
            if not pid:
                os.execve(self.GPUMEM, [self.GPUMEM, "top", "--interval=1min", inner], environment())
            before = termios.tcgetattr(master)
            self.press(master, b"", "keys: s sorts by live, d shows device all, q ends")
            self.assertFalse(termios.tcgetattr(master)[3] & (termios.ICANON | termios.ECHO))
            self.press(master, b"s", "s sorts by reserved")
            self.press(master, b"x" + 5 * b"s", "s sorts by live")
            self.press(master, b"d", "d shows device all")
            self.press(master, b"q", f"process {inner}")
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
            self.assertEqual(termios.tcgetattr(master)[3] & (termios.ICANON | termios.ECHO), before[3] & (termios.ICANON | termios.ECHO))
            os.close(master)
        finally:
            os.killpg(child.pid, 9)
            child.communicate()


class Progress(ToolCase):
    @classmethod
    def setUpClass(cls):
        import tempfile
        cls.traces = tempfile.TemporaryDirectory()
        cls.trace = os.path.join(cls.traces.name, "many.trace")
        subprocess.run([MANY_EVENTS, cls.trace, "600000"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.traces.cleanup()

    def slow_export(self, stderr):
        """An export whose reader starts late, so that it takes longer than two seconds."""
        child = subprocess.Popen([self.GPUMEM, "export", "--to=csv", "-o", "-", self.trace], env=environment(), stdout=subprocess.PIPE,
                                 stderr=stderr)
        time.sleep(2.3)
        out, err = child.communicate()
        self.assertEqual(child.returncode, 0)
        return err

    def test_slow_work(self):
        with Terminal() as terminal:
            self.slow_export(terminal.slave)
        lines = re.findall(r"gpumem: reading many\.trace, (\d+) %\r", terminal.text)
        self.assertTrue(lines)
        self.assertEqual(sorted(map(int, lines)), list(map(int, lines)))
        self.assertTrue(all(0 < int(line) <= 100 for line in lines))
        self.assertTrue(terminal.text.endswith("\r\033[K"))  # erased
        self.assertNotIn("\n", terminal.text)

    def test_no_terminal(self):
        self.assertEqual(self.slow_export(subprocess.PIPE), b"")

    def test_fast_work(self):
        with Terminal() as terminal:
            subprocess.run([self.GPUMEM, "export", "--to=csv", "-o", os.devnull, self.write("a", t.sample())], cwd=self.folder.name,
                           env=environment(), stderr=terminal.slave, check=True, timeout=60)
        self.assertEqual(terminal.text, "")


class PlotProgress(unittest.TestCase):
    """The line of gpumem plot, which counts pictures."""

    def shown(self, terminal, seconds):
        stderr = io.StringIO()
        stderr.isatty = lambda: terminal
        with unittest.mock.patch("sys.stderr", stderr):
            progress = plot.Progress()
            progress.begin, progress.steps = time.monotonic() - seconds, 4
            progress("reading")
            progress("bands")
            progress.end()
        return stderr.getvalue()

    def test_line(self):
        self.assertEqual(self.shown(True, 3), "\r\033[Kgpumem: plot: reading, 0 %\r\r\033[Kgpumem: plot: bands, 25 %\r\r\033[K")
        self.assertEqual((self.shown(True, 1), self.shown(False, 3)), ("", ""))


if __name__ == "__main__":
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError as error:
        print(f"no pseudo-terminal: {error}")
        sys.exit(77)
    unittest.main()
