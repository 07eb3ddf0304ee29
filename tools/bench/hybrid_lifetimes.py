"""Objects of a trace: when each was allocated and freed, and what thresholds on lifetimes would make of them."""

import bisect
import csv
import gzip
import pathlib

THRESHOLDS = [2.0 ** power for power in range(-10, 10)]


def read_objects(path):
    """[allocated_ms, freed_ms or None, bytes] of each object in the order of allocation, and the end of the trace in ms."""
    opened = gzip.open(path, "rt") if pathlib.Path(path).suffix == ".gz" else open(path)
    with opened as file:
        rows = [row for row in csv.DictReader(line for line in file if not line.startswith("#")) if row["action"] in ("alloc", "free")]
    rows.sort(key=lambda row: int(row["seq"]))
    objects, live = [], {}
    for row in rows:
        ms = (int(row["time_ns"]) - int(rows[0]["time_ns"])) / 1e6
        if row["action"] == "alloc":
            live[row["address"]] = len(objects)
            objects.append([round(ms, 4), None, int(row["bytes"])])
        elif row["address"] in live:
            objects[live.pop(row["address"])][1] = round(ms, 4)
    return objects, (int(rows[-1]["time_ns"]) - int(rows[0]["time_ns"])) / 1e6 if rows else 0.0


def lifetimes(objects, end):
    """Seconds; what was never freed lives to the end."""
    return [((end if freed is None else freed) - begun) / 1e3 for begun, freed, _ in objects]


def share_below(objects, end, seconds):
    return sum(life < seconds for life in lifetimes(objects, end)) / len(objects) if objects else 0.0


def peak(objects, chosen):
    """Most bytes alive at once of the objects whose place in `objects` is chosen."""
    events = [(begun, 1, size) for (begun, _, size), yes in zip(objects, chosen) if yes]
    events += [(freed, 0, -size) for (_, freed, size), yes in zip(objects, chosen) if yes and freed is not None]
    most = now = 0
    for _, _, size in sorted(events):
        now += size
        most = max(most, now)
    return most


def by_threshold(objects, end):
    """For each N: objects that live less, their peak and that of the others."""
    lives = lifetimes(objects, end)
    made = []
    for seconds in THRESHOLDS:
        short = [life < seconds for life in lives]
        made.append({"seconds": seconds, "objects": sum(short), "async_peak": peak(objects, short),
                     "managed_peak": peak(objects, [not one for one in short])})
    return made


def histogram(values, edges):
    counts = [0] * (len(edges) + 1)
    for value in values:
        counts[bisect.bisect_right(edges, value)] += 1
    return counts
