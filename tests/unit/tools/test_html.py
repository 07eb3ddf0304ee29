"""gpumem html: the page in a real browser against gpumem report and against plain counting, and bad use of the command."""
import json
import os
import random
import re
import subprocess
import sys
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser
import trace_file as t
from tool_case import ToolCase

ToolCase.GPUMEM = os.path.abspath(sys.argv.pop(1))
MANY_EVENTS = os.path.abspath(sys.argv.pop(1))
HAVE_LIBRARY = sys.argv.pop(1) == "true"
MIB = 1 << 20
EVIL = "</script><img src=x onerror=\"document.title='run'\"><!--<script>"


class Trace:
    """A random trace, and what happened in a part of it by plain counting."""

    def __init__(self, seed, decline=False, count=3000, sites=9):
        """decline: the second half has frees only."""
        dice, self.blocks, alive, now, events, number = random.Random(seed), [], [], 1000, {100: [], 101: []}, 0
        for _ in range(count):
            now += dice.randrange(200, 5000)
            number += 1
            if alive and (number > count / 2 if decline else dice.random() < 0.48):
                block = alive.pop(dice.randrange(len(alive)))
                block["ended"] = now
                events[100].append(t.event(number, now, "free", "cuMemFree", block["address"], block["bytes"], kind=block["kind"]))
                continue
            thread, kind = dice.choice((100, 101)), dice.choice(("native", "native", "cache", "host"))
            block = {"number": len(self.blocks), "bytes": dice.randrange(1, 4 * MIB), "site": dice.randrange(1, sites + 1), "created": now + 100,
                     "ended": None, "thread": thread, "kind": kind, "address": 0x10000000 + 4 * MIB * len(self.blocks)}
            self.blocks.append(block)
            alive.append(block)
            events[thread].append(t.event(number, now, "alloc", "cuMemAlloc", block["address"], block["bytes"], kind=kind, site=block["site"]))
        records = t.module(0x10000, 0x10000, 0x20000, "/opt/none/app") + b"".join(
            t.site(site, [0x10000 + 16 * site, 0x11000 + 16 * (site % 3), 0x12000]) for site in range(1, sites + 1))
        self.content = t.header() + t.chunk(records, kind=2) + b"".join(t.chunk(b"".join(some), thread=thread)
                                                                          for thread, some in events.items())

    @staticmethod
    def name(site):
        return f"app+0x{16 * site:x}"

    def live(self, moment, which=lambda block: True):
        return sum(block["bytes"] for block in self.blocks if block["kind"] != "host" and which(block) and block["created"] <= moment and
                   (block["ended"] is None or block["ended"] > moment))

    def sums(self, begin, end, which=lambda block: True):
        made = [block for block in self.blocks if which(block) and begin <= block["created"] < end]
        freed = [block for block in self.blocks if which(block) and block["ended"] is not None and begin <= block["ended"] < end]
        leaked = [block for block in made if block["ended"] is None]
        return {"allocs": len(made), "bytes": sum(block["bytes"] for block in made), "frees": len(freed),
                "freed_bytes": sum(block["bytes"] for block in freed), "leaked": len(leaked),
                "leaked_bytes": sum(block["bytes"] for block in leaked)}

    def peak(self, begin, end):
        """The first moment with the most live bytes of device memory, and the bytes."""
        moments = [begin, *(block["created"] for block in self.blocks if begin <= block["created"] < end)]
        return max(((moment, self.live(moment)) for moment in moments), key=lambda item: item[1])


