#!/usr/bin/env python3
"""A figure that no result file keeps true is found, in its block and outside of it.

usage: test_figures.py TOOLS-BENCH
"""

import json
import pathlib
import sys
import tempfile
import unittest

BENCH = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(BENCH))
import figure_text  # noqa: E402
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
            self.assertEqual(path.read_text(), document("headline", figures.BLOCKS["headline"]()))

    def test_runs_that_come_later(self):
        """Tables of benches without a published run say so, and are written once there is one."""
        cold = {"ms_min": 6.0, "ms_median": 6.5, "ms_max": 7.0, "trim_ms": 0.5, "nnz_c": 1000, "peak_bytes": 20000}
        sizes = {"a": "gen:cage14", "b": None, "rows": 99, "stored": 500, "b_rows": 99, "b_stored": 500, "touched_rows": 99, "touched": 500, "products": 9}
        about = {"commit": "abc1234", "gpu": "Test GPU", "driver": "1", "rounds": 2}
        product = {**about, "precision": "double", "runs": "5 after 2", "bandwidth": 4.8, "rivals": {}, "products": {"cage14": sizes},
                   "figures": {"cage14|ours cold": cold, "cage14|cusparse:alg1": {**cold, "ms_median": 69.5}, "cage14|cusparse:alg2": {"error": "x", "kind": "memory"}}}
        search = {"ms": 2.0, "growing_ms": 0.5, "growths": 3, "copied": 0, "peak_bytes": 8 << 20}
        grown = {**about, "graphs": {}, "runs": {"sssp|1024|in place": [search], "sssp|1024|copy": [{**search, "ms": 3.0}]}, "failed": {}, "left_out": []}
        before = figure_text.RESULTS
        try:
            with tempfile.TemporaryDirectory() as folder:
                figure_text.RESULTS = pathlib.Path(folder)
                for name, bench in (("spgemm-product", "spgemm-product"), ("spgemm-product-aims", "spgemm-product"), ("frontiers", "frontiers")):
                    self.assertEqual(figures.BLOCKS[name](), f"0 runs of `*-{bench}*.json` are published yet.")
                for name, document in (("x-spgemm-product-quick.json", product), ("x-frontiers.json", grown)):
                    pathlib.Path(folder, name).write_text(json.dumps(document))
                self.assertIn("| cage14 | 7 (6.5 to 7.5) | - | - | 70 | memory | - | 10.00 alg1 | 1.25 | 0 |", figures.BLOCKS["spgemm-product"]())
                self.assertIn("- Met: cage14, ours cold: 7 ms (<= 7).", figures.BLOCKS["spgemm-product-aims"]())
                self.assertIn("| shortest paths | 1024 | 2, 0.5, 8 | 3, 0.5, 8 | - | - |", figures.BLOCKS["frontiers"]())
        finally:
            figure_text.RESULTS = before

    def test_misses_are_told(self):
        """Those that no target stands for, too."""
        text = figures.BLOCKS["missed"]()
        newest = max(figure_text.RESULTS.glob("*-alloc*.json"))
        missed = {one["target"] for one in json.loads(newest.read_text())["targets"] if one["verdict"].startswith("missed")}
        self.assertEqual([target for target in missed if target not in " ".join(text.split())], [])
        self.assertRegex(text, r"`loop-short` under `cache`: 1\.\d+ x")
        self.assertNotIn("not measured", text)
        self.assertIn("19 % slower under `auto`", " ".join(figures.BLOCKS["hybrid-story"]().split()))


if __name__ == "__main__":
    unittest.main()
