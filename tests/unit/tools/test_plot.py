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


NEVER = -1
EDGES = [10.0 ** (power / 4) for power in range(4, 37)]  # ns


def random_rows(count, seed):
    """(bytes, created, ended or NEVER, kind, device)"""
    dice = random.Random(seed)
    rows, ends = [], set()
    for place in range(count):
        created = 3 * place + 1  # ends are never at a moment of birth, nor at that of another end
        ended = NEVER if dice.random() < 0.1 else created + 3 * int(10 ** dice.uniform(0, 5)) + 1
        while ended in ends and ended != NEVER:
            ended += 3
        ends.add(ended)
        rows.append((dice.randrange(1, 1 << 20), created, ended, dice.choice(["native", "cache", "host"]), dice.randrange(2)))
    return rows


def trace_of(rows, end):
    """A trace of these blocks, whose last event is at `end`."""
    events = []
    for place, (size, created, ended, kind, device) in enumerate(rows):
        calls = ("cuMemHostAlloc", "cuMemFreeHost") if kind == "host" else ("cuMemAlloc", "cuMemFree")
        events.append((created, "alloc", calls[0], (place + 1) << 24, size, kind, device))
        if ended != NEVER:
            events.append((ended, "free", calls[1], (place + 1) << 24, size, kind, device))
    events.sort(key=lambda each: each[0])
    events = [t.event(number + 1, at, action, call, address, size, kind=kind, device=device, duration=0)
              for number, (at, action, call, address, size, kind, device) in enumerate(events)]
    events.append(t.event(len(events) + 1, end, "mark", "none", 0, 0, duration=0))
    return t.header() + b"".join(t.chunk(b"".join(events[begin:begin + 4000])) for begin in range(0, len(events), 4000))


def live_at(rows, moment, which=lambda row: True):
    return sum(row[0] for row in rows if which(row) and row[1] <= moment and (row[2] == NEVER or row[2] > moment))


def changes(rows, which=lambda row: True):
    """(time, live bytes) after each change."""
    found = []
    moments = sorted([(row[1], row[0]) for row in rows if which(row)] + [(row[2], -row[0]) for row in rows if which(row) and row[2] != NEVER])
    live = 0
    for at, difference in moments:
        live += difference
        found.append((at, live))
    return found


def is_object(row):
    return row[3] != "host"


def series(**more):
    """A document of plot --json with little in it."""
    empty = {"x": [], "y": [], "count": []}
    part = {"objects": 1, "sized": 1, "until_ns": 100 * S, "least_bytes": 1, "most_bytes": MIB, "numbers": {"allocated": empty, "freed": empty},
            "sizes": {"allocated": empty, "freed": empty}}
    return data.Series({"end_ns": 100 * S, "phases": [], "parts": [part], "devices": [], "bands": [],
                        "lifetimes": {"quarter_decades": [0] * 32, "longer": [0] * 40, "longest_s": 2.0}, **more})


