"""gpumem run: what reaches the program, what comes back, what is refused before anything starts."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

GPUMEM, PROBE = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]


def clean_environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPUMEM_", "LD_"))}
    return dict(kept, **more)


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def gpumem(self, *arguments, command="run", **environment):
        done = subprocess.run([GPUMEM, command, *arguments], cwd=self.folder, env=clean_environment(**environment),
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def run_probe(self, *arguments, **environment):
        return self.gpumem("--library", PROBE, *arguments, **environment)

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w") as f:
                f.write(text)
        return path

    # the end of the program

    def test_exit_status_passes_through(self):
        for status in (0, 1, 7, 255):
            self.assertEqual(self.run_probe("--", "/bin/sh", "-c", "exit %d" % status)[0], status)

    def test_death_by_signal(self):
        self.assertEqual(self.run_probe("--", "/bin/sh", "-c", "kill -SEGV $$")[0], 128 + signal.SIGSEGV)

    def test_not_found_and_not_executable(self):
        self.path("data", "x")
        self.assertEqual(self.run_probe("--", "no-such-program")[::2], (127, "gpumem: no-such-program: command not found\n"))
        self.assertEqual(self.run_probe("--", "./none")[::2], (127, "gpumem: ./none: No such file or directory\n"))
        self.assertEqual(self.run_probe("--", "./data")[::2], (126, "gpumem: ./data: not executable\n"))
        self.assertEqual(self.run_probe("--", "/tmp")[::2], (126, "gpumem: /tmp: is a directory\n"))

    def test_signals_are_forwarded(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            script = "trap 'echo got; exit 5' %s; echo ready; while :; do sleep 0.05; done" % number.name[3:]
            child = subprocess.Popen([GPUMEM, "run", "--library", PROBE, "--", "/bin/sh", "-c", script],
                                     env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                     preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))  # a shell cannot trap what is ignored
            self.assertEqual(child.stdout.readline(), "ready\n")
            child.send_signal(number)
            self.assertEqual(child.communicate(timeout=30)[0], "got\n")
            self.assertEqual(child.returncode, 5)

    def test_stop_and_continue(self):
        child = subprocess.Popen([GPUMEM, "run", "--library", PROBE, "--", "/bin/sh", "-c", "kill -STOP $$; exit 6"],
                                 env=clean_environment(), stderr=subprocess.DEVNULL)
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))
        child.send_signal(signal.SIGCONT)
        self.assertEqual(child.wait(timeout=30), 6)

    # what the program gets

    def test_environment(self):
        _, out, _ = self.run_probe("--policy=managed", "--stacks", "3", "--strict", "--", "/usr/bin/env",
                                   LD_PRELOAD="/lib/x86_64-linux-gnu/libm.so.6")
        self.assertIn("GPUMEM_POLICY=managed\n", out)
        self.assertIn("GPUMEM_STACKS=3\n", out)
        self.assertIn("GPUMEM_STRICT=1\n", out)
        self.assertIn("LD_PRELOAD=%s:/lib/x86_64-linux-gnu/libm.so.6\n" % os.path.realpath(PROBE), out)

    def test_options_end_at_the_program(self):
        self.assertEqual(self.run_probe("/bin/echo", "--policy=nonsense")[1], "--policy=nonsense\n")

    def test_standard_input_and_output(self):
        done = subprocess.run([GPUMEM, "run", "--library", PROBE, "--", "cat"], input="text", env=clean_environment(),
                              capture_output=True, text=True)
        self.assertEqual(done.stdout, "text")

    def test_exec_replaces_itself(self):
        child = subprocess.Popen([GPUMEM, "run", "--exec", "--library", PROBE, "--", "/bin/sh", "-c", "echo $$"],
                                 env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = child.communicate()
        self.assertEqual((out, err), ("%d\n" % child.pid, ""))

    # the file of options

    def test_config(self):
        """The file reaches the program by its whole path; flags and variables come first."""
        os.mkdir(self.path("sub"))
        self.path("sub/options", "policy = managed\nstacks = 3  # frames\n")
        _, out, err = self.run_probe("--config=sub/options", "--stacks=4", "--", "/usr/bin/env")
        self.assertIn("GPUMEM_CONFIG=%s\n" % os.path.realpath(self.path("sub/options")), out)
        self.assertIn("GPUMEM_STACKS=4\n", out)
        self.assertNotIn("GPUMEM_POLICY", out)
        self.assertNotIn("ignored", err)

    def test_config_counts_in_the_program(self):
        options = self.path("options", "nonsense = 1\nlimit = much\n# trace\ntrace = c.trace\n")
        _, _, err = self.run_probe("--config", options, "--", "/bin/true", PROBE="1")
        self.assertIn("gpumem: %s:1: 'nonsense' is not an option; " % options, err)
        self.assertIn("gpumem: %s:2: GPUMEM_LIMIT=much is not a number of bytes" % options, err)
        self.assertRegex(err, r"next: gpumem report \S*c\.trace\n$")
        self.assertTrue(os.path.exists(self.path("c.trace")))

    def test_config_and_traces(self):
        """The trace of the file is checked and replaced as that of the flag is."""
        options = self.path("options", "trace = x.trace\n")
        self.run_probe("--config", options, "--", "/bin/true", PROBE="1")
        self.assertRegex(self.run_probe("--config", options, "--", "/bin/true", PROBE="1")[2], r"next: gpumem report \S*x\.trace\n$")
        self.path("x.trace", "precious")
        self.assertEqual(self.run_probe("--config", options, "--", "/bin/true")[0], 2)
        os.unlink(self.path("x.trace"))
        self.run_probe("--", "/bin/true", PROBE="1", GPUMEM_CONFIG=options, GPUMEM_TRACE="")
        self.assertFalse(os.path.exists(self.path("x.trace")))

    def test_config_that_cannot_be_read(self):
        for name, reason in (("none", "no such file or directory"), (".", "is a directory"), ("/dev/null", "is not a plain file")):
            self.assertEqual(self.run_probe("--config", name, "--", "/bin/true"), (2, "", "gpumem: config file '%s': %s\n" % (name, reason)))

    # closing lines

    def test_no_driver(self):
        """Said whether the program ends well or for want of the driver; with a driver, and on the simulated one, it is another line."""
        if subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"], env=clean_environment(),
                          capture_output=True).returncode == 0:
            self.skipTest("this machine has a driver")
        words = "gpumem: no libcuda.so.1 found; --sim runs on a simulated CUDA\n"
        self.assertEqual(self.run_probe("--", "/bin/true"), (0, "", words))
        status, _, err = self.run_probe("--", "/bin/sh", "-c", "echo cannot open libcuda.so.1 >&2; exit 127")
        self.assertEqual((status, err), (127, "cannot open libcuda.so.1\n" + words))

    def test_driver_without_use(self):
        shutil.copy(PROBE, self.path("libcuda.so.1"))
        words = "gpumem: no process of the program used CUDA; one that lost LD_PRELOAD, as behind env -i, is not seen\n"
        for program in (["/bin/true"], ["/usr/bin/env", "-i", "PROBE=1", "/bin/true"], ["/usr/bin/env", "-u", "LD_PRELOAD", "PROBE=1", "/bin/true"]):
            self.assertEqual(self.run_probe("--", *program, LD_LIBRARY_PATH=self.folder), (0, "", words))
        self.assertNotIn("LD_PRELOAD", self.run_probe("--", "/usr/bin/env", "PROBE=1", "/bin/true", LD_LIBRARY_PATH=self.folder)[2])

    def test_closing_lines(self):
        status, _, err = self.run_probe("--trace=t.trace", "--", "/bin/true", PROBE="1")
        self.assertEqual(status, 0)
        for line in (r"gpumem: true, process \d+", r"calls +2 allocations, 0 frees, 0 failed\n",
                     r"time in calls +\S+ \S+ in all threads together, [0-9.]+ % of the run's \S+ \S+\n", r"peak live +5\.00 KiB\n", r"peak reserved +\S+ KiB\n",
                     r"temporary +0, 0\.0 % of the allocations", r"leaked +5\.00 KiB in 2 blocks\n",
                     r"kind of memory +allocations +frees +peak live +live at end\ngpumem:     native +2 +0 +",
                     r"next: gpumem report %s\n$" % re.escape(self.path("t.trace"))):
            self.assertRegex(err, line)
        report = subprocess.run([GPUMEM, "report", self.path("t.trace")], capture_output=True, text=True)
        self.assertEqual(report.returncode, 0)
        self.assertIn("leaked: 5.00 KiB in 2 blocks", report.stdout)

    def test_several_processes(self):
        _, _, err = self.run_probe("--trace=t.trace", "--", "/bin/sh", "-c", "/bin/true; /bin/true; exit 0", PROBE="1")
        self.assertIn("all 3 processes", err)
        self.assertRegex(err, r"calls +6 allocations")
        self.assertEqual(len(re.findall(r"process \d+.*: 2 allocations, peak live", err)), 3)
        names = err.splitlines()[-1].split("gpumem report ")[1].split()
        self.assertEqual(len(names), 3)
        self.assertEqual(subprocess.run([GPUMEM, "report", *names], capture_output=True).returncode, 0)
        self.assertEqual(len([n for n in os.listdir(self.folder) if n.startswith("t.trace")]), 3)

    def test_killed_process_is_counted(self):
        status, _, err = self.run_probe("--", "/bin/sh", "-c", "kill -KILL $$", PROBE="1")
        self.assertEqual(status, 128 + signal.SIGKILL)
        self.assertIn("ended without normal exit\n", err)
        self.assertRegex(err, r"calls +2 allocations")

    def test_nothing_is_left_behind(self):
        before = set(os.listdir("/dev/shm"))
        self.run_probe("--", "/bin/true", PROBE="1")
        self.assertFalse([n for n in set(os.listdir("/dev/shm")) - before if n.startswith("gpumem-%d-" % os.getuid())
                          and os.stat("/dev/shm/" + n).st_mtime < time.time() - 30])

    def test_file_size_limit_spares_the_counters(self):
        done = subprocess.run(["/bin/bash", "-c", 'ulimit -S -f 8; exec "$@"', "bash", GPUMEM, "run", "--library", PROBE, "--",
                               "/bin/bash", "-c", "ulimit -S -f"], env=clean_environment(PROBE="1"), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "8\n"))
        self.assertRegex(done.stderr, r"calls +2 allocations")

    def test_program_runs_where_nothing_can_be_counted(self):
        done = subprocess.run(["/bin/bash", "-c", 'ulimit -f 8; exec "$@"', "bash", GPUMEM, "run", "--library", PROBE, "--",
                               "/bin/echo", "ran"], env=clean_environment(), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "ran\n"))
        self.assertEqual(done.stderr, "gpumem: cannot create the counters file, so there are no closing lines: File too large\n")

    def test_closed_descriptors(self):
        status, _, err = self.run_probe("--", "/bin/sh", "-c", "exec 0<&- 1>&- 2>&-; exec /bin/true", PROBE="1")
        self.assertEqual(status, 0)
        self.assertRegex(err, r"calls +4 allocations")

    def test_next_command_can_be_copied(self):
        os.mkdir(self.path("a b"))
        _, _, err = self.run_probe("--trace=a b/it's.trace", "--", "/bin/true", PROBE="1")
        command = err.splitlines()[-1].split("next: gpumem ")[1]
        done = subprocess.run("%s %s" % (GPUMEM, command), shell=True, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    # existing trace files

    def test_place_of_the_trace_is_checked_first(self):
        self.path("file", "x")
        for name, words in (("none/t", "folder 'none': No such file or directory"), ("file/t", "'file' is not a folder"),
                            (".", "is a directory")):
            status, out, err = self.run_probe("--trace=" + name, "--", "/bin/echo", "ran")
            self.assertEqual((status, out, err), (2, "", "gpumem: trace file '%s': %s\n" % (name, words)))
        if os.getuid():
            os.mkdir(self.path("locked"), 0o500)
            self.assertIn("Permission denied", self.run_probe("--trace=locked/t", "--", "/bin/echo", "ran")[2])

    def test_stale_trace_is_removed_and_a_foreign_file_is_not(self):
        self.run_probe("--trace=t.trace", "--", "/bin/true", PROBE="1")
        self.run_probe("--trace=t.trace", "--", "/bin/true", PROBE="1")
        self.assertEqual([n for n in os.listdir(self.folder)], ["t.trace"])
        precious = self.path("thesis", "my thesis")
        status, _, err = self.run_probe("--trace=thesis", "--", "/bin/true", PROBE="1")
        self.assertEqual((status, err.count("\n")), (2, 1))
        self.assertIn("'thesis': exists and is not a gpumem trace", err)
        with open(precious) as f:
            self.assertEqual(f.read(), "my thesis")

    # bad usage: one line, exit 2, nothing started

    def test_bad_options(self):
        for arguments, words in ((["--policy=foo"], "unknown policy 'foo'; there are: "), (["--stacks=99"], "between 0 and 64"),
                                 (["--stacks=x"], "GPUMEM_STACKS=x"), (["--limit=5X"], "GPUMEM_LIMIT=5X"),
                                 (["--trace-format=xml"], "auto, binary or csv"), (["--trace=%q"], "%p %h %r %%"),
                                 (["--bogus"], "unknown option '--bogus'"), (["--stacks"], "takes a value"),
                                 (["--policy=plan:none"], "policy 'plan:none': none: no such file or directory"),
                                 (["--policy=static:zz"], "policy 'static:zz': rule 1: wrong condition \"zz\"; accepted: "),
                                 (["--policy=cache:1"], "takes no argument"), (["--oom=trim,zz"], "GPUMEM_OOM=trim,zz: \"zz\" is not a step"),
                                 (["--trace-ring=64K"], "GPUMEM_TRACE_RING=64K: accepted: bytes from 1M on, such as 64M, or a time such as 30s"),
                                 (["--trace-ring=1.5"], "GPUMEM_TRACE_RING=1.5: accepted"),
                                 (["--resource-native=foo"], "GPUMEM_RESOURCE_NATIVE=foo: "),
                                 (["--resource-async=cache("], "GPUMEM_RESOURCE_ASYNC=cache(: "),
                                 (["--group=a/b"], "GPUMEM_GROUP=a/b is not a name; accepted: "),
                                 (["--exec=1"], "takes no value")):
            marker = self.path("marker")
            status, out, err = self.run_probe(*arguments, "--", "/usr/bin/touch", marker) if "=" in arguments[0] or \
                arguments == ["--bogus"] else self.run_probe(*arguments)
            self.assertEqual((status, out, err.count("\n")), (2, "", 1), (arguments, err))
            self.assertIn(words, err)
            self.assertFalse(os.path.exists(marker))
        self.assertIn("no program given", self.run_probe()[2])

    def test_bad_resource_in_the_environment(self):
        marker = self.path("marker")
        status, out, err = self.run_probe("--", "/usr/bin/touch", marker, GPUMEM_RESOURCE_ASYNC="cache(")
        self.assertEqual((status, out, err.count("\n"), os.path.exists(marker)), (2, "", 1, False), err)
        self.assertIn("GPUMEM_RESOURCE_ASYNC=cache(: ", err)

    def test_missing_library(self):
        status, _, err = self.gpumem("--library", "/nonexistent.so", "--", "/bin/true")
        self.assertEqual((status, err), (2, "gpumem: library '/nonexistent.so': No such file or directory\n"))
        for name in (self.path("text", "x"), self.folder):
            status, _, err = self.gpumem("--library", name, "--", "/bin/true")
            self.assertEqual((status, err), (2, f"gpumem: library '{name}': not an ELF file; accepted: a libgpumem.so\n"))

    # programs that preload cannot reach

    def elf(self, name, **fields):
        with open("/bin/true", "rb") as f:
            data = bytearray(f.read())
        if "machine" in fields:
            data[18:20] = fields["machine"].to_bytes(2, "little")
        if "interpreter" in fields:
            begin = data.index(b"/lib64/ld-linux") if b"/lib64/ld-linux" in data else data.index(b"/lib/ld-linux")
            data[begin:begin + 15] = fields["interpreter"]
        if "no_interpreter" in fields:
            offset, size, count = (int.from_bytes(data[a:b], "little") for a, b in ((32, 40), (54, 56), (56, 58)))
            for i in range(count):
                at = offset + i * size
                if int.from_bytes(data[at:at + 4], "little") == 3:
                    data[at:at + 4] = b"\4\0\0\0"
        path = self.path(name)
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, 0o755)
        return path

    def test_unreachable_programs_are_named(self):
        for fields, words in ((dict(machine=2), "is built for another machine"), (dict(no_interpreter=1), "statically linked"),
                              (dict(interpreter=b"/lib/ld-musl-xx"), "musl")):
            path = self.elf("program", **fields)
            self.assertIn("gpumem: %s " % path, self.run_probe("--", path)[2])
            self.assertIn(words, self.run_probe("--", path)[2])
        script = self.path("script", "#!%s\n" % self.elf("program", machine=2))
        os.chmod(script, 0o755)
        self.assertIn("is built for another machine", self.run_probe("--", script)[2])
        self.assertNotIn("cannot reach", self.run_probe("--", "/bin/true")[2])

    def test_help_keeps_words_apart(self):
        for command, words in (("top", "root those of all users. Default without a PID."), ("report", "run with --stacks=N records more.")):
            said = subprocess.run([GPUMEM, "help", command], capture_output=True, text=True).stdout
            self.assertIn(words, " ".join(said.split()))
            self.assertLessEqual(max(map(len, said.split("\n"))), 110)

    def test_help_has_groups_and_examples(self):
        """Each option once, below a heading; values as the manual shows them; examples that the program takes."""
        said = subprocess.run([GPUMEM, "help", "run"], capture_output=True, text=True).stdout
        usage, *groups = said.rstrip().split("\n\n")
        headings = [group.split("\n")[0] for group in groups[1:]]
        self.assertTrue(usage.startswith("usage: ") and len(headings) > 5, headings)
        for heading in headings:
            self.assertRegex(heading, "^[A-Z].*:$")
        options = re.findall(r"^  --([a-z-]+)", said, re.M)
        self.assertEqual(sorted(options), sorted(set(options)))
        for words in ("--trace-format=auto|binary|csv\n", "--stacks=0..64 frames\n", "--strict[=0|1]\n",
                      "--color=auto|always|never "):
            self.assertIn(words, said)
        examples = re.findall(r"^  gpumem (run .*?)  ", groups[-1], re.M)
        self.assertEqual(len(examples), 3)
        for example in examples:
            words = example.split()
            at = words.index("--")
            status, _, err = self.run_probe(*words[1:at], "--", "/bin/true")
            self.assertEqual(status, 0, err)

    def test_help_and_version(self):
        for arguments in (["help"], ["help", "run"], ["help", "report"], ["run", "--help"], ["--version"]):
            done = subprocess.run([GPUMEM, *arguments], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout)
        done = subprocess.run([GPUMEM, "frobnicate"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))


if __name__ == "__main__":
    unittest.main()
