"""Computes the numbers of the pictures from the output of gpumem export and gpumem report. Times are ns, sizes are bytes."""

import sqlite3

import numpy

import memory_kinds

BINS = 400        # number of bins of a time line
CELLS = (500, 250)  # of a scatter picture: each cell has at most one mark of a series; fewer cells if more than MARKS marks remained
MARKS = 10000
BANDS = 400
PHASES = 400       # number of phases, the longest ones
PHASE_ROWS = 6
NEVER = -1
COLUMNS = ("number", "address", "bytes", "site", "created", "ended", "kind")


class Blocks:
    """Columns with one entry for each block, in the order of allocation. `ended` is NEVER for blocks alive at the end of the trace."""

    def __init__(self, rows, end_ns, kind_names):
        """rows: number, address, bytes, site, created, ended, index of the kind in `kind_names`."""
        table = numpy.fromiter(rows, dtype=[(column, numpy.int64) for column in COLUMNS])
        for column in COLUMNS:
            setattr(self, column, table[column].copy())
        self.kind_names, self.end_ns = kind_names, max(end_ns, 1)

    def __len__(self):
        return len(self.number)

    def chosen(self, which):
        """The blocks for which the mask `which` is true."""
        made = object.__new__(Blocks)
        made.end_ns, made.kind_names = self.end_ns, self.kind_names
        for column in COLUMNS:
            setattr(made, column, getattr(self, column)[which])
        return made

    @property
    def freed(self):
        return self.ended != NEVER

    def until(self):
        """Ends of all blocks; blocks that were never freed end with the trace."""
        return numpy.where(self.freed, self.ended, self.end_ns)

    def lifetimes(self):
        """Lifetimes of the blocks that ended."""
        return (self.ended - self.created)[self.freed]


def read(path, end_ns):
    """Blocks, the names of call sites, and the longest phases as (name, begin, end), from the database of gpumem export."""
    base = sqlite3.connect(path)
    base.text_factory = lambda text: text.decode(errors="replace")
    kinds = [kind for kind, in base.execute("SELECT kind FROM blocks GROUP BY kind ORDER BY min(number)")]
    cases = " ".join(f"WHEN ? THEN {place}" for place in range(len(kinds)))
    rows = base.execute(f"SELECT number, address, bytes, site, born_ns, ifnull(ended_ns, ?), CASE kind {cases or 'WHEN 0 THEN 0'} END "
                        "FROM blocks ORDER BY number", (NEVER, *kinds))
    blocks = Blocks(rows, end_ns, kinds)
    sites = dict(base.execute("SELECT site, text FROM frames WHERE depth = 0"))
    phases = base.execute("SELECT ifnull(name, ''), begin_ns, ended_ns FROM phases ORDER BY ended_ns - begin_ns DESC, begin_ns LIMIT ?",
                          (PHASES,)).fetchall()
    base.close()
    return blocks, sites, phases


def on_device(blocks):
    """Blocks for which the program requested device memory, including those that host memory serves."""
    return blocks.chosen(numpy.isin(blocks.kind, [code for code, name in enumerate(blocks.kind_names) if memory_kinds.FOR_DEVICE[name]]))


# ---- bytes over time

def changes(blocks):
    """Times, changes of live bytes, and indices in `blocks`, ordered by time; frees precede allocations of the same time."""
    freed = numpy.flatnonzero(blocks.freed)
    times = numpy.concatenate((blocks.ended[freed], blocks.created))
    differences = numpy.concatenate((-blocks.bytes[freed], blocks.bytes))
    places = numpy.concatenate((freed, numpy.arange(len(blocks))))
    order = numpy.argsort(times, kind="stable")
    return times[order], differences[order], places[order]


def extremes(times, values, end_ns, bins=BINS):
    """Indices of the least, greatest and last value in each bin of time, so that a line through them shows each peak."""
    if len(times) <= 3 * bins:
        return numpy.arange(len(times))
    limits = numpy.searchsorted(times, numpy.linspace(0, end_ns, bins + 1)[1:-1])
    kept = []
    for begin, end in zip([0, *limits], [*limits, len(times)]):
        if begin < end:
            part = values[begin:end]
            kept += [begin + int(part.argmin()), begin + int(part.argmax()), end - 1]
    return numpy.unique(kept)


