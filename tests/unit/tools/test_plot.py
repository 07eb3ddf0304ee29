"""gpumem plot: the numbers given to pictures against plain counting, and the command from trace to files."""
import base64
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import drawing

if drawing.python() != sys.executable:
    os.execv(drawing.python(), [drawing.python(), *sys.argv])
if not importlib.util.find_spec("matplotlib"):
    print("matplotlib is missing")
    sys.exit(77)

import trace_file as t
from tool_case import ToolCase

ToolCase.GPUMEM = os.path.abspath(sys.argv.pop(1))
MANY_EVENTS = os.path.abspath(sys.argv.pop(1))
PLOT = sys.argv.pop(1)
sys.path.insert(0, PLOT)
sys.dont_write_bytecode = True
import data
import numpy
import pictures
import style

S = 10 ** 9
MIB = 1 << 20
NAMES = ["bands", "kinds", "lifetimes", "objects", "over-time", "reserved", "sizes", "thresholds"]


def blocks(rows, end=100 * S):
    """rows: (bytes, created, ended or NEVER, kind)."""
    kinds = list(dict.fromkeys(kind for *_, kind in rows))
    return data.Blocks([(place + 1, 0x1000 * place, size, 1, created, ended, kinds.index(kind))
                        for place, (size, created, ended, kind) in enumerate(rows)], end, kinds)


def random_rows(count, seed):
    dice = random.Random(seed)
    rows = []
    for place in range(count):
        created = 3 * place + 1  # ends are never at a moment of birth
        ended = data.NEVER if dice.random() < 0.1 else created + 3 * int(10 ** dice.uniform(0, 5)) + 1
        rows.append((dice.randrange(1, 1 << 20), created, ended, dice.choice(["native", "cache", "managed"])))
    return rows


def live_at(rows, moment, which=lambda row: True):
    return sum(row[0] for row in rows if which(row) and row[1] <= moment and (row[2] == data.NEVER or row[2] > moment))


def steps(times, live, moments):
    """Values of a step line."""
    return [int(live[place]) if place >= 0 else 0 for place in numpy.searchsorted(times, moments, side="right") - 1]


