"""What gpumem says to a mistyped command, option or value."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tool_case import ToolCase

ToolCase.GPUMEM = os.path.abspath(sys.argv.pop(1))
HAVE_CUDA = sys.argv.pop(1) == "true"


class Meant(ToolCase):
    def refused(self, *arguments):
        status, out, err = self.run_tool(*arguments)
        self.assertEqual((status, out, err.count("\n")), (2, "", 1), (arguments, err))
        return err

    def meant(self, name, *arguments):
        self.assertIn(f"; did you mean {name}?", self.refused(*arguments))

    def not_meant(self, *arguments):
        self.assertNotIn("did you mean", self.refused(*arguments))

    def test_commands(self):
        for typed, name in (("reprot", "report"), ("hmtl", "html"), ("tpo", "top"), ("--versoin", "--version"), ("hlep", "help")):
            self.meant(name, typed)
        self.meant("export", "help", "exprot")
        self.assertEqual(self.refused("reprot"), "gpumem: unknown command 'reprot'; did you mean report? (`gpumem help` lists all)\n")
        for typed in ("frobnicate", "x", "rm"):
            self.assertIn(f"unknown command '{typed}'; there are: run, ", self.refused(typed))
            self.not_meant(typed)

    def test_options(self):
        self.meant("--leaks", "report", "--leeks", "x")
        self.meant("--fail-on-leak", "report", "--fail-on-laek=4", "x")
        self.meant("--compare", "html", "--comprae", "x")
        self.meant("--help", "top", "--hepl")
        self.meant("--policy", "run", "--polcy=cache", "--", "true")
        self.meant("--trace", "run", "--trcae=x", "--", "true")
        self.meant("--quantum", "share", "--quantmu=1s", "--", "true")
        self.assertEqual(self.refused("report", "--leeks", "x"),
                         "gpumem: report: unknown option '--leeks'; did you mean --leaks? (`gpumem help report` lists all)\n")
        for command in ("run", "report", "top"):
            self.not_meant(command, "--frobnicate")
            self.not_meant(command, "-5")
        self.not_meant("run", "--trace-", "--", "true")  # the begin of several

    def test_values(self):
        self.meant("cache", "run", "--policy=cahce", "--", "true")
        self.meant("static", "run", "--policy=sttic:size>2M", "--", "true")
        self.meant("poison", "run", "--fill=poisson", "--", "true")
        self.meant("never", "run", "--color=nevr", "--", "true")
        self.meant("sqlite", "export", "--to=sqlit", "-o", "y", "x")
        self.meant("frees", "top", "--sort=fres")
        self.meant("always", "report", "--color=allways", "x")
        self.meant("stop", "trace", "stpo", "1")
        if HAVE_CUDA:
            self.meant("cache", "replay", "--policy=cahce", "x")
        self.not_meant("run", "--fill=ones", "--", "true")
        self.not_meant("run", "--policy=" + "x" * 300, "--", "true")
        self.not_meant("trace", "begin", "1")

    def test_version(self):
        self.assertEqual(self.good("-V"), self.good("--version"))


if __name__ == "__main__":
    unittest.main()
