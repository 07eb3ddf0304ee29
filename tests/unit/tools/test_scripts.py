"""What tools/ shares among its scripts, and the last line of tools/test where no test could run."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "lib"))
import tree  # noqa: E402
from first_error import first_error  # noqa: E402

LINKING = """[1/9] Compiling C object a.o
[2/9] Generating tests/preload/kernel with a custom command
FAILED: tests/preload/kernel
/usr/local/cuda/bin/nvcc -o tests/preload/kernel ../kernel.cu -lmissing
../kernel.cu(90): warning #128-D: loop is not reachable
/usr/bin/ld: cannot find -lmissing: No such file or directory
collect2: error: ld returned 1 exit status
[3/9] Compiling C object b.o
FAILED: b.o
cc -c b.c
b.c:1:1: error: expected something
ninja: build stopped: subcommand failed.
"""


class Tree(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name) / "unpacked archive"
        for name in ("a.c", "shim/.clang-format", "subprojects/b.wrap", "subprojects/packagefiles/b/meson.build", "build/a.c", "build-2/a.c", ".venv/c.py",
                     "subprojects/b-1.0/b.c", "tools/__pycache__/d.pyc", ".git/HEAD", "out/meson-private/coredata.dat", "out/a.c"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text("")

    def test_without_git(self):
        own = ["a.c", "shim/.clang-format", "subprojects/b.wrap", "subprojects/packagefiles/b/meson.build"]
        self.assertEqual(sorted(tree.found(self.root)), own)
        with unittest.mock.patch.dict(os.environ, {"PATH": self.folder.name}):
            self.assertEqual(tree.files(self.root), own)

    def test_as_git_says(self):
        known = tree.known_to_git(ROOT)
        if not known:
            self.skipTest("no checkout, or no git")
        self.assertEqual(set(known) - set(tree.found(ROOT)), set())


class FirstError(unittest.TestCase):
    def test_first_target_and_its_error(self):
        self.assertEqual(first_error(LINKING), "tests/preload/kernel: /usr/bin/ld: cannot find -lmissing: No such file or directory")

    def test_without_the_word_error(self):
        self.assertEqual(first_error("FAILED: [code=1] a b\ncommand\n\033[1mkilled\033[0m\n"), "a b: killed")
        self.assertEqual(first_error("FAILED: a\ncommand\n[2/2] b\nerror\n"), "a: it says nothing")

    def test_no_target(self):
        self.assertEqual(first_error("ninja: error: loading 'build.ninja': No such file or directory\n\n"),
                         "ninja: error: loading 'build.ninja': No such file or directory")
        self.assertEqual(first_error(""), "it says nothing")


class Script(unittest.TestCase):
    """A script of tools/ with other programs in place of tools/setup, ninja and meson."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        (self.root / "tools").mkdir()
        (self.root / "log").write_text(LINKING)
        shutil.copy(ROOT / self.SCRIPT, self.root / "tools")
        shutil.copytree(ROOT / "tools/lib", self.root / "tools/lib")
        self.program("tools/setup", "echo 'tool_path=' >\"$(dirname \"$0\")/../build/.setup.env\"")
        self.program("ninja", "true")
        self.program("meson", "true")

    def program(self, name, text):
        (self.root / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.root / name).chmod(0o755)


class Package(Script):
    SCRIPT = "tools/package"

    def test_sparse_products_were_just_disabled(self):
        """The rules of the last build still have them, until ninja writes the new ones."""
        (self.root / "build").mkdir()
        self.program("dpkg-deb", "true")
        self.program("ninja", """case $* in
            *build.ninja) touch regenerated ;;
            *"-t query spgemm-kernels") [ ! -e regenerated ] ;;
            *spgemm-kernels) touch regenerated; echo "ninja: error: unknown target 'spgemm-kernels'" >&2; exit 1 ;;
        esac""")
        self.program("meson", """case $* in
            *--projectinfo*) echo '{"version": "1"}' ;;
            *--buildoptions*) echo '[{"name": "cuda", "value": "enabled"}, {"name": "toolkit", "value": ""}, {"name": "cards", "value": "all"}]' ;;
            setup*) echo "$*" >configured; exit 1 ;;
        esac""")
        done = subprocess.run([self.root / "tools/package", "--no-setup", "--wheel"], cwd=self.root, capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{self.root}:{os.environ['PATH']}"})
        self.assertRegex(done.stdout, r"^package +no sparse products: the build folder does not build them\n", done.stderr)
        self.assertIn("-Dspgemm=disabled", (self.root / "configured").read_text())


class LastLine(Script):
    SCRIPT = "tools/test"

    def run_test(self, *options):
        done = subprocess.run([self.root / "tools/test", *options], capture_output=True, text=True, env={**os.environ, "PATH": f"{self.root}:{os.environ['PATH']}"})
        return done.returncode, done.stdout.splitlines()[-1]

    def test_build_fails(self):
        self.program("ninja", f"cat '{self.root}/log'; exit 1")
        self.assertEqual(self.run_test(), (1, "0 passed, 1 failed, 0 skipped: build of " + first_error(LINKING)))

    def test_setup_fails(self):
        self.program("tools/setup", "echo setup began; echo 'meson      too old' >&2; exit 1")
        self.assertEqual(self.run_test(), (1, "0 passed, 1 failed, 0 skipped: tools/setup: meson      too old"))

    def test_path_that_cannot_be_preloaded(self):
        for name in ("with blank", "with:colon"):
            line = (f"0 passed, 1 failed, 0 skipped: {self.root}/{name} has a colon or blank in its path, which LD_PRELOAD cannot hold; "
                    "--build names another build folder")
            self.assertEqual(self.run_test("--build", self.root / name), (1, line))

    def test_no_bare_machine(self):
        """Without root, or a debootstrap to be found."""
        programs = self.root / "programs"
        programs.mkdir()
        for name in ("bash", "dirname", "id"):
            (programs / name).symlink_to(shutil.which(name))
        done = subprocess.run([self.root / "tools/test", "--bare"], capture_output=True, text=True, env={"PATH": str(programs)})
        self.assertEqual(done.returncode, 77, done)
        self.assertRegex(done.stdout, r"^0 passed, 0 failed, 1 skipped: --bare needs (root|debootstrap)\b.*\n$")

    def test_no_test_runs(self):
        self.assertEqual(self.run_test(), (1, "0 passed, 0 failed, 0 skipped: no test ran"))

    def test_tests_run(self):
        results = "".join(f'{{"result": "{result}"}}\n' for result in ("OK", "OK", "SKIP"))
        self.program("meson", f"mkdir -p '{self.root}/build/meson-logs'; printf '%s' '{results}' >'{self.root}/build/meson-logs/testlog.json'")
        self.assertEqual(self.run_test(), (0, "2 passed, 0 failed, 1 skipped"))


if __name__ == "__main__":
    unittest.main()