class Numbers(unittest.TestCase):
    def test_bytes_by_kind(self):
        rows = random_rows(300, 1)
        times, lines = data.bytes_by_kind(blocks(rows, 10 ** 6))
        moments = [1, 5, 100, 500, 899, 5000, 99999]
        for kind in ("native", "cache", "managed"):
            self.assertEqual(steps(times, lines[kind], moments), [live_at(rows, at, lambda row: row[3] == kind) for at in moments])

    def test_thinned_lines_keep_peaks(self):
        rows = random_rows(5000, 2)
        some = blocks(rows, 15000)
        whole = sum(data.bytes_by_kind(some, 10 ** 6)[1].values())
        times, lines = data.bytes_by_kind(some, 50)
        total = sum(lines.values())
        self.assertLessEqual(len(times), 150)
        self.assertEqual((total.max(), total.min()), (whole.max(), whole.min()))
        limits = numpy.linspace(0, 15000, 51)
        all_times, all_lines = data.bytes_by_kind(some, 10 ** 6)
        every = sum(all_lines.values())
        for low, high in zip(limits, limits[1:-1]):
            part, thin = (values[(at >= low) & (at < high)] for values, at in ((every, all_times), (total, times)))
            self.assertEqual((part.min(), part.max(), part[-1]), (thin.min(), thin.max(), thin[-1]))

    def test_bytes_by_threshold(self):
        rows = random_rows(300, 3)
        thresholds = (10, 1000, 10 ** 6)
        for threshold, parts in zip(thresholds, data.bytes_by_threshold(blocks(rows, 10 ** 6), thresholds)):
            moments = [1, 50, 700, 4000, 50000]

            def short(row):
                return row[2] != data.NEVER and row[2] - row[1] <= threshold
            self.assertEqual(steps(*parts[0], moments), [live_at(rows, at, short) for at in moments])
            self.assertEqual(steps(*parts[1], moments), [live_at(rows, at, lambda row: not short(row)) for at in moments])

    def test_lifetime_bars(self):
        lives = [0, 9, 10, 17, 18, 999999999, S, 2 * S - 1, 41 * S]
        (edges, short), (above, long) = data.lifetime_bars(numpy.array(lives))
        self.assertEqual((edges[0], edges[-1], len(short)), (1e-8, 1.0, 32))
        self.assertEqual((short[0], short[1], short[-1], short.sum()), (4, 1, 1, 6))
        self.assertEqual((above[0], above[-1]), (1, 41))
        self.assertEqual((long[0], long[-1], long.sum()), (2, 1, 3))

    def test_no_lifetimes(self):
        (_, short), (_, long) = data.lifetime_bars(numpy.array([], dtype=numpy.int64))
        self.assertEqual((short.sum(), long.sum()), (0, 0))

    def test_marks_are_bounded(self):
        dice = numpy.random.default_rng(4)
        x, y = dice.integers(0, 10 ** 6, 200000), dice.integers(0, 10 ** 9, 200000)
        kept, counts = data.thin(x, y)
        self.assertTrue(5000 <= len(kept) <= 10000)
        self.assertEqual(counts.sum(), 200000)
        self.assertEqual(len(data.thin(numpy.arange(200000), numpy.zeros(200000))[0]), data.CELLS[0])
        kept, counts = data.thin(numpy.array([1, 1, 9]), numpy.array([5, 5, 5]))
        self.assertEqual((kept.tolist(), counts.tolist()), ([0, 2], [2, 1]))
        self.assertEqual(data.thin(numpy.array([]), numpy.array([]))[0].tolist(), [])
        self.assertEqual(data.shades(numpy.array([1, 2, 15, 16, 255, 256])).tolist(), [1, 1, 2, 3, 4, 4])
        self.assertEqual(data.shades(numpy.array([1, 1])).tolist(), [1, 1])

    def test_bands(self):
        some = data.Blocks([(1, 0x1000, 100, 1, 0, 10, 0), (2, 0x9000, 50, 1, 0, 10, 0),
                            (3, 0x1000, 60, 1, 20, 30, 0), (4, 0x1064, 10, 1, 0, 40, 0),
                            (5, 0xf000, 0, 1, 0, 90, 0)], 100, ["native"])
        places, lows = data.bands(some)
        self.assertEqual([(int(place), int(low)) for place, low in zip(places, lows)], [(0, 0), (1, 110), (2, 0), (3, 100)])
        self.assertEqual([int(place) for place in data.bands(some, 2)[0]], [0, 2])

    def test_thresholds_end_at_the_length_of_the_run(self):
        rows = [dict(device=device, threshold_ns=n) for device in (0, None) for n in (1, 2, 4, 8, 16)]
        for run_ns, shown in ((3, [1, 2, 4]), (4, [1, 2, 4]), (0, [1]), (100, [1, 2, 4, 8, 16])):
            by_device = pictures.rows_of_devices({"lifetime_distribution": {"thresholds": rows}, "totals": {"duration_ns": run_ns}})
            self.assertEqual({device: [row["threshold_ns"] for row in some] for device, some in by_device.items()}, {0: shown, None: shown})

    def test_distinct_thresholds(self):
        rows = [dict(async_peak_bytes=value, managed_peak_bytes=9) for value in (0, 0, 1, 1, 2, 3, 3)]
        self.assertEqual([row["async_peak_bytes"] for row in data.distinct_thresholds(rows)], [0, 1, 2, 3])
        self.assertEqual([row["async_peak_bytes"] for row in data.distinct_thresholds(rows, 2)], [0, 3])

    def test_host_memory_is_not_of_the_device(self):
        some = blocks([(1, 0, 5, "native"), (2, 0, 5, "host"), (4, 0, 5, "host-numa"), (8, 0, 5, "imported")])
        self.assertEqual(data.on_device(some).bytes.tolist(), [1, 4])

    def test_lanes(self):
        rows = data.phase_rows([("c", 12, 20), ("a", 0, 100), ("b", 10, 50), ("d", 60, 70), ("e", 200, 210)])
        self.assertEqual(rows, [(0, "a", 0, 100), (1, "b", 10, 50), (2, "c", 12, 20), (1, "d", 60, 70), (0, "e", 200, 210)])
        self.assertEqual([name for _, name, *_ in data.phase_rows([("a", 0, 9), ("b", 1, 8), ("c", 2, 7)], 2)], ["a", "b"])

    def test_marks_are_inside_their_axes(self):
        rows = random_rows(3000, 5)
        trace = {"process": {"devices": []}}
        for make in (pictures.objects, pictures.sizes):
            figure = make(style.pyplot(), pictures.Subject(blocks(rows, 10 ** 5), {}, [], trace, 1000))
            for axes in figure.axes:
                self.assertGreater(sum(len(line.get_xdata()) for line in axes.lines), 500)
                for each, (low, high) in (("x", axes.get_xlim()), ("y", axes.get_ylim())):
                    values = numpy.concatenate([getattr(line, f"get_{each}data")() for line in axes.lines])
                    self.assertTrue(low <= values.min() and values.max() <= high, (low, high, values))
                    self.assertLess(high - low, 2.2 * (values.max() - values.min()) + 1)
            style.pyplot().close(figure)

    def test_marks_are_at_their_times(self):
        """A mark that is shifted shows a free before its time."""
        trace = {"process": {"devices": []}}
        some = blocks(random_rows(100, 6))
        figure = pictures.objects(style.pyplot(), pictures.Subject(some, {}, [], trace, 1000))
        for line, times in zip(figure.axes[0].lines, (some.created, some.ended)):
            self.assertEqual(line.get_transform(), figure.axes[0].transData)
            self.assertTrue(set(numpy.rint(line.get_ydata() * S).astype(int).tolist()) <= set(times.tolist()))
        style.pyplot().close(figure)

    def test_dense_pictures_show_how_many(self):
        """Half of the paper remains visible, and denser parts are darker."""
        trace, rows = {"process": {"devices": []}}, random_rows(60000, 7)
        figure = pictures.objects(style.pyplot(), pictures.Subject(blocks(rows, 180000), {}, [], trace, 10 ** 6))
        axes = figure.axes[0]
        self.assertGreater(len({line.get_alpha() for line in axes.lines} - {None}), 2)
        self.assertEqual([text.get_text() for text in axes.get_legend().get_texts()], ["allocated", "freed"])
        figure.canvas.draw()
        box = axes.get_window_extent()
        pixels = numpy.asarray(figure.canvas.buffer_rgba())[-int(box.y1):-int(box.y0), int(box.x0):int(box.x1), :3]
        self.assertGreater((pixels.min(axis=2) > 150).mean(), 0.5)
        style.pyplot().close(figure)

    def test_a_legend_names_each_thing_once(self):
        some = blocks([(MIB, place, 50 + place, "native") for place in range(20)])
        some.site = numpy.arange(20) % 4
        trace = {"process": {"devices": []}}
        names = {0: "load at a.c:1", 1: "load at a.c:1", 2: "solve at a.c:9"}
        figure = pictures.bands(style.pyplot(), pictures.Subject(some, names, [], trace, 1000))
        self.assertEqual(sorted(text.get_text() for text in figure.axes[0].get_legend().get_texts()),
                         ["load at a.c:1", "solve at a.c:9", "unknown site"])
        style.pyplot().close(figure)

    def test_lines_of_a_legend_differ(self):
        rows = [{"device": 0, "threshold_ns": S, "async_peak_bytes": MIB, "managed_peak_bytes": MIB, "device_bytes": 80 << 30}]
        trace = {"process": {"devices": [{"device": 0, "bytes": 80 << 30}]}, "lifetime_distribution": {"thresholds": rows},
                 "totals": {"duration_ns": 9 * S}}
        figure = pictures.over_time(style.pyplot(), pictures.Subject(blocks([(MIB, 1, 5, "native")]), {}, [], trace, 1000))
        lines = figure.axes[0].get_legend().get_lines()
        self.assertEqual(len(lines), 3)
        self.assertEqual(len({line.get_linestyle() for line in lines}), 3)
        style.pyplot().close(figure)

    def test_peaks_of_kinds_are_exact(self):
        """A line may lose the peak of one kind between two moments that matter for the sum; the words do not."""
        trace = {"process": {"devices": []}, "by_kind": [{"kind": "native", "peak_live_bytes": 3 << 20}]}
        figure = pictures.kinds(style.pyplot(), pictures.Subject(blocks([(1 << 20, 1, 5, "native")]), {}, [], trace, 1000))
        self.assertEqual([text.get_text() for text in figure.axes[0].get_legend().get_texts()], ["native, at most 3 MiB"])
        style.pyplot().close(figure)

    def test_texts(self):
        self.assertEqual([style.bytes_text(value) for value in (0, 1023, 1536, 80 << 30)], ["0 B", "1023 B", "1.5 KiB", "80 GiB"])
        self.assertEqual([style.time_text(value) for value in (2, 0.25, 3e-6, 5e-9)], ["2 s", "250 ms", "3 us", "5 ns"])