@unittest.skipUnless(HAVE_LIBRARY, "built without dygraphs")
class Page(ToolCase):
    @classmethod
    def setUpClass(cls):
        if not browser.program():
            raise unittest.SkipTest("no Chromium")
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def open(self, content):
        self.write("x.trace", content)
        return self.show("x.trace")

    def show(self, *words, width=1400, link=""):
        """The page of these traces and options."""
        self.good("html", "--force", "-o", "x.trace.html", *words)
        self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=width < 500)
        self.browser.open(self.path("x.trace.html") + link)
        self.addCleanup(lambda: self.assertEqual(self.browser.complaints(), []))
        return self.browser

    def report(self, *more):
        return json.loads(self.good("report", "--json", *more, "x.trace"))["traces"][0]

    def test_blocks_live_where_a_part_ends_are_no_leaks(self):
        self.write("x.trace", t.header() + t.chunk(t.event(1, 1000, "alloc", "cuMemAlloc", 0x1000, 7) + t.event(2, 3000, "free", "cuMemFree", 0x1000, 7) +
                                                   t.event(3, 4000, "alloc", "cuMemAlloc", 0x1000, 7)))
        for options, whole in (((), True), (("--until=2us",), False)):
            page = self.show(*options, "x.trace")
            self.assertEqual("1 leaked, 7 B" in page.text("#selection"), whole, page.text("#selection"))
            self.assertEqual("1 live at the trace's end, 7 B" in page.text("#selection"), not whole, page.text("#selection"))
            self.assertEqual("need not be a leak" in page.text("#facts"), not whole)
            self.assertEqual("leaked bytes" in page.text("#measure"), whole)
            self.assertNotIn("did not end normally", page.text("#facts"))

    def tab(self, name):
        place = self.browser.run(f"[...document.querySelectorAll('#tabs button')].findIndex(b => b.textContent === {json.dumps(name)})")
        self.browser.click(f"#tabs button:nth-child({place + 1})")

    def table(self):
        """Rows of the table: numbers by column, texts by column."""
        return self.browser.run(
            "(() => { const heads = [...document.querySelectorAll('#table th')].map(e => e.dataset.field); "
            "return [...document.querySelectorAll('#table tbody tr')].map(row => Object.fromEntries([...row.cells].map("
            "(cell, at) => [heads[at], 'value' in cell.dataset ? Number(cell.dataset.value) : cell.textContent]))); })()")

    def test_totals_are_those_of_the_report(self):
        page = self.open(t.sample())
        found, shown = self.report("--threads", "--kinds"), page.data("#selection")
        for ours, theirs in (("allocs", "allocations"), ("bytes", "allocated_bytes"), ("frees", "frees"), ("temporary", "temporary"),
                             ("leaked", "leaked_blocks"), ("leaked_bytes", "leaked_bytes"), ("peak_bytes", "peak_live_bytes"),
                             ("peak_ns", "peak_live_ns")):
            self.assertEqual(shown[ours], found["totals"][theirs], ours)
        sites = {row["name"]: row for row in self.table()}
        for row in found["sites"]:
            for ours, theirs in (("allocs", "allocations"), ("bytes", "allocated_bytes"), ("at_peak", "at_peak_bytes"),
                                 ("temporary", "temporary"), ("leaked", "leaked_blocks"), ("leaked_bytes", "leaked_bytes")):
                self.assertEqual(sites[row["text"]][ours], row[theirs], (row["text"], ours))
        self.assertEqual(len(sites), len(found["sites"]))
        self.tab("Kinds")
        self.assertEqual({row["name"]: (row["allocs"], row["most_live"]) for row in self.table()},
                         {row["kind"]: (row["allocations"], row["peak_bytes"]) for row in found["kinds"]["rows"]})
        self.tab("Threads")
        self.assertEqual({row["name"]: row["bytes"] for row in self.table()},
                         {f"thread {row['thread']}": row["bytes"] for row in found["threads"]["rows"]})
        self.assertEqual((page.text("#program"), page.run("document.querySelector('#program').title")), ("gpumem: solver", "/bin/solver"))

    def test_a_range_shows_what_happened_in_it(self):
        self.check_ranges(Trace(1))

    def test_a_range_of_frees(self):
        """Its peak is at its begin."""
        self.check_ranges(Trace(5, decline=True))

    def check_ranges(self, trace):
        page = self.open(trace.content)
        for begin, end in ((0.4, 0.7), (0.55, 0.6)):
            page.drag("#chart", begin, end)
            shown = page.data("#selection")
            begin_ns, end_ns = shown["begin_ns"], shown["end_ns"]
            self.assertLess(end_ns - begin_ns, 0.5 * max(block["ended"] or 0 for block in trace.blocks))
            for name, value in trace.sums(begin_ns, end_ns).items():
                self.assertEqual(shown[name], value, name)
            peak_ns, peak = trace.peak(begin_ns, end_ns)
            self.assertEqual((shown["peak_ns"], shown["peak_bytes"]), (peak_ns, peak))
            rows = {row["name"]: row for row in self.table()}
            for site in range(1, 10):
                def of_site(block, site=site):
                    return block["site"] == site
                expected = {**trace.sums(begin_ns, end_ns, of_site), "at_peak": trace.live(peak_ns, of_site),
                            "live_at_end": trace.live(end_ns - 1, of_site)}
                row = rows[trace.name(site)]
                self.assertEqual({name: row[name] for name in expected}, expected, site)
            for measure, value in (("at_peak", peak), ("bytes", trace.sums(begin_ns, end_ns)["bytes"]),
                                   ("leaked_bytes", trace.sums(begin_ns, end_ns)["leaked_bytes"])):
                page.choose("#measure", measure)
                self.assertEqual(page.data("#flame")["total"], value, measure)
            page.choose("#measure", "at_peak")
        page.double_click("#chart")
        self.assertEqual(page.data("#selection")["allocs"], len(trace.blocks))
        page.click("#peak")
        self.assertEqual(page.data("#selection")["peak_bytes"], self.report()["totals"]["peak_live_bytes"])
        self.assertLess(page.data("#selection")["allocs"], len(trace.blocks) / 5)
        page.click("#whole")
        self.assertEqual(page.data("#selection")["allocs"], len(trace.blocks))

    def test_a_range_has_its_blocks(self):
        """Those that lived in it at any time."""
        trace = Trace(11, count=300)
        page = self.open(trace.content)
        self.tab("Largest blocks")
        self.assertEqual(page.data("#table")["rows"], len(trace.blocks))
        for begin, end in ((0.1, 0.3), (0.6, 0.9)):
            page.drag("#chart", begin, end)
            shown = page.data("#selection")
            lived = [block for block in trace.blocks if block["created"] <= shown["end_ns"] and (block["ended"] or shown["end_ns"]) >= shown["begin_ns"]]
            self.assertEqual(page.data("#table")["rows"], len(lived))
            self.assertLess(len(lived), 0.9 * len(trace.blocks))

    def test_own_peak_beside_a_larger_one(self):
        """The block of a kind lives between the moments that the page knows: the peak and the end of each interval."""
        rows = [(1000 * number, "native", ("free", "alloc")[number % 2], 8) for number in range(1, 8001)]
        rows[4000:4000] = [(4000010, "managed", "alloc", 1), (4000020, "managed", "free", 1)]
        events = [t.event(number, time, what, "cuMemAlloc" if what == "alloc" else "cuMemFree", 0x1000, size * MIB, kind=kind, duration=1)
                  for number, (time, kind, what, size) in enumerate(rows, 1)]
        self.open(t.header() + b"".join(t.chunk(b"".join(events[at:at + 4000])) for at in range(0, len(events), 4000)))
        self.tab("Kinds")
        self.assertEqual({row["name"]: row["most_live"] for row in self.table()}, {"native": 8 * MIB, "managed": MIB})

    def test_curves(self):
        trace = Trace(2)
        page = self.open(trace.content)
        for which, names in ((0, {"native", "cache", "host"}), (3, {"thread 100", "thread 101"}), (2, {"(no phase)"}),
                             (1, {trace.name(site) for site in range(1, 10)})):
            page.choose("#by", which)
            self.assertEqual(set(page.run("[...document.querySelectorAll('#legend .name')].map(e => e.textContent)")), names)

    def test_sort_and_search(self):
        page = self.open(Trace(3).content)
        for field in ("allocs", "name", "leaked_bytes"):
            for direction in ("ascending", "descending") if field == "name" else ("descending", "ascending"):
                page.click(f"#table th[data-field={field}]")
                values = [row[field] for row in self.table()]
                self.assertEqual(values, sorted(values, reverse=direction == "descending"), (field, direction))
                self.assertEqual(page.run(f"document.querySelector('#table th[data-field={field}]').ariaSort"), direction)
        page.write("#search", "APP+0x40")
        self.assertEqual([row["name"] for row in self.table()], ["app+0x40"])
        self.assertEqual(page.data("#flame")["found"], 1)
        page.write("#search", "app+0x2000")  # only a caller
        self.assertEqual(self.table(), [])
        self.assertEqual(page.data("#flame")["found"], 1)
        page.write("#search", "")
        self.assertEqual(len(self.table()), 9)

    def test_flame_graph_opens_a_frame(self):
        page = self.open(Trace(4).content)
        whole = page.data("#flame")
        self.assertEqual(whole["root"], whole["total"])
        lines = page.run("document.querySelector('#flame').clientHeight") / 19
        self.assertEqual(lines, 4)  # all, and three frames
        page.move("#flame", 0.1, 2.5 / lines)
        tip = page.text("#tip")
        self.assertRegex(tip, r"^app\+0x10[0-2]0\n.* bytes\), .* %$")
        page.click("#flame", 0.1, 2.5 / lines)
        self.assertLess(page.data("#flame")["root"], whole["total"])
        self.assertIn(f"({page.data('#flame')['root']:,.0f} bytes)", tip)
        page.click("#unzoom")
        self.assertEqual(page.data("#flame"), whole)

    def test_hover_shows_the_block(self):
        page = self.open(t.header() + t.chunk(t.module(0x10000, 0x10000, 0x20000, "/opt/none/app") + t.site(1, [0x10123]) +
                                              t.string(1, b"load"), kind=2) + t.chunk(
            t.event(1, 1000, "phase_begin", "none", 0, 0, site=1) + t.event(2, 5000, "alloc", "cuMemAlloc", 0xabc000, 4 * MIB, site=1) +
            t.event(3, 9005100, "free", "cuMemFree", 0xabc000, 4 * MIB) + t.event(4, 9100000, "phase_end", "none", 0, 0)))
        lines = ["block 1: 4.00 MiB (4,194,304 bytes) of native, device 0", "app+0x123", "cuMemAlloc, address 0xabc000",
                 "allocated at 5.1 us by thread 100, lived 9 ms", "phase: load"]
        page.move("#block-map")
        self.assertEqual(page.text("#tip").split("\n"), lines)
        page.move("#chart", 0.5, 0.4)
        self.assertEqual(page.text("#tip").split("\n")[1:], ["largest block:", *lines])
        self.tab("Largest blocks")
        page.move("#table tbody tr")
        self.assertEqual(page.text("#tip").split("\n"), lines)
        page.move("#table-note")
        self.assertTrue(page.run("document.querySelector('#tip').hidden"))
        self.tab("Phases")
        self.assertEqual([(row["name"], row["bytes"], row["frees"]) for row in self.table()], [("load", 4 * MIB, 1)])

    def test_names_are_text(self):
        records = (t.module(0x10000, 0x10000, 0x20000, "/opt/" + EVIL.replace("/", "|") + "\\\"'&") + t.site(1, [0x10123]) +
                   t.string(1, EVIL.encode() + b"\xff\x01\xe2\x80\xa8"))
        page = self.open(t.header(host=EVIL.encode()) + t.chunk(records, kind=2) + t.chunk(
            t.event(1, 5, "phase_begin", "none", 0, 0, site=1) + t.event(2, 9, "alloc", "cuMemAlloc", 0x1000, 64, site=1) +
            t.event(3, 900, "phase_end", "none", 0, 0)))
        self.assertIn(EVIL.replace("/", "|"), self.table()[0]["name"])
        for which in range(4):
            page.choose("#by", which)
        for name in ("Largest blocks", "Phases"):
            self.tab(name)
            page.move("#table tbody tr")
        self.assertEqual(self.table()[0]["name"], EVIL + r"\xff\x01\u2028")
        for selector in ("#block-map", "#flame", "#chart"):
            page.move(selector)
        self.assertIn(EVIL, page.text("#facts"))
        self.assertEqual(page.run("[[...document.images].filter(i => !i.src.startsWith('data:')).length, document.scripts.length, document.title]"),
                         [0, 3, "gpumem: solver"])

    def test_many_events(self):
        """Live blocks, call sites and threads of a large trace; few intervals if many call sites are busy."""
        subprocess.run([MANY_EVENTS, self.path("x.trace"), "400000"], check=True)
        with open(self.path("x.trace"), "rb") as file:
            page = self.open(file.read())
        totals, shown = self.report()["totals"], page.data("#selection")
        self.assertEqual((shown["allocs"], shown["bytes"], shown["peak_bytes"], shown["peak_ns"], shown["leaked_bytes"], shown["temporary"]),
                         tuple(totals[name] for name in ("allocations", "allocated_bytes", "peak_live_bytes", "peak_live_ns", "leaked_bytes",
                                                         "temporary")))
        self.assertEqual(page.data("#flame")["total"], totals["peak_live_bytes"])
        self.assertLess(os.path.getsize(self.path("x.trace.html")), 20 * MIB)

    def test_fewer_intervals(self):
        """A thousand busy call sites would make half a million rows of 1024 intervals."""
        sites, rounds, records, events = 1000, 600, b"", []
        records = b"".join(t.site(site, [0x10000 + site]) for site in range(1, sites + 1))
        for number in range(sites * rounds):
            events.append(t.event(number + 1, 10 * number, "alloc", "cuMemAlloc", 0x1000 + number, 3, site=number % sites + 1, duration=0))
        chunks = b"".join(t.chunk(b"".join(events[at:at + 4000])) for at in range(0, len(events), 4000))
        page = self.open(t.header() + t.chunk(records, kind=2, size=(len(records) + 64 + 4095) // 4096 * 4096) + chunks)
        shown = page.data("#selection")
        self.assertEqual((shown["allocs"], shown["peak_bytes"], shown["leaked"]), (sites * rounds, 3 * sites * rounds, sites * rounds))
        self.assertEqual(page.data("#table")["rows"], sites)
        self.assertTrue(150 < int(re.search(r'"interval_count":(\d+)', self.content())[1]) <= 300)

    def test_memory_taken_from_the_devices(self):
        """Live, kept and reserved bytes and what is beyond gpumem, as the report has them."""
        events, number = [t.event(1, 500, "beyond", "none", 0, 300 * MIB)], 1
        for round_ in range(40):
            address, begin = 0x1000000 * (round_ % 4 + 1), 1000 + 100000 * round_
            events.append(t.event(number + 1, begin, "alloc", "cuMemAlloc", address, 3 * MIB, kind="cache", slack=MIB, hit=round_ > 3))
            if round_ != 39:
                events.append(t.event(number + 2, begin + 50000, "free", "cuMemFree", address, 3 * MIB, kind="cache", flags=t.KEPT))
            number += 2
        events.append(t.event(number + 1, 4200000, "trim", "none", 0, 8 * MIB, kind="cache", reason=t.IDLE))
        events.append(t.event(number + 2, 4300000, "beyond", "none", 0, 310 * MIB))
        page = self.open(t.header() + t.chunk(b"".join(events)))
        found = self.report("--reserved")["reserved"]
        rows = found["over_time"]
        most = {name: max(row[name + "_bytes"] for row in rows) for name in ("live", "kept", "reserved")}
        self.assertEqual(page.data("#taken"), {"live": most["live"], "reuse": most["kept"], "reserved": most["reserved"],
                                               "gpumem": max(most["reserved"] + 300 * MIB, rows[-1]["reserved_bytes"] + 310 * MIB)})
        self.assertEqual(page.run("[...document.querySelectorAll('#taken-legend .name')].map(e => e.textContent)"),
                         ["live", "kept for reuse", "reserved", "reserved and beyond gpumem"])
        shown = page.data("#selection")
        self.assertEqual((shown["reserved"], shown["kept"], shown["beyond"]), (most["reserved"], most["kept"], found["beyond_peak_bytes"]))
        page.drag("#taken", 0.2, 0.4)
        shown = page.data("#selection")
        self.assertLess(shown["end_ns"] - shown["begin_ns"], 0.4 * 4300000)
        self.assertLess(0, shown["begin_ns"])
        self.assertEqual(shown["beyond"], 300 * MIB)
        page.double_click("#taken", y=0.5)
        self.assertEqual(page.data("#selection")["allocs"], 40)
        page.move("#taken", 0.99, 0.5)
        self.assertIn("reserved and beyond gpumem: ", page.text("#tip"))

    def test_summary(self):
        """Two intervals of a summary: what single blocks would say of the same run, without what needs them."""
        second, records = 10 ** 9, b"".join(t.site(site, [0x10000 + 16 * site]) for site in (1, 2, 3))

        def row(seq, time, site, allocs, allocated, frees, live, most, kind="cache"):
            return t.event(seq, time, "sum", "none", allocated, live, kind=kind, site=site, slack=frees, duration=allocs, stream=most, context=0)

        def moment(seq, time, action, live, first, second=0):
            return t.event(seq, time, action, "none", first, live, device=-1, stream=second, duration=0, context=0)
        events = [row(1, 3 * second, 1, 0, 0, 0, 6 * MIB, 0), row(2, 3 * second, 2, 0, 0, 0, 2 * MIB, 0), moment(3, 3 * second, "peak", 8 * MIB, 9 * MIB),
                  row(4, 10 * second, 1, 5, 10 * MIB, 4, 2 * MIB, 6 * MIB), row(5, 10 * second, 2, 3, 3 * MIB, 0, 3 * MIB, 3 * MIB),
                  row(6, 10 * second, 3, 1, 7, 0, 7, 7, kind="host"), moment(7, 10 * second, "total", 5 * MIB, 4 * MIB, 9 * MIB),
                  moment(8, 10 * second, "peak", 5 * MIB, 9 * MIB), row(9, 20 * second, 1, 0, 0, 1, 0, 2 * MIB),
                  moment(10, 20 * second, "total", 3 * MIB, 6 * MIB, 9 * MIB)]
        page = self.open(t.header(version=3, summary_ns=10 * second) + t.chunk(records, kind=2) + t.packed(b"".join(events)))
        found, shown = self.report()["totals"], page.data("#selection")
        self.assertEqual((shown["allocs"], shown["bytes"], shown["frees"], shown["freed_bytes"]), (9, 13 * MIB + 7, 5, 10 * MIB))
        self.assertEqual((shown["peak_bytes"], shown["peak_ns"], shown["leaked"], shown["leaked_bytes"]), (8 * MIB, 3 * second, 4, 3 * MIB + 7))
        for ours, theirs in (("allocs", "allocations"), ("frees", "frees"), ("peak_bytes", "peak_live_bytes"), ("peak_ns", "peak_live_ns"),
                             ("leaked", "leaked_blocks"), ("leaked_bytes", "leaked_bytes"), ("reserved", "peak_reserved_bytes")):
            self.assertEqual(shown[ours], found[theirs], ours)
        self.assertEqual({row["name"]: (row["at_peak"], row["live_at_end"], row["freed_bytes"]) for row in self.table()},
                         {"0x10010": (6 * MIB, 0, 10 * MIB), "0x10020": (2 * MIB, 3 * MIB, 0), "0x10030": (0, 0, 0)})
        self.assertEqual(page.data("#taken"), {"live": 8 * MIB, "reuse": 6 * MIB, "reserved": 9 * MIB})
        self.assertIn("a summary in intervals of 10 s", page.text("#facts"))
        self.assertEqual(page.run("[...document.querySelectorAll('#tabs button')].map(e => e.textContent)"), ["Call sites", "Kinds"])
        self.assertEqual(page.run("[document.querySelector('#blocks').hidden, document.querySelectorAll('#by option:enabled').length]"), [True, 2])
        self.tab("Kinds")
        self.assertEqual({row["name"]: row["allocs"] for row in self.table()}, {"cache": 8, "host": 1})
        page.drag("#chart", 0.6, 0.9)  # in the second interval
        self.assertEqual(page.data("#selection")["peak_bytes"], 5 * MIB)
        self.assertEqual(page.data("#flame")["total"], 5 * MIB)

    def two_devices(self):
        """Both hold 6 MiB at their peaks, never at the same time; a request fails on device 1, inside a phase."""
        records = (t.device(0, 16 * MIB, "Card") + t.device(1, 8 * MIB, "Card") + t.module(0x10000, 0x10000, 0x20000, "/opt/none/app") +
                   t.site(1, [0x10100, 0x10500]) + t.site(2, [0x10200, 0x10500]) + t.string(1, b"load"))
        events = [t.event(1, 1000, "alloc", "cuMemAlloc", 0x1000000, 2 * MIB, site=1), t.event(2, 2000, "alloc", "cuMemAlloc", 0x2000000, 4 * MIB, site=2),
                  t.event(3, 500000, "free", "cuMemFree", 0x2000000, 4 * MIB), t.event(4, 550000, "phase_begin", "none", 0, 0, site=1),
                  t.event(5, 600000, "alloc", "cuMemAlloc", 0x1000000000, 1 * MIB, site=1, device=1),
                  t.event(6, 700000, "alloc", "cuMemAlloc", 0x2000000000, 5 * MIB, site=2, device=1),
                  t.event(7, 800000, "alloc_fail", "cuMemAlloc", 0, 4 * MIB, site=2, device=1, result=2),
                  t.event(8, 850000, "phase_end", "none", 0, 0), t.event(9, 900000, "free", "cuMemFree", 0x2000000000, 5 * MIB, device=1)]
        return t.header() + t.chunk(records, kind=2) + t.chunk(b"".join(events))

    def test_devices(self):
        page = self.open(self.two_devices())
        self.assertIn("peak of device 0 6.00 MiB at 2.1 us \u00b7 peak of device 1 6.00 MiB at 700.1 us", page.text("#facts"))
        self.assertEqual(page.run("[...document.querySelectorAll('#legend .name')].map(e => e.textContent)"), ["device 0", "device 1"])
        self.assertEqual(page.data("#taken"), {"device0": 6 * MIB, "device1": 6 * MIB})
        self.assertEqual({row["name"]: row["at_peak"] for row in self.table()}, {"app+0x100": 3 * MIB, "app+0x200": 9 * MIB})
        self.tab("Devices")
        self.assertEqual({row["name"]: (row["at_peak"], row["live_at_end"]) for row in self.table()},
                         {"device 0": (6 * MIB, 2 * MIB), "device 1": (6 * MIB, MIB)})
        self.tab("Call sites")
        for view, sites, allocs in ((1, {"app+0x100": 2 * MIB, "app+0x200": 4 * MIB}, 2), (2, {"app+0x100": MIB, "app+0x200": 5 * MIB}, 2)):
            page.choose("#device", view)
            shown = page.data("#selection")
            self.assertEqual((shown["peak_bytes"], shown["allocs"], shown["reserved"]), (6 * MIB, allocs, 6 * MIB))
            self.assertEqual({row["name"]: row["at_peak"] for row in self.table()}, sites)
            self.assertEqual(page.data("#flame")["total"], 6 * MIB)
        self.assertIn("The card has 8.00 MiB (the dashed line).", page.text("#taken-note"))

    def test_a_device_has_one_colour(self):
        """The legend of live memory begins with the device that held most."""
        records = t.device(0, 16 * MIB, "Card") + t.device(1, 8 * MIB, "Card")
        events = t.event(1, 1000, "alloc", "cuMemAlloc", 0x1000000, MIB) + t.event(2, 2000, "alloc", "cuMemAlloc", 0x1000000000, 4 * MIB, device=1)
        page = self.open(t.header() + t.chunk(records, kind=2) + t.chunk(events))
        live, taken = (page.run(f"[...document.querySelectorAll('#{legend} li')].map(row => [row.querySelector('.name').textContent, "
                                "row.querySelector('i').style.background])") for legend in ("legend", "taken-legend"))
        self.assertEqual([name for name, _ in live], ["device 1", "device 0"])
        self.assertEqual(dict(live), dict(taken))

    def test_failed_requests_and_phases(self):
        page = self.open(self.two_devices())
        self.tab("Failed requests")
        self.assertEqual([(row["device"], row["bytes"], row["live"], row["result"], row["site"]) for row in self.table()],
                         [("1", 4 * MIB, 6 * MIB, "2 CUDA_ERROR_OUT_OF_MEMORY", "app+0x200")])
        self.assertFalse(page.run("document.querySelector('#phases').hidden"))
        page.move("#phase-map", 0.79)
        self.assertEqual(page.text("#tip"), "load\n550 us to 850 us, 300 us, thread 100")
        page.click("#phase-map", 0.79)
        shown = page.data("#selection")
        self.assertEqual((shown["allocs"], shown["bytes"]), (2, 6 * MIB))

    def test_filters(self):
        """Legend, rows and filters of several kinds together restrict everything."""
        trace = Trace(6)
        page = self.open(trace.content)
        page.click("#table tbody tr:first-child")
        self.assertEqual(len(self.table()), 1)
        name = self.table()[0]["name"]
        site = next(site for site in range(1, 10) if trace.name(site) == name)
        page.choose("#by", 3)
        place = page.run("[...document.querySelectorAll('#legend .name')].findIndex(e => e.textContent === 'thread 101')")
        page.click(f"#legend li:nth-child({place + 1}) .name")

        def wanted(block):
            return block["site"] == site and block["thread"] == 101
        expected, shown = trace.sums(0, 10 ** 12, wanted), page.data("#selection")
        self.assertEqual({field: shown[field] for field in expected}, expected)
        self.assertEqual(page.run("[...document.querySelectorAll('#filters button')].map(e => e.textContent)"),
                         [f"only call site {name} \u00d7", "only thread thread 101 \u00d7"])
        self.tab("Threads")
        self.assertEqual([(row["name"], row["allocs"]) for row in self.table()], [("thread 101", expected["allocs"])])
        page.click("#filters button:first-child")
        self.assertEqual(page.data("#selection")["allocs"], trace.sums(0, 10 ** 12, lambda block: block["thread"] == 101)["allocs"])
        self.key("Escape")
        self.assertEqual(page.data("#selection")["allocs"], len(trace.blocks))

    def key(self, key, selector="body"):
        self.browser.run(f"document.querySelector({json.dumps(selector)}).dispatchEvent(new KeyboardEvent('keydown', "
                         f"{{key: {json.dumps(key)}, bubbles: true, cancelable: true}}))")
        self.browser.settle()

    def test_pin(self):
        page = self.open(self.two_devices())
        page.choose("#device", 2)
        page.click("#chart", 0.85, 0.5)
        self.assertEqual(page.run("[...document.querySelectorAll('#pin-stack li')].map(e => e.textContent)"), ["app+0x200", "app+0x500"])
        self.assertIn("block 4: 5.00 MiB", page.text("#pin-title"))
        self.key("Escape")
        self.assertTrue(page.run("document.querySelector('#pin').hidden"))
        self.tab("Largest blocks")
        page.click("#table tbody tr:nth-child(2)")
        self.assertIn("block 3: 1.00 MiB", page.text("#pin-title"))

    def test_keys_and_wheel(self):
        page = self.open(Trace(7).content)
        whole = page.data("#selection")
        self.key("+")
        once = page.data("#selection")
        self.assertLess(once["end_ns"] - once["begin_ns"], 0.82 * whole["end_ns"])
        self.key("ArrowRight")
        self.assertGreater(page.data("#selection")["begin_ns"], once["begin_ns"])
        self.key("0")
        self.assertEqual(page.data("#selection"), whole)
        x, y = page.place("#chart", 0.5, 0.4)
        page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-300, modifiers=2)
        page.settle()
        page.settle()
        self.assertLess(page.data("#selection")["allocs"], 0.9 * whole["allocs"])
        self.key("Home")
        self.key("p")
        self.assertEqual(page.data("#selection")["peak_bytes"], whole["peak_bytes"])
        self.key("?")
        self.assertTrue(page.run("document.querySelector('#help').open"))
        page.run("document.querySelector('#help').close()")
        page.run("document.querySelector('#flame').focus()")
        for key in ("ArrowDown", "ArrowDown", "Enter"):
            self.key(key, "#flame")
        self.assertLess(page.data("#flame")["root"], page.data("#flame")["total"])

    def test_link_keeps_the_selection(self):
        self.write("x.trace", self.two_devices())
        page = self.show("x.trace")
        page.choose("#device", 2)
        page.choose("#by", 0)
        page.choose("#measure", "bytes")
        page.drag("#chart", 0.6, 0.9)
        page.click("#table tbody tr:first-child")
        self.tab("Largest blocks")
        page.click("#table tbody tr:first-child")
        before = page.data("#selection"), page.run("[device.value, by.value, measure.value, document.querySelector('#pin-title').textContent]"), self.table()
        link = page.run("location.hash")
        page.call("Page.navigate", url="about:blank")
        page = self.show("x.trace", link=link)
        self.assertEqual((page.data("#selection"), page.run("[device.value, by.value, measure.value, document.querySelector('#pin-title').textContent]"),
                          self.table()), before)

    def test_several_traces(self):
        for rank in range(3):
            self.write(f"r/{rank}.trace", t.header(rank=rank, pid=10 + rank) + t.chunk(t.event(1, 1000, "alloc", "cuMemAlloc", 0x1000, (rank + 1) * MIB)))
        page = self.show("r")
        self.assertEqual(page.run("[...document.querySelectorAll('#traces-body tr')].map(e => [e.cells[1].textContent, e.cells[6].textContent])"),
                         [["0", "1.00 MiB"], ["1", "2.00 MiB"], ["2", "3.00 MiB"]])
        page.click("#traces-body tr:nth-child(3)")
        self.assertEqual(page.data("#selection")["bytes"], 3 * MIB)
        page.choose("#other", 0)
        self.assertEqual([(row["bytes"], row["d_bytes"]) for row in self.table()], [(3 * MIB, 2 * MIB)])

    def test_compare(self):
        records = t.module(0x10000, 0x10000, 0x20000, "/opt/none/app") + t.site(1, [0x10100]) + t.site(2, [0x10200]) + t.site(3, [0x10300])
        for name, rows in (("old", ((1, 4), (2, 2))), ("new", ((1, 7), (3, 1)))):
            self.write(name, t.header() + t.chunk(records, kind=2) + t.chunk(b"".join(
                t.event(site, 1000 * site, "alloc", "cuMemAlloc", 0x100000000 * site, size * MIB, site=site) for site, size in rows)))
        page = self.show("--compare", "old", "new")
        self.assertEqual([(row["name"], row["at_peak"], row["d_at_peak"]) for row in self.table()],
                         [("app+0x100", 7 * MIB, 3 * MIB), ("app+0x200", 0, -2 * MIB), ("app+0x300", MIB, MIB)])
        page.move("#flame", 0.3, 0.75)
        self.assertIn("+3.00 MiB against the other trace", page.text("#tip"))

    def test_wrappers_are_skipped(self):
        """By the option and by the environment, as in the report."""
        records = (t.module(0x10000, 0x10000, 0x20000, "/opt/none/liballoc.so") + t.module(0x50000, 0x50000, 0x60000, "/opt/none/app") +
                   t.site(1, [0x10100, 0x50200]))
        self.write("x.trace", t.header() + t.chunk(records, kind=2) + t.chunk(t.event(1, 1000, "alloc", "cuMemAlloc", 0x1000, 64, site=1)))
        self.assertEqual([row["name"] for row in (self.show("x.trace"), self.table())[1]], ["liballoc.so+0x100"])
        self.assertEqual([row["name"] for row in (self.show("--skip=liballoc.so", "x.trace"), self.table())[1]], ["app+0x200"])
        with unittest.mock.patch.dict(os.environ, GPUMEM_SKIP="liballoc.so"):
            self.assertEqual([row["name"] for row in (self.show("x.trace"), self.table())[1]], ["app+0x200"])

    def test_a_part_of_the_trace(self):
        self.write("x.trace", self.two_devices())
        page = self.show("--from=550us", "--until=1ms", "x.trace")
        self.assertIn("only from 550 us on", page.text("#facts"))
        shown = page.data("#selection")
        self.assertEqual((shown["allocs"], shown["bytes"]), (3, 8 * MIB))

    def test_widths(self):
        """Nothing is wider than the page, charts keep a useful width, and the panels share their time axis."""
        self.write("x.trace", self.two_devices())
        for width in (360, 420, 768, 1099, 1100, 1920):
            page = self.show("x.trace", width=width)
            shown = page.run("(() => { const w = e => document.querySelector(e).getBoundingClientRect(); return {page: document.documentElement.scrollWidth, "
                             "chart: w('#chart').width, height: w('#chart').height, left: ['#chart', '#taken', '#phase-map', '#block-map'].map(e => w(e).left), "
                             "name: w('#table td.text').width}; })()")
            self.assertLessEqual(shown["page"], width)
            self.assertGreater(shown["chart"], 0.58 * width)
            self.assertGreater(shown["height"], 200)
            self.assertEqual(len(set(shown["left"])), 1, shown)
            self.assertGreater(shown["name"], 150)

    def test_dark(self):
        """No widget stays white."""
        self.browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.addCleanup(self.browser.call, "Emulation.setEmulatedMedia", features=[])
        page = self.open(self.two_devices())
        bright = page.run("[...document.querySelectorAll('body, button, select, input, th, td, dialog, aside')].filter(e => "
                          "getComputedStyle(e).backgroundColor.match(/\\d+/g).slice(0, 3).every(part => part > 120) && "
                          "getComputedStyle(e).backgroundColor !== 'rgba(0, 0, 0, 0)').map(e => e.outerHTML.slice(0, 80))")
        self.assertEqual(bright, [])

    def content(self):
        with open(self.path("x.trace.html"), encoding="utf-8") as file:
            return file.read()

    def test_small_traces(self):
        for events in (b"", t.event(1, 5, "alloc", "cuMemAlloc", 0x1000, 64), t.event(1, 5, "alloc", "cuMemHostAlloc", 0x1000, 64, kind="host"),
                       t.event(1, 0, "alloc", "cuMemAlloc", 0x1000, 64, duration=0)):
            page = self.open(t.header() + t.chunk(events))
            self.assertEqual(page.data("#selection")["allocs"], 1 if events else 0)
            for which in range(4):
                page.choose("#by", which)


@unittest.skipUnless(HAVE_LIBRARY, "built without dygraphs")
class Command(ToolCase):
    def test_one_file(self):
        self.write("a/x.trace", t.sample())
        self.assertEqual(self.good("html", "a/x.trace"), "x.trace.html\n")
        self.assertEqual(self.good("html", "-o", "y.html", "a/x.trace"), "y.html\n")
        pages = [self.good("html", "-o", "-", "a/x.trace")]
        for name in ("x.trace.html", "y.html"):
            with open(self.path(name), encoding="utf-8") as file:
                pages.append(file.read())
        self.assertEqual(len(set(pages)), 1)
        self.assertNotRegex(re.sub(r"<script>.*?</script>", "", pages[0], flags=re.S), r"(?i)src\s*=|href\s*=|@import|url\(|<link")
        self.assertIn("permission notice shall be", pages[0])

    def test_bad_use(self):
        self.write("x.trace", t.sample())
        self.write("text", "nothing")
        self.write("there", "a page")
        for words, status, complaint in (([], 2, "no trace given"), (["--compare", "x.trace"], 2, "--compare needs two traces, not 1"),
                                         (["-o", "there", "x.trace"], 2, "'there' exists; --force writes over it"),
                                         (["no.trace"], 1, "no.trace"), (["text"], 1, "not a gpumem trace"),
                                         (["-o", "x.trace", "x.trace"], 2, "the trace itself"),
                                         (["-o", "", "x.trace"], 2, "--output '' is not a name; accepted: FILE"),
                                         (["-o", "none/y.html", "x.trace"], 1, "none/y.html"),
                                         (["-o", "/dev/full", "x.trace"], 1, "cannot write '/dev/full'")):
            found, out, err = self.run_tool("html", *words)
            self.assertEqual((found, out, err.count("\n")), (status, "", 1), (words, err))
            self.assertIn(complaint, err)
        with open(self.path("there"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "a page")
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["text", "there", "x.trace"])
        self.write("y.trace", t.sample() + t.chunk(t.event(90, 20, "alloc", "cuMemAlloc", 0x2000, (1 << 57) + 1)))
        self.assertEqual(self.run_tool("html", "y.trace"), (0, "y.trace.html\n", "gpumem: y.trace: 1 damaged or missing parts of the file were skipped\n"))


@unittest.skipIf(HAVE_LIBRARY, "built with dygraphs")
class Without(ToolCase):
    def test_names_what_is_missing(self):
        self.write("x.trace", t.sample())
        status, out, err = self.run_tool("html", "x.trace")
        self.assertEqual((status, out, err.count("\n")), (2, "", 1))
        self.assertIn("libjs-dygraphs", err)


if __name__ == "__main__":
    unittest.main()
