"""What the allocation path is held to, and the tables that say how far it is. Ratios are taken within each round of one run."""

from contenders import KEEPERS, NATIVE, OWN_CACHE

MIB = 1 << 20
PATTERN_POLICIES = (*KEEPERS, "cache async", "auto async")
PAIR, LOOP, KERNEL = "pair:1048576", "loop-long", "kernel-long"


class Verdict:
    """One target for one contender. value None: not measured. Met where value <= limit."""

    def __init__(self, target, contender, value, limit, unit, note=""):
        self.target, self.contender, self.value, self.limit, self.unit, self.note = target, contender, value, limit, unit, note

    def words(self):
        if self.value is None:
            return "not measured"
        if self.value <= self.limit:
            return "met"
        if self.unit == "x" or self.limit > 0:
            return f"missed by {100 * (self.value / self.limit - 1):.0f} %"
        return f"missed by {amount(self.value - self.limit, self.unit)}"

    def to_json(self):
        return {"target": self.target, "contender": self.contender, "value": self.value, "limit": self.limit, "unit": self.unit,
                "verdict": self.words(), "note": self.note}


def amount(value, unit):
    if value is None:
        return "-"
    if unit == "ns":
        for scale, name in ((1e6, "ms"), (1e3, "us")):
            if abs(value) >= scale:
                return f"{value / scale:.3g} {name}" if abs(value) < 1000 * scale else f"{value / scale:.0f} {name}"
        return f"{value:.0f} ns"
    if unit == "bytes":
        return f"{value / MIB:.1f} MiB"
    return f"{value:.3f} {unit}".strip()


def beside(results, row, contenders):
    """What others took, in words."""
    return ", ".join(f"{name} {amount(results.median(name, row), 'ns')}" for name in contenders if results.has(name, row))


def in_use(results, contender, row):
    live, reserved = results.more(contender, row, "live"), results.more(contender, row, "reserved")
    return "" if live is None else f"reserved {amount(reserved, 'bytes')} for {amount(live, 'bytes')} live"


def pair_verdicts(results):
    others = beside(results, PAIR, (NATIVE, "MallocAsync", OWN_CACHE))
    rows = [("pair 1 MiB, idle, a fence for every free", "cache fence 1", 300)]
    rows += [("pair 1 MiB, idle, amortised", name, 100) for name in ("cache", "cache fence 64", "auto")]
    for target, name, limit in rows:
        yield Verdict(target, name, results.median(name, PAIR), limit, "ns",
                      "; ".join(filter(None, [in_use(results, name, PAIR), others])))


def loop_verdicts(results):
    others = ", ".join(f"{name} {amount(results.ratio(name, LOOP, name, KERNEL), 'x')}" for name in (NATIVE, "MallocAsync", OWN_CACHE)
                       if results.has(name, LOOP))
    for name in ("cache fence 1", "cache fence 4", "cache", "cache fence 64", "auto"):
        alone = f"kernel alone {amount(results.median(name, KERNEL), 'ns')}"
        yield Verdict("malloc + kernel + free against the kernel alone", name, results.ratio(name, LOOP, name, KERNEL), 1.03, "x",
                      "; ".join(filter(None, [alone, in_use(results, name, LOOP), others])))


def waiting_verdicts(results):
    row = "free-behind-1ms"
    for name in KEEPERS:
        busy = results.more(name, row, "busy")
        note = "" if busy is None else f"kernel still running after the free in {busy} samples; "
        yield Verdict("free behind a 1 ms kernel", name, results.median(name, row), 1000, "ns", note + beside(results, row, (NATIVE,)))
    for name in KEEPERS:
        native = results.ratio(name, "thrust-sort", NATIVE)
        yield Verdict("thrust sequence + sort, 1 M integers", name, results.median(name, "thrust-sort"), 90e3, "ns",
                      (f"{native:.2f} of native (table: 0.62); " if native else "") +
                      beside(results, "thrust-sort", (NATIVE, "MallocAsync", OWN_CACHE)))
    for name in KEEPERS:
        yield Verdict("PyTorch step without its caching, against its own caching", name,
                      results.ratio(name, "torch-step", OWN_CACHE), 1.0, "x",
                      beside(results, "torch-step", (NATIVE, OWN_CACHE, "PyTorch expandable", "MallocAsync", name)))


def managed_verdicts(results):
    native = results.median(NATIVE, "managed-pair:1048576")
    yield Verdict("managed pair 1 MiB", "managed", results.median("managed", PAIR), 1300, "ns",
                  f"cudaMallocManaged natively {amount(native, 'ns')}")
    busy = results.more("managed", "free-behind-1ms", "busy")
    yield Verdict("managed free behind a 1 ms kernel: no sync", "managed", results.median("managed", "free-behind-1ms"), 100e3, "ns",
                  "" if busy is None else f"kernel still running after the free in {busy} samples")


def call_verdicts(results):
    for name, limit in (("observe", 50), ("observe, trace", 150)):
        pair = results.added(name, "alloc_async+free_async", NATIVE)
        yield Verdict("added to a hooked call", name, None if pair is None else pair / 2, limit, "ns",
                      "half of what a pair of stream-ordered calls takes longer")
    for name in ("observe", *KEEPERS):
        yield Verdict("added to a start with CUDA", name, results.added(name, "start-with-cuda", NATIVE), 5e6, "ns")
    yield Verdict("added to a start without CUDA", "observe", results.added("observe", "start-without-cuda", NATIVE), 1e6, "ns")


