"""What tests of the gpumem program share: a folder of traces, and running the tool in it."""
import os
import subprocess
import tempfile
import unittest


class ToolCase(unittest.TestCase):
    GPUMEM = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return name

    def run_tool(self, *arguments):
        """Status, standard output and standard error."""
        done = subprocess.run([self.GPUMEM, *arguments], cwd=self.folder.name, capture_output=True, text=True, timeout=100)
        return done.returncode, done.stdout, done.stderr

    def good(self, *arguments):
        status, out, err = self.run_tool(*arguments)
        self.assertEqual((status, err), (0, ""), out)
        return out
