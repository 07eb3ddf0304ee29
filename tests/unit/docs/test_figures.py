#!/usr/bin/env python3
"""A figure that no result file keeps true is found, in its block and outside of it.

usage: test_figures.py TOOLS-BENCH
"""

import pathlib
import sys
import tempfile
import unittest

BENCH = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(BENCH))
import figures  # noqa: E402


def document(name, text):
    return f"# A title\n\n<!-- figures {name} -->\n{text}\n<!-- /figures -->\n"


class Figures(unittest.TestCase):
    def troubles(self, text):
        return list(figures.troubles_of("x.md", text))

    def test_every_block_is_current_as_it_is_written(self):
        for name, write in figures.BLOCKS.items():
            with self.subTest(name):
                self.assertEqual(self.troubles(document(name, write())), [])
                self.assertLessEqual(max(map(len, write().splitlines())), 120)

    def test_a_changed_figure_is_named(self):
        for name, write in figures.BLOCKS.items():
            text = write()
            at = next(i for i, letter in enumerate(text) if letter.isdigit())
            changed = text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1:]
            with self.subTest(name):
                self.assertRegex("\n".join(self.troubles(document(name, changed))), f"figures {name} are not current")

    def test_a_figure_outside_of_a_block_is_named(self):
        for text in ("It takes 12 ms.", "It takes 0.4 us a call.", "It is 1.22 x as fast.", "From 3 to 4 GB/s.", "some 60\nns each"):
            with self.subTest(text):
                self.assertEqual(len(self.troubles(text)), 1)

    def test_what_programs_print_and_constants_are_left_alone(self):
        for text in ("    gpumem:   time in calls    1.49 ms\n", "```\n1.49 ms\n```\n", ".EX\n0 ns\n.EE\n", "behind a 1 ms kernel", "2 MiB, 5 % and 10 s", "version 1.0.1",
                     "tests/x86-64 4 xyz"):
            with self.subTest(text):
                self.assertEqual(self.troubles(text), [])

    def test_an_unknown_block_is_named(self):
        self.assertIn("no figures are called nothing", self.troubles(document("nothing", "1"))[0])

    def test_update_writes_the_block(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.md"
            path.write_text(document("headline", "old"))
            sys.argv = ["figures.py", "--update", str(path)]
            self.assertEqual(figures.main(), 0)
            self.assertEqual(path.read_text(), document("headline", figures.headline()))

    def test_misses_are_told(self):
        """Those that no target stands for, too."""
        text = figures.missed()
        self.assertIn("mixed: reserved beyond 1.25 x live + 64 MiB", text)
        self.assertRegex(text, r"`loop-short` under `cache`: 1\.\d+ x")
        self.assertNotIn("not measured", text)
        self.assertIn("12.6 ms under `auto`", " ".join(figures.hybrid_story().split()))


if __name__ == "__main__":
    unittest.main()