def thread_verdicts(results):
    row = "threads-same:16"
    for name in PATTERN_POLICIES:
        seen = results.median(name, row)
        note = "" if seen is None else f"{amount(seen, 'ns')} a pair in each thread, {amount(seen / 16, 'ns')} of wall time a pair; "
        yield Verdict("pair in 16 threads against 1", name, results.ratio(name, row, name, "threads-same:1"), 4, "x",
                      note + beside(results, row, (NATIVE, "MallocAsync", OWN_CACHE)))


PATTERNS = {"fresh-alloc": "allocation of a new block of 0.5 to 4 KiB", "fresh-free": "free of such a block"}


def mixed_rows(results):
    """One of many live blocks is replaced at a time: live blocks, largest size and how sizes are drawn, unless it is the oldest row."""
    return [row for row in results.rows() if row.split(":")[0] == "mixed"]


def pattern_verdicts(results):
    for row, words in PATTERNS.items():
        observed = results.added("observe", row, NATIVE)
        for name in PATTERN_POLICIES:
            yield Verdict(f"{words}: longer than native, at most as under observe", name, results.added(name, row, NATIVE),
                          max(observed or 0, 0), "ns", beside(results, row, (NATIVE, "observe", "MallocAsync", OWN_CACHE)))
    for row in mixed_rows(results):
        words = "64 live blocks of random sizes, one replaced" if row == "mixed" else f"{row}, one replaced"
        for name in PATTERN_POLICIES:
            yield Verdict(words, name, results.median(name, row), 1000 if row == "mixed" else 1500, "ns",
                          "; ".join(filter(None, [in_use(results, name, row), beside(results, row, (NATIVE, "MallocAsync", OWN_CACHE))])))
    for name in PATTERN_POLICIES:
        yield Verdict("bootstrap-like sequence against cudaMallocAsync", name, results.ratio(name, "bootstrap", "MallocAsync"), 1.03, "x",
                      "; ".join(filter(None, [in_use(results, name, "bootstrap"),
                                              beside(results, "bootstrap", (NATIVE, "MallocAsync", OWN_CACHE))])))


def beyond(results, contender, row):
    """Bytes reserved over 1.25 x live + 64 MiB, None where not measured."""
    live, reserved = results.more(contender, row, "live"), results.more(contender, row, "reserved")
    return None if live is None or reserved is None else reserved - (1.25 * live + 64 * MIB)


def memory_verdicts(results):
    pairs = [row for row in results.rows() if row.startswith("pair:")]
    for name in ("cache", "cache fence 1", "auto"):
        worst = max((row for row in pairs if beyond(results, name, row) is not None), key=lambda row: beyond(results, name, row),
                    default=None)
        yield Verdict("pair loop, every size: reserved beyond 1.25 x live + 64 MiB", name,
                      None if worst is None else beyond(results, name, worst), 0, "bytes",
                      "" if worst is None else f"worst at {worst}: {in_use(results, name, worst)}")
        large = [results.more(name, row, "reserved") / results.more(name, row, "live") for row in pairs
                 if int(row.split(":")[1]) >= 64 * MIB and results.more(name, row, "reserved") is not None]
        yield Verdict("pair loop, 64 MiB and more: reserved / live (no rotation)", name, max(large, default=None), 1.25, "x")
    for name in PATTERN_POLICIES:
        for row in [row for row in (*mixed_rows(results), "fresh-free", "bootstrap") if beyond(results, name, row) is not None]:
            yield Verdict(f"{row}: reserved beyond 1.25 x live + 64 MiB", name, beyond(results, name, row), 0, "bytes",
                          in_use(results, name, row))
    for row in [row for row in results.rows() if row.startswith("replay:")]:
        others = ", ".join(f"{name} {amount(results.more(name, row, 'reserved'), 'bytes')}"
                           for name in (OWN_CACHE, "PyTorch expandable", "MallocAsync", NATIVE)
                           if results.more(name, row, "reserved") is not None)
        for name in [name for name in PATTERN_POLICIES if results.has(name, row)]:
            note = "; ".join(filter(None, [in_use(results, name, row), others]))
            yield Verdict(f"trace {row.split(':')[1]}: reserved beyond 1.25 x live + 64 MiB", name, beyond(results, name, row), 0,
                          "bytes", note)


def verdicts(results):
    return [one for part in (pair_verdicts, loop_verdicts, waiting_verdicts, managed_verdicts, call_verdicts, thread_verdicts,
                             pattern_verdicts, memory_verdicts) for one in part(results)]


def table(about, results):
    """All figures, then the targets, as text."""
    lines = [f"commit {about['commit']}, GPU {about['gpu']}, driver {about['driver']}; {about['rounds']} rounds; a repetition's time as "
             "min / median / max, and against native in the same round"]
    for row in results.rows():
        lines.append(row)
        for name in results.contenders(row):
            figure, ratio = results.figures[name, row], results.ratio(name, row, NATIVE)
            spread = " / ".join(f"{amount(value, 'ns'):>8}" for value in (figure["min"], results.median(name, row), figure["max"]))
            busy = f"   busy after it: {figure['busy']}" if "busy" in figure else ""
            memory = in_use(results, name, row)
            lines.append(f"  {name:24}{spread}  {'-' if ratio is None else format(ratio, '.3f') + ' x':>10}"
                         f"{busy}{'   ' + memory if memory else ''}")
    lines += ["", "TARGETS"]
    for one in verdicts(results):
        limit = f"<= {amount(one.limit, one.unit)}"
        lines.append(f"  {one.words():18} {one.target} [{one.contender}]: {amount(one.value, one.unit)} ({limit})"
                     + (f"\n{'':21}{one.note}" if one.note else ""))
    return "\n".join(lines)