def bytes_by_kind(blocks, bins=BINS):
    """Times, and for each kind its live bytes from then on. The sum of all kinds keeps its extremes in each bin."""
    times, differences, places = changes(blocks)
    kept = extremes(times, numpy.cumsum(differences), blocks.end_ns, bins)
    kinds = blocks.kind[places]
    lines = {name: numpy.cumsum(numpy.where(kinds == code, differences, 0))[kept] for code, name in enumerate(blocks.kind_names)}
    return times[kept], dict(sorted(lines.items(), key=lambda item: -item[1].max(initial=0)))


def bytes_by_threshold(blocks, thresholds_ns, bins=BINS):
    """For each threshold (times, bytes) of the blocks that live at most so long (asynchronous) and of all others (managed)."""
    times, differences, places = changes(blocks)
    lifetimes = numpy.where(blocks.freed, blocks.ended - blocks.created, numpy.iinfo(numpy.int64).max)[places]
    for threshold_ns in thresholds_ns:
        short = lifetimes <= threshold_ns
        lines = []
        for part in (short, ~short):
            at, live = times[part], numpy.cumsum(differences[part])
            kept = extremes(at, live, blocks.end_ns, bins)
            lines.append((at[kept], live[kept]))
        yield lines


def distinct_thresholds(rows, most=9):
    """The rows of one device whose split differs from the row before, evenly reduced to `most` rows."""
    split = ("async_peak_bytes", "managed_peak_bytes")
    kept = [row for place, row in enumerate(rows) if not place or any(row[key] != rows[place - 1][key] for key in split)]
    if len(kept) <= most:
        return kept
    return [kept[round(place * (len(kept) - 1) / (most - 1))] for place in range(most)]


# ---- marks and bars

def thin(x, y):
    """Indices of points such that no two share a cell of the picture, because more marks would not be visible; and the number of points
    in the cell of each."""
    cells, kept, counts = CELLS, numpy.arange(len(x)), numpy.ones(len(x), dtype=numpy.int64)
    while len(kept) > MARKS or (cells == CELLS and len(kept)):
        grid = 0
        for values, count in zip((x, y), cells):
            low, high = float(values.min()), float(values.max())
            grid = grid * count + ((values - low) / ((high - low) or 1) * (count - 1)).astype(numpy.int64)
        _, kept, counts = numpy.unique(grid, return_index=True, return_counts=True)
        cells = tuple(count * 3 // 4 for count in cells)
    order = numpy.argsort(kept)
    return kept[order], counts[order]


def shades(counts, most=4):
    """A shade for each count, from 1 to `most`: each next shade stands for counts that are a constant factor larger."""
    top = numpy.log2(max(int(counts.max(initial=1)), 2))
    return 1 + numpy.minimum((numpy.log2(counts) / top * most).astype(numpy.int64), most - 1)


BELOW_EDGES = numpy.array([10.0 ** (power / 4) for power in range(4, 37)]) / 1e9  # 10 ns ... 1 s, four per decade
ABOVE_BINS = 40


def lifetime_bars(lifetimes_ns):
    """(edges in s, counts) of lifetimes below one second, and of longer ones. Lifetimes below the first edge count for the first bar."""
    seconds = numpy.maximum(lifetimes_ns / 1e9, BELOW_EDGES[0])
    short, long = seconds[lifetimes_ns < 10 ** 9], seconds[lifetimes_ns >= 10 ** 9]
    # The last bar has no upper limit.
    counts = numpy.histogram(numpy.minimum(short, numpy.nextafter(1, 0)), BELOW_EDGES)[0]
    above = numpy.linspace(1, max(2, numpy.ceil(long.max(initial=2))), ABOVE_BINS + 1)
    return (BELOW_EDGES, counts), (above, numpy.histogram(long, above)[0])


def bands(blocks, most=BANDS):
    """The blocks with the most bytes x time as rectangles: (indices in `blocks`, lower edges). The vertical axis is the address
    without gaps, so blocks that share an address share a height."""
    areas = blocks.bytes.astype(float) * (blocks.until() - blocks.created)
    places = numpy.sort(numpy.argsort(-areas, kind="stable")[:most])
    places = places[blocks.bytes[places] > 0]
    low, high = blocks.address[places], blocks.address[places] + blocks.bytes[places]
    lows, height, reached, skipped = numpy.zeros(len(places), dtype=numpy.int64), 0, None, 0
    for place in numpy.argsort(low, kind="stable"):
        if reached is None or low[place] > reached:
            skipped = low[place] - height  # a gap, or the first
            reached = low[place]
        lows[place] = low[place] - skipped
        reached = max(reached, high[place])
        height = reached - skipped
    return places, lows


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
