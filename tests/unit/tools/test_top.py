"""gpumem top on programs that a stand-in of the library counts for: no CUDA is needed."""
import ctypes
import json
import os
import subprocess
import sys
import time
import unittest

GPUMEM, PROBE, JSON = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3] == "true"
del sys.argv[1:4]
LIMIT_S = 60


class Top(unittest.TestCase):
    def start(self, script):
        """A shell that has said what `script` says and waits."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPUMEM_", "LD_"))}
        child = subprocess.Popen(["/bin/sh", "-c", script], env=dict(kept, LIBRARY=PROBE), stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait, LIMIT_S)
        self.addCleanup(child.kill)
        self.addCleanup(child.stdin.close)
        self.assertEqual(child.stdout.readline(), "ready\n")
        return child

    def top(self, *arguments):
        done = subprocess.run([GPUMEM, "top", "--batch", "--count=1", *map(str, arguments)], capture_output=True, text=True,
                              timeout=LIMIT_S)
        return done.returncode, done.stdout, done.stderr

    WAIT = "'echo ready; read nothing'"

    def test_lines(self):
        child = self.start("PROBE=1 GPUMEM_POLICY=observe LD_PRELOAD=$LIBRARY exec /bin/sh -c " + self.WAIT)
        status, out, err = self.top(child.pid)
        self.assertEqual((status, err), (0, ""))
        head, row = out.splitlines()
        self.assertEqual(head.split(), "TIME PID PROGRAM DEVICE LIVE RESERVED LIMIT ALLOCS/S FREES/S REUSED WAITS/S".split())
        self.assertEqual(row.split()[1], str(child.pid))
        self.assertEqual(row.split()[3:8], ["-", "5.00", "KiB", "0", "B"])

    @unittest.skipUnless(JSON, "no jansson")
    def test_json(self):
        child = self.start("PROBE=1 GPUMEM_POLICY=observe LD_PRELOAD=$LIBRARY exec /bin/sh -c " + self.WAIT)
        status, out, err = self.top("--json", child.pid)
        self.assertEqual((status, err), (0, ""))
        one = json.loads(out)
        self.assertEqual((one["pid"], one["policy"], one["counts"]["allocs"]), (child.pid, "observe", 2))
        self.assertEqual(one["memory"]["by_kind"]["native"]["live_bytes"], 5120)
        self.assertIsNone(one["rates"]["allocs_per_s"])
        self.assertIsNone(one["counts"]["hit_rate"])

    def test_files_of_no_size(self):
        """A limit on file sizes ends nobody by SIGXFSZ; the counters are private then."""
        child = self.start("ulimit -f 8; PROBE=1 LD_PRELOAD=$LIBRARY exec /bin/sh -c " + self.WAIT)
        status, out, err = self.top(child.pid)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("process %d: no counters" % child.pid, err)
        self.assertIsNone(child.poll())

    def test_no_descriptor_left(self):
        """No room for a high number: a low one serves, but never that of a standard stream."""
        child = self.start("ulimit -n 20; PROBE=1 LD_PRELOAD=$LIBRARY exec /bin/sh -c " + self.WAIT)
        self.assertEqual(self.top(child.pid)[0], 0)
        child = self.start("exec 2>&-; ulimit -n 20; PROBE=1 LD_PRELOAD=$LIBRARY exec /bin/sh -c " + self.WAIT)
        self.assertFalse(os.path.exists("/proc/%d/fd/2" % child.pid))

    def test_without_counters(self):
        child = self.start("exec /bin/sh -c " + self.WAIT)
        status, out, err = self.top(child.pid)
        self.assertEqual((status, out), (1, ""))
        self.assertEqual(err, "gpumem: process %d: no counters: it does not run under gpumem, or has not used CUDA yet\n" % child.pid)

    def test_root_without_rights(self):
        """Root that may not inspect a process of root is not told of another user."""
        if os.geteuid():
            self.skipTest("needs root")
        child = self.start("exec /bin/sh -c " + self.WAIT)
        libc, drop_bound, rights = ctypes.CDLL(None), 24, (19, 21, 38)  # to trace, to administer, to measure
        for command in (["top"], ["trace", "stop"]):
            done = subprocess.run([GPUMEM, *command, str(child.pid)], capture_output=True, text=True, timeout=LIMIT_S,
                                  preexec_fn=lambda: [libc.prctl(drop_bound, right) for right in rights])
            if "no counters" in done.stderr:
                self.skipTest("this root's programs have all its rights")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("process %d: permission denied: this root lacks a right to inspect it, as in a container; "
                          "whether it runs under gpumem is unknown\n" % child.pid, done.stderr)

    def test_broken_pipe(self):
        child = self.start("PROBE=1 LD_PRELOAD=$LIBRARY exec /bin/sh -c " + self.WAIT)
        watcher = subprocess.Popen([GPUMEM, "top", "--batch", "--interval=10ms", str(child.pid)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        watcher.stdout.readline()
        watcher.stdout.close()
        self.assertEqual((watcher.wait(LIMIT_S), watcher.stderr.read()), (1, ""))
        watcher.stderr.close()

    def test_signals(self):
        child = self.start("PROBE=1 LD_PRELOAD=$LIBRARY exec /bin/sh -c " + self.WAIT)
        for number in (2, 15, 1):
            watcher = subprocess.Popen([GPUMEM, "top", "--batch", "--interval=100s", str(child.pid)], stdout=subprocess.PIPE, text=True)
            watcher.stdout.readline()
            began = time.monotonic()
            watcher.send_signal(number)
            self.assertEqual(watcher.wait(LIMIT_S), 0)
            self.assertLess(time.monotonic() - began, 30)
            watcher.stdout.close()


if __name__ == "__main__":
    unittest.main()
