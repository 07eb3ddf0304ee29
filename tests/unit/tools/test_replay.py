"""gpumem replay on small traces: what fits, what is reused, what waits, and what a context takes along."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as t

GPUMEM = os.path.abspath(sys.argv.pop(1))
JSON = sys.argv.pop(1) == "true"
M = 1 << 20
RECORDS = t.device(0, 4096 * M, "Test GPU") + t.module(0x10000, 0x10000, 0x20000, "/opt/app") + t.site(1, [0x10123]) + t.site(2, [0x10200])


def trace(events, records=RECORDS):
    return t.header() + t.chunk(records, kind=2) + t.chunk(b"".join(events))


def loop(rounds, size=M, step=1000):
    """A block that comes and goes."""
    events = []
    for i in range(rounds):
        events += [t.event(2 * i + 1, 2 * i * step, "alloc", "cuMemAlloc", 0x1000, size, site=1),
                   t.event(2 * i + 2, (2 * i + 1) * step, "free", "cuMemFree", 0x1000, size)]
    return events


def pile(count, size):
    """Blocks that stay."""
    return [t.event(i, i * 1000, "alloc", "cuMemAlloc", 0x1000 * i, size, site=2) for i in range(1, count + 1)]


class Replay(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, data):
        with open(os.path.join(self.folder.name, name), "wb") as f:
            f.write(data)

    def replay(self, data, *options, **environment):
        self.write("x.trace", data)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUMEM_")}
        done = subprocess.run([GPUMEM, "replay", *options], cwd=self.folder.name, capture_output=True, text=True, timeout=60,
                              env={**kept, **environment})
        return done.returncode, done.stdout, done.stderr

    def figures(self, data, policy, *options, **environment):
        if not JSON:
            self.skipTest("built without jansson")
        status, out, err = self.replay(data, "--json", "--policy", policy, *options, "x.trace", **environment)
        self.assertEqual((status, err), (0, ""))
        return json.loads(out)["policies"][0]

    def test_all_policies(self):
        """Every one without an argument, the same requests."""
        status, out, err = self.replay(trace(loop(20)), "x.trace")
        self.assertEqual((status, err), (0, ""))
        head, _, *rows = out.splitlines()
        self.assertEqual(head.split(), "policy failed moved peak live reserved reused allocated freed waits".split())
        self.assertEqual([row.split()[0] for row in rows], ["auto", "observe", "cache", "async", "managed", "active-list"])
        for row in rows:
            self.assertEqual((row.split()[1], row.split()[3:5]), ("0", ["1.00", "MiB"]), row)
        self.assertIn("\n  allocations    20, frees 20\n", self.replay(trace(loop(20)), "--policy=auto", "x.trace")[1])

    def test_waits(self):
        """Native frees wait, kept blocks and pools do not; the paper's plain managed memory does."""
        for policy, waits in (("observe", 40), ("cache", 0), ("async", 0), ("managed", 0)):
            self.assertEqual(self.figures(trace(loop(40)), policy)["waits"], waits, policy)
        self.assertEqual(self.figures(trace(loop(40)), "managed", GPUMEM_MANAGED="plain")["waits"], 40)

    def test_hits(self):
        """A block is used again at once; under async a fence for every 16 frees comes first, or one for each free."""
        self.assertEqual(self.figures(trace(loop(40, 4096)), "cache")["hits"], 39)
        self.assertEqual(self.figures(trace(loop(40, 4096)), "cache", GPUMEM_FREE="async")["hits"], 24)
        self.assertEqual(self.figures(trace(loop(40, 4096)), "cache", GPUMEM_FREE="async", GPUMEM_FENCE_BATCH="1")["hits"], 39)
        self.assertEqual(self.figures(trace(loop(40, 4096)), "observe")["hits"], 0)

    def test_the_clock_is_the_traces(self):
        """Blocks unused for GPUMEM_CACHE_IDLE of the trace's time are given back."""
        slow = loop(20, 4096) + [t.event(100 + i, 60000000000 + i, "alloc" if i % 2 else "free", "cuMemAlloc" if i % 2 else "cuMemFree",
                                         0x9000, 8192) for i in range(1, 65)]
        self.assertGreater(self.figures(trace(slow), "cache")["given_back_bytes"], 0)
        self.assertEqual(self.figures(trace(slow), "cache", GPUMEM_CACHE_IDLE="0")["given_back_bytes"], 0)

    def test_limit(self):
        data = trace(pile(10, 10 * M))
        one = self.figures(data, "observe", "--limit", "100M")
        self.assertEqual((one["fits"], one["failed"], one["peak_reserved_bytes"]), (True, 0, 100 * M))
        one = self.figures(data, "observe", "--limit", "99M")
        self.assertEqual((one["fits"], one["failed"], one["failed_bytes"]), (False, 1, 10 * M))
        self.assertEqual(one["first_failure"], {"time_ns": 10000, "bytes": 10 * M, "device": 0})
        self.assertIn("does not fit: 1 failed (10.00 MiB), the first after 10 us for 10.00 MiB on device 0",
                      self.replay(data, "--policy", "observe", "--limit", "99M", "x.trace")[1])

    def test_card(self):
        """Without --limit the card of the trace; of an unknown card all fits."""
        data = pile(5, 1024 * M)
        self.assertEqual(self.figures(trace(data), "observe")["failed"], 1)
        self.assertEqual(self.figures(trace(data, t.site(2, [0x10200])), "observe")["failed"], 0)

    def test_kept_memory_makes_room(self):
        """What the cache keeps is given back before a request fails."""
        events = loop(200, 4 * M)
        events += [t.event(1000, 900000, "alloc", "cuMemAlloc", 0x9000000, 3900 * M)]
        one = self.figures(trace(events), "cache")
        self.assertTrue(one["fits"])
        self.assertGreaterEqual(one["peak_reserved_bytes"], 3900 * M)

    def test_never_moved(self):
        """The program's own pools and virtual memory take room; pinned host memory does not."""
        events = [t.event(1, 1, "alloc", "cuMemCreate", 1, 64 * M, kind="vmm"),
                  t.event(2, 2, "alloc", "cuMemMap", 0x200000, 64 * M, kind="mapped", stream=1),
                  t.event(3, 3, "alloc", "cuMemHostAlloc", 0x6000, 512 * M, kind="host"),
                  t.event(4, 4, "alloc", "cuMemAlloc", 0x1000, 32 * M)]
        one = self.figures(trace(events), "async", "--limit", "96M")
        self.assertEqual((one["failed"], one["peak_live_bytes"]), (0, 96 * M))
        self.assertEqual(self.figures(trace(events), "observe", "--limit", "95M")["failed"], 1)

    def test_failures_of_the_trace(self):
        """A request that failed is asked again, and given back when it succeeds."""
        events = [t.event(1, 1, "alloc_fail", "cuMemAlloc", 0, 8 * M, result=2), t.event(2, 2, "alloc", "cuMemAlloc", 0x1000, 4 * M)]
        one = self.figures(trace(events), "observe", "--limit", "8M")
        self.assertEqual((one["failed"], one["allocations"], one["frees"], one["peak_reserved_bytes"]), (0, 2, 1, 8 * M))
        self.assertEqual(self.figures(trace(events), "observe", "--limit", "7M")["failed"], 0)

    def test_free_after_its_context(self):
        """The trace frees blocks whose context it destroyed before: they are gone already and count as no frees."""
        events = [t.event(i, i, "alloc", "cuMemAlloc", 0x10000 * i, M, context=1 + i % 2) for i in range(1, 7)]
        events += [t.event(7, 7, "context_gone", "cuCtxDestroy", 0, 0, context=2)]
        events += [t.event(7 + i, 10 + i, "free", "cuMemFree", 0x10000 * i, M, context=1) for i in range(1, 7)]
        for policy in ("observe", "cache", "async", "managed", "active-list", "auto"):
            one = self.figures(trace(events), policy)
            self.assertEqual((one["allocations"], one["frees"]), (6, 3), policy)

    def test_context_gone(self):
        """Its blocks go with it, so that the next context has room; pools too."""
        for policy in ("observe", "cache", "async", "managed", "active-list", "auto"):
            events = [t.event(i, i, "alloc", "cuMemAlloc", 0x10000 * i, 20 * M) for i in range(1, 4)]
            events += [t.event(3 + i, 10 + i, "release", "cuCtxDestroy", 0x10000 * i, 20 * M, reason=6) for i in range(1, 4)]
            events += [t.event(20, 20, "context_gone", "cuCtxDestroy", 0, 0)]
            events += [t.event(20 + i, 20 + i, "alloc", "cuMemAlloc", 0x10000 * i, 20 * M, context=2) for i in range(1, 4)]
            one = self.figures(trace(events), policy, "--limit", "64M", GPUMEM_MANAGED_HEADROOM="0", GPUMEM_MANAGED="plain")
            self.assertEqual((one["failed"], one["peak_live_bytes"]), (0, 60 * M), policy)

    def test_address_that_came_again(self):
        """A free that no entry point saw: the block goes when its address comes again."""
        events = [t.event(i, i, "alloc", "cuMemAlloc", 0x1000, 10 * M) for i in range(1, 6)]
        self.assertLessEqual(self.figures(trace(events), "observe")["peak_live_bytes"], 20 * M)

    def test_plan(self):
        self.write("p", b"gpumem-plan 1\nsite 1 app+0x123\n" + b"".join(b"%d async 4096 1\n" % i for i in range(1, 31)))
        one = self.figures(trace(loop(40, 4096)), "plan:p")
        self.assertEqual(one["said"], "plan: matched by order 30, by call site 0, not in the plan 10; objects in the plan 30")
        self.assertEqual(one["by_kind"]["async"]["allocations"], 40)

    def test_rules(self):
        events = loop(3) + [t.event(10, 10000, "alloc", "cuMemAlloc", 0x8000, M, site=2)]
        kinds = self.figures(trace(events), "static:site=app+0x200->managed;nth=1->native;thread=1->cache")["by_kind"]
        self.assertEqual({kind: row["allocations"] for kind, row in kinds.items()}, {"native": 1, "cache": 2, "managed-pool": 1})

    def test_wrong_calls(self):
        def refused(line, *options, status=2):
            self.assertEqual(self.replay(trace(loop(1)), *options), (status, "", "gpumem: " + line + "\n"))
        refused("replay: there is no policy 'fast'; libgpumem(7) lists them", "--policy", "fast", "x.trace")
        refused("replay: --limit 'much' is not a number of bytes; accepted: 4096, 512M, 1.5GiB", "--limit", "much", "x.trace")
        refused("replay: one trace is needed; usage: gpumem replay [option ...] TRACE")
        refused("replay: --policy=plan:none: none: no such file or directory", "--policy", "plan:none", "x.trace", status=1)
        refused('replay: --policy=static:*->x: rule 1: wrong memory "x"; accepted: native, cache, async, managed, managed-pool, guard', "--policy",
                "static:*->x", "x.trace", status=1)
        status, _, err = self.replay(trace(loop(1)) + t.chunk(t.event(9, 20, "alloc", "cuMemAlloc", 0x2000, (1 << 57) + 1)), "x.trace")
        self.assertEqual((status, err), (0, "gpumem: x.trace: 1 damaged or missing parts of the file were skipped\n"))
        self.assertEqual(self.replay(b"", "no.trace"), (1, "", "gpumem: no.trace: No such file or directory\n"))
        self.assertEqual(self.replay(b"", "x.trace"), (1, "", "gpumem: x.trace: the file is empty\n"))


if __name__ == "__main__":
    unittest.main()