class Command(ToolCase):
    def plot(self, *traces, expected=0):
        status, out, err = self.run_tool("plot", "-o", "out", *traces)
        self.assertEqual((status, out), (expected, "out/report.html\n"), err)
        return err

    def check(self, begins=("",), names=NAMES):
        found = sorted(os.listdir(self.path("out")))
        self.assertEqual(found, sorted([f"{begin}{name}{ending}" for begin in begins for name in names for ending in (".svg", ".png")] +
                                       ["report.html"]))
        for name in found:
            with open(self.path(f"out/{name}"), "rb") as file:
                content = file.read()
            if name.endswith(".svg"):
                self.assertEqual(xml.etree.ElementTree.fromstring(content).tag, "{http://www.w3.org/2000/svg}svg")
            elif name.endswith(".png"):
                self.assertEqual(content[:8], b"\x89PNG\r\n\x1a\n")
        return self.page(len(begins) * len(names))

    def page(self, pictures):
        with open(self.path("out/report.html"), encoding="utf-8") as file:
            text = file.read()
        sources = re.findall(r'(?:src|href)="([^"]*)"', text)
        self.assertEqual([source[:30] for source in sources if not source.startswith(("data:image/svg+xml;base64,", "#t"))], [])
        embedded = [source for source in sources if source.startswith("data:")]
        self.assertEqual(len(embedded), pictures)
        for source in embedded:
            xml.etree.ElementTree.fromstring(base64.b64decode(source.split(",", 1)[1]))
        words = re.sub(r'"data:[^"]*"', "", text)
        self.assertNotRegex(words, r"https?:|//|@import|url\(|<script|<link")
        return words

    def test_sample(self):
        self.write("x.trace", t.sample())
        self.assertEqual(self.plot("x.trace"), "")
        text = self.check()
        for words in ("/bin/solver", "node7", "Test GPU, 80 GiB", "app+0x123", "libcublas.so.13+0x10 (library of the toolkit)", "16 MiB"):
            self.assertIn(words, text)

    def test_devices_have_pictures_of_their_own(self):
        events = [t.event(n + 1, 1000 * n, "alloc", "cuMemAlloc", 0x100000 * (n + 1), 3 + n, device=n, site=1) for n in range(2)]
        events.append(t.event(3, 5000, "free", "cuMemFree", 0x100000, 3))
        self.write("x.trace", t.header() + t.chunk(b"".join(events)))
        self.assertEqual(self.plot("x.trace"), "")
        text = self.check()
        self.assertIn("<td class=text>peak of live memory of device 1</td><td class=text>4 B</td>", text)
        self.assertNotIn("peak of live memory of the device", text)

    def test_phases(self):
        records = t.string(1, b"load $x$") + t.string(2, b"odd \xff<b>\n")
        self.write("x.trace", t.header() + t.chunk(records, kind=2) + t.chunk(
            t.event(1, 5, "phase_begin", "none", 0, 0, site=1) + t.event(2, 500, "alloc", "cuMemAlloc", 0x1000, 64) +
            t.event(3, 600, "phase_begin", "none", 0, 0, site=2) + t.event(4, 700, "phase_end", "none", 0, 0) +
            t.event(5, 900, "free", "cuMemFree", 0x1000, 64) + t.event(6, 1000, "phase_end", "none", 0, 0)))
        self.assertEqual(self.plot("x.trace"), "")
        text = self.check()
        self.assertIn("<td class=text>phase of the peak</td><td class=text>load $x$</td>", text)
        self.assertIn("odd ?&lt;b&gt;", text)
        with open(self.path("out/kinds.svg")) as file:
            self.assertIn("phases", file.read())

    def test_large_pictures_are_cut(self):
        subprocess.run([MANY_EVENTS, self.path("m.trace"), "200000"], check=True)
        self.plot("m.trace")
        self.check()
        for name in NAMES:
            self.assertLess(os.path.getsize(self.path(f"out/{name}.svg")), 2 << 20, name)

    def test_one_event(self):
        self.write("x.trace", t.header() + t.chunk(t.event(1, 5, "alloc", "cuMemAlloc", 0x1000, 64)))
        self.plot("x.trace")
        self.check(names=[name for name in NAMES if name != "lifetimes"])

    def test_empty(self):
        self.write("x.trace", t.header())
        self.plot("x.trace")
        self.assertIn("nothing to draw", self.check(names=[]))

    def test_cut_trace(self):
        whole = t.sample()
        self.write("x.trace", whole[:len(whole) - 4096 - 100])
        self.plot("x.trace")
        self.assertIn("<td class=text>events</td><td class=text>6</td>", self.check())

    def test_processes(self):
        self.write("runs/a.trace", t.sample())
        self.write("runs/b.trace", t.header(pid=4343, rank=1) + t.chunk(t.event(1, 5, "alloc", "cuMemAlloc", 0x1000, 64)))
        self.plot("runs")
        found = os.listdir(self.path("out"))
        self.assertIn("1-4242-kinds.svg", found)
        self.assertIn("2-4343-kinds.svg", found)
        text = self.page(2 * len(NAMES) - 1)
        self.assertIn('href="#t1"', text)

    def test_names_are_escaped(self):
        records = t.module(0x10000, 0x10000, 0x20000, "/opt/<script>&\"x") + t.site(1, [0x10123])
        self.write("<b>.trace", t.header() + t.chunk(records, kind=2) +
                   t.chunk(t.event(1, 5, "alloc", "cuMemAlloc", 0x1000, 64, site=1) + t.event(2, 9, "free", "cuMemFree", 0x1000, 64)))
        self.plot("<b>.trace")
        text = self.check()
        self.assertNotIn("<b>", text)
        self.assertIn("&lt;script&gt;&amp;", text)

    def test_one_of_two_is_no_trace(self):
        self.write("x.trace", t.sample())
        self.write("y.trace", "nothing")
        self.assertIn("y.trace", self.plot("x.trace", "y.trace", expected=1))
        self.check()

    def test_bad_use(self):
        self.write("x.trace", t.sample())
        for words, complaint in ((["x.trace"], "no output given"), (["-o", "out"], "no trace given"), (["-o", "out", "no.trace"], "no.trace"),
                                 (["-o", "x.trace", "x.trace"], "'x.trace' is not a folder"),
                                 (["-o", "", "x.trace"], "--output '' is not a name; accepted: FOLDER"), (["-o", "out", "--zoom=0", "x.trace"], "--zoom")):
            status, out, err = self.run_tool("plot", *words)
            self.assertNotEqual(status, 0)
            self.assertEqual((out, err.count("\n")), ("", 1), err)
            self.assertIn(complaint, err)

    def test_nobody_reads_the_name_of_the_report(self):
        self.write("x.trace", t.header())  # nothing to draw
        for closed, reason in ((">/dev/full", "No space left on device"), (">&-", "closed")):
            done = subprocess.run(["/bin/sh", "-c", f'"$0" plot -o out x.trace {closed}', self.GPUMEM], cwd=self.folder.name,
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (1, f"gpumem: plot: standard output: {reason}\n"))

    def test_without_matplotlib(self):
        """A Python that has none, and the system's that cannot be had."""
        self.write("x.trace", t.sample())
        with open(os.path.join(PLOT, "main.py")) as file:
            text = file.read().replace(drawing.SYSTEM, "/nonexistent/python3")
        self.write("plot/main.py", text)
        self.write("plot/matplotlib.py", "raise ImportError('none', name='matplotlib')")
        done = subprocess.run([sys.executable, "-B", self.path("plot/main.py"), "--tool", self.GPUMEM, "--output", self.path("out"), "--top",
                               "10", "--zoom", "10", "--", self.path("x.trace")], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (1, "", "gpumem: plot: matplotlib is missing; install python3-matplotlib, or matplotlib from PyPI\n"))

    def test_tables_agree_with_report(self):
        self.write("x.trace", t.sample())
        self.plot("x.trace")
        found = json.loads(self.good("report", "--json", "x.trace"))["traces"][0]
        text = self.check()
        for site in found["sites"]:
            self.assertIn(f"<td>{style.bytes_text(site['allocated_bytes'])}</td><td>{site['allocations']:,}</td>", text)


if __name__ == "__main__":
    unittest.main()
