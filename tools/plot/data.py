"""The numbers of the pictures, from the output of gpumem plot --json and gpumem report. Times are ns, sizes are bytes."""

import numpy

PHASE_ROWS = 6


class Series:
    """The numbers of one trace, as gpumem plot --json prints them."""

    def __init__(self, document):
        self.end_ns = max(document["end_ns"], 1)
        self.phases = document["phases"]  # [name, begin, end], the longest ones
        self.parts = document["parts"]    # of scatter pictures: all objects, and the first ones if there are more
        self.lifetimes, self.devices, self.bands = document["lifetimes"], document["devices"], document["bands"]

    @property
    def objects(self):
        """Number of blocks for which the program requested device memory, including those that host memory serves."""
        return self.parts[0]["objects"]


def line(document):
    """(times, bytes) of a line over time: the least, greatest and last value of each interval."""
    return numpy.array(document["times"], dtype=numpy.int64), numpy.array(document["bytes"], dtype=numpy.int64)


def kinds_of(device):
    """Times, and for each kind its live bytes from then on, the largest kind first."""
    times = numpy.array(device["kinds"]["times"], dtype=numpy.int64)
    lines = {name: numpy.array(live, dtype=numpy.int64) for name, live in device["kinds"]["bytes"].items()}
    return times, dict(sorted(lines.items(), key=lambda item: -item[1].max(initial=0)))


def peaks_of(device, run_ns, device_bytes):
    """Rows for the thresholds 2^k s, from k = -10 up to the first that is not shorter than the run."""
    rows = []
    for place, split in enumerate(device["splits"]):
        if rows and rows[-1]["threshold_ns"] >= run_ns:
            break
        rows.append({"threshold_ns": (10 ** 9 << place) // 1024, "device_bytes": device_bytes,
                     **{f"{name}_peak_bytes": max(split[name]["bytes"], default=0) for name in ("async", "managed")}})
    return rows


def distinct_thresholds(rows, most=9):
    """Places of the rows of one device whose split differs from the row before, evenly reduced to `most`."""
    split = ("async_peak_bytes", "managed_peak_bytes")
    kept = [place for place, row in enumerate(rows) if not place or any(row[key] != rows[place - 1][key] for key in split)]
    if len(kept) <= most:
        return kept
    return [kept[round(place * (len(kept) - 1) / (most - 1))] for place in range(most)]


# ---- marks and bars

def shades(counts, most=4):
    """A shade for each count, from 1 to `most`: each next shade stands for counts that are a constant factor larger."""
    top = numpy.log2(max(int(counts.max(initial=1)), 2))
    return 1 + numpy.minimum((numpy.log2(counts) / top * most).astype(numpy.int64), most - 1)


def lifetime_bars(lifetimes):
    """(edges in s, counts) of lifetimes below one second, four bars a decade from 10 ns on, and of longer ones. Shorter lifetimes count
    for the first bar."""
    short, long = (numpy.array(lifetimes[name], dtype=numpy.int64) for name in ("quarter_decades", "longer"))
    below = numpy.array([10.0 ** (power / 4) for power in range(4, 5 + len(short))]) / 1e9
    return (below, short), (numpy.linspace(1, lifetimes["longest_s"], len(long) + 1), long)


def bands(blocks):
    """The lower edges of blocks as rectangles. The vertical axis is the address without gaps, so blocks that share an address share a
    height."""
    low = numpy.array([block["address"] for block in blocks], dtype=numpy.int64)
    high = low + numpy.array([block["bytes"] for block in blocks], dtype=numpy.int64)
    lows, height, reached, skipped = numpy.zeros(len(blocks), dtype=numpy.int64), 0, None, 0
    for place in numpy.argsort(low, kind="stable"):
        if reached is None or low[place] > reached:
            skipped = low[place] - height  # a gap, or the first
            reached = low[place]
        lows[place] = low[place] - skipped
        reached = max(reached, high[place])
        height = reached - skipped
    return lows


def phase_rows(phases, most=PHASE_ROWS):
    """(row, name, begin, end): each phase in the first row without overlap, so that a phase is above the phases it contains.
    Phases without a free row are omitted."""
    ends, rows = [], []
    for name, begin, end in sorted(phases, key=lambda phase: (phase[1], -phase[2])):
        row = next((row for row, reached in enumerate(ends) if reached <= begin), len(ends))
        if row == most:
            continue
        ends[row:row + 1] = [end]
        rows.append((row, name, begin, end))
    return rows