class Numbers(ToolCase):
    def numbers(self, rows, end, *words):
        self.write("x.trace", trace_of(rows, end))
        return json.loads(self.good("plot", "--json", *words, "x.trace"))

    def check_line(self, times, live, every, end):
        """In each interval the line has the least, the greatest and the last of all values."""
        self.assertEqual(sorted(times), list(times))
        found = {}
        for at, value in every:
            found.setdefault(min(int(at / end * 400), 399), []).append(value)
        drawn = {}
        for at, value in zip(times, live):
            drawn.setdefault(min(int(at / end * 400), 399), []).append(value)
        for interval, values in found.items():
            self.assertEqual((min(drawn[interval]), max(drawn[interval]), drawn[interval][-1]), (min(values), max(values), values[-1]), interval)

    def test_lines_by_kind(self):
        """The kinds of a device are exact when their sum is least, greatest or last in its interval."""
        for rows, end in ((random_rows(30, 1), 10 ** 6), (random_rows(1000, 2), 40000)):
            rows = [row for row in rows if row[2] < end]
            for device in self.numbers(rows, end)["devices"]:
                own = [row for row in rows if row[4] == device["device"]]
                times, lines = data.kinds_of(device)
                self.check_line(times, sum(lines.values()), changes(own), end)
                for place, at in enumerate(times.tolist()):
                    for kind, line in lines.items():
                        self.assertEqual(line[place], live_at(own, at, lambda row: row[3] == kind))
                for kind in lines:
                    self.assertEqual(device["kinds"]["peaks"][kind], max(live for _, live in changes(own, lambda row: row[3] == kind)))

    def test_bytes_by_threshold(self):
        rows, end = random_rows(1000, 3), 4 * S
        rows = [(size, 10 ** 4 * created, ended if ended == NEVER else 10 ** 4 * ended, *more) for size, created, ended, *more in rows]
        for device in self.numbers(rows, end)["devices"]:
            own = [row for row in rows if row[4] == device["device"] and is_object(row)]
            for place in (0, 3, 9, 11, 19):
                threshold = 2 ** place * S // 1024

                def short(row):
                    return row[2] != NEVER and row[2] - row[1] <= threshold
                for name, which in (("async", short), ("managed", lambda row: not short(row))):
                    times, live = data.line(device["splits"][place][name])
                    for at, value in zip(times.tolist(), live.tolist()):
                        self.assertEqual(value, live_at(own, at, which), (place, name, at))
                    self.assertEqual(max(live), max([value for _, value in changes(own, which)], default=0))

    def test_lifetime_bars(self):
        lives = [0, 9, 10, 17, 18, 31, 32, 56, 57, 99, 100, 999, 1000, 999999999, S, 2 * S - 1, 41 * S]
        rows = [(1, 1, 1 + life, "native", 0) for life in lives] + [(1, 1, NEVER, "native", 0), (1, 1, 5, "host", 0)]
        (edges, short), (above, long) = data.lifetime_bars(self.numbers(rows, 50 * S)["lifetimes"])
        self.assertEqual((edges[0], edges[-1], len(short)), (1e-8, 1.0, 32))
        wanted = [0] * 32
        for life in lives:
            if life < S:
                wanted[max([place for place in range(32) if life >= EDGES[place]], default=0)] += 1
        self.assertEqual(short.tolist(), wanted)
        self.assertEqual((above[0], above[-1]), (1, 41))
        self.assertEqual((long[0], long[-1], long.sum()), (2, 1, 3))

    def test_no_lifetimes(self):
        (_, short), (_, long) = data.lifetime_bars(self.numbers([(1, 1, NEVER, "native", 0)], 10)["lifetimes"])
        self.assertEqual((short.sum(), long.sum()), (0, 0))

    def test_marks(self):
        """Each mark is a point of the trace, all points are counted, and the number of marks is bounded."""
        rows = random_rows(400, 4)
        numbered = [(place + 1, *row) for place, row in enumerate(rows) if is_object(row)]
        whole, first = self.numbers(rows, 400000, "--zoom=50")["parts"]
        self.assertEqual((whole["objects"], first["objects"]), (len(numbered), 50))
        for part, own in ((whole, numbered), (first, numbered[:50])):
            until = 400000 if part is whole else max(row[2] for row in own)
            self.assertEqual(part["until_ns"], until)
            self.assertEqual((part["least_bytes"], part["most_bytes"]), (min(row[1] for row in own), max(row[1] for row in own)))
            for name, points in (("allocated", [(row[0], row[2], row[1]) for row in own]),
                                 ("freed", [(row[0], row[3], row[1]) for row in own if row[3] != NEVER])):
                marks = part["numbers"][name]
                self.assertTrue(set(zip(marks["x"], marks["y"])) <= {(number, at) for number, at, _ in points})
                self.assertEqual(sum(marks["count"]), len(points))
                marks = part["sizes"][name]
                inside = [(at, size) for _, at, size in points if at <= until]
                self.assertTrue(set(zip(marks["x"], marks["y"])) <= set(inside))
                self.assertEqual(sum(marks["count"]), len(inside))

    def test_marks_are_bounded(self):
        subprocess.run([MANY_EVENTS, self.path("m.trace"), "300000"], check=True)
        part = json.loads(self.good("plot", "--json", "m.trace"))["parts"][0]
        for which in ("numbers", "sizes"):
            for name in ("allocated", "freed"):
                self.assertLessEqual(len(part[which][name]["x"]), 10000)
                self.assertGreater(sum(part[which][name]["count"]), 140000)

    def test_report(self):
        """The page's report is made while the trace is read for the pictures."""
        subprocess.run([MANY_EVENTS, self.path("m.trace"), "3000"], check=True)
        self.assertEqual(json.loads(self.good("plot", "--json", "m.trace"))["report"],
                         json.loads(self.good("report", "--json", "--peak", "--phases", "--reserved", "m.trace")))

    def test_bands(self):
        rows = [(1 + place, 1, 2 + place, "native", 0) for place in range(900)] + [(5, 1, NEVER, "host", 0)]
        found = self.numbers(rows, 2000)["bands"]
        self.assertEqual([block["bytes"] for block in found], list(range(900, 500, -1)))
        self.assertEqual((found[0]["created_ns"], found[0]["ended_ns"]), (1, 901))

    def test_shades(self):
        self.assertEqual(data.shades(numpy.array([1, 2, 15, 16, 255, 256])).tolist(), [1, 1, 2, 3, 4, 4])
        self.assertEqual(data.shades(numpy.array([1, 1])).tolist(), [1, 1])

    def test_heights_of_bands(self):
        some = [{"address": address, "bytes": size} for address, size in ((0x1000, 100), (0x9000, 50), (0x1000, 60), (0x1064, 10))]
        self.assertEqual(data.bands(some).tolist(), [0, 110, 0, 100])

    def test_thresholds_end_at_the_length_of_the_run(self):
        splits = [{"async": {"times": [1], "bytes": [place, 0]}, "managed": {"times": [], "bytes": []}} for place in range(20)]
        for run_ns, count in ((1, 1), (S // 1024, 1), (S // 1024 + 1, 2), (S, 11), (600 * S, 20)):
            rows = data.peaks_of({"splits": splits}, run_ns, 80 << 30)
            self.assertEqual([row["async_peak_bytes"] for row in rows], list(range(count)))
            self.assertEqual((rows[-1]["threshold_ns"], rows[0]["managed_peak_bytes"], rows[0]["device_bytes"]),
                             ((S << count - 1) // 1024, 0, 80 << 30))

    def test_peaks_agree_with_the_report(self):
        rows = random_rows(400, 8)
        found = self.subject(rows, 3 * S).thresholds
        part = json.loads(self.good("report", "--json", "--lifetimes", "x.trace"))["traces"][0]["lifetime_distribution"]
        for device, own in found.items():
            wanted = [row for row in part["thresholds"] if row["device"] == device]
            self.assertEqual([(row["threshold_ns"], row["async_peak_bytes"], row["managed_peak_bytes"]) for row in own],
                             [(row["threshold_ns"], row["async_peak_bytes"], row["managed_peak_bytes"]) for row in wanted][:len(own)])

    def test_distinct_thresholds(self):
        rows = [dict(async_peak_bytes=value, managed_peak_bytes=9) for value in (0, 0, 1, 1, 2, 3, 3)]
        self.assertEqual(data.distinct_thresholds(rows), [0, 2, 4, 5])
        self.assertEqual(data.distinct_thresholds(rows, 2), [0, 5])

    def test_lanes(self):
        rows = data.phase_rows([("c", 12, 20), ("a", 0, 100), ("b", 10, 50), ("d", 60, 70), ("e", 200, 210)])
        self.assertEqual(rows, [(0, "a", 0, 100), (1, "b", 10, 50), (2, "c", 12, 20), (1, "d", 60, 70), (0, "e", 200, 210)])
        self.assertEqual([name for _, name, *_ in data.phase_rows([("a", 0, 9), ("b", 1, 8), ("c", 2, 7)], 2)], ["a", "b"])

    def subject(self, rows, end, *words):
        return pictures.Subject(data.Series(self.numbers(rows, end, *words)), {"process": {"devices": []}})

    def test_marks_are_inside_their_axes(self):
        subject = self.subject(random_rows(3000, 5), 10 ** 6)
        for make in (pictures.objects, pictures.sizes):
            figure = make(style.pyplot(), subject)
            for axes in figure.axes:
                self.assertGreater(sum(len(line.get_xdata()) for line in axes.lines), 500)
                for each, (low, high) in (("x", axes.get_xlim()), ("y", axes.get_ylim())):
                    values = numpy.concatenate([getattr(line, f"get_{each}data")() for line in axes.lines])
                    self.assertTrue(low <= values.min() and values.max() <= high, (low, high, values))
                    self.assertLess(high - low, 2.2 * (values.max() - values.min()) + 1)
            style.pyplot().close(figure)

    def test_marks_are_at_their_times(self):
        """A mark that is shifted shows a free before its time."""
        rows = random_rows(100, 6)
        figure = pictures.objects(style.pyplot(), self.subject(rows, 2 * S))
        for line, place in zip(figure.axes[0].lines, (1, 2)):
            self.assertEqual(line.get_transform(), figure.axes[0].transData)
            self.assertTrue(set(numpy.rint(line.get_ydata() * S).astype(int).tolist()) <= {row[place] for row in rows})
        style.pyplot().close(figure)

    def test_dense_pictures_show_how_many(self):
        """Half of the paper remains visible, and denser parts are darker."""
        figure = pictures.objects(style.pyplot(), self.subject(random_rows(60000, 7), 180000, "--zoom=1000000"))
        axes = figure.axes[0]
        self.assertGreater(len({line.get_alpha() for line in axes.lines} - {None}), 2)
        self.assertEqual([text.get_text() for text in axes.get_legend().get_texts()], ["allocated", "freed"])
        figure.canvas.draw()
        box = axes.get_window_extent()
        pixels = numpy.asarray(figure.canvas.buffer_rgba())[-int(box.y1):-int(box.y0), int(box.x0):int(box.x1), :3]
        self.assertGreater((pixels.min(axis=2) > 150).mean(), 0.5)
        style.pyplot().close(figure)

    def test_a_legend_names_each_thing_once(self):
        some = [{"address": 0x1000 * place, "bytes": MIB, "created_ns": place, "ended_ns": 50 + place,
                 "site": ("load at a.c:1", "load at a.c:1", "solve at a.c:9", None)[place % 4]} for place in range(20)]
        figure = pictures.bands(style.pyplot(), pictures.Subject(series(bands=some), {}))
        self.assertEqual(sorted(text.get_text() for text in figure.axes[0].get_legend().get_texts()),
                         ["load at a.c:1", "solve at a.c:9", "unknown site"])
        style.pyplot().close(figure)

    def test_each_device_has_its_own_lines(self):
        line = {"times": [1, 5], "bytes": [MIB, 0]}
        devices = [{"device": place, "kinds": {"times": [1, 5], "bytes": {"native": [MIB, 0]}, "peaks": {"native": 3 * MIB}},
                    "splits": [{"async": line, "managed": line}]} for place in range(2)]
        trace = {"process": {"devices": [{"device": place, "bytes": 80 << 30} for place in range(2)]}}
        for many in (1, 2):
            subject = pictures.Subject(series(devices=devices[:many]), trace)
            figure = pictures.over_time(style.pyplot(), subject)
            self.assertEqual([axes.get_title() for axes in figure.axes], [["N = 1/1024 s"], ["N = 1/1024 s, device 0", "N = 1/1024 s, device 1"]][many - 1])
            lines = figure.axes[0].get_legend().get_lines()
            self.assertEqual((len(lines), len({line.get_linestyle() for line in lines})), (3, 3))
            style.pyplot().close(figure)
            # A line may lose the peak of one kind between two moments that matter for the sum; the words do not.
            figure = pictures.kinds(style.pyplot(), subject)
            self.assertEqual([[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes],
                             [["native, at most 3 MiB"]] * many)
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
        self.assertIn(r"odd \xff&lt;b&gt;\x0a", text)
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
