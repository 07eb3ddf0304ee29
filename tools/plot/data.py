"""The numbers behind the pictures, from what gpumem export and gpumem report say of a trace. Times are ns, sizes bytes."""

import sqlite3

import numpy

import memory_kinds

BINS = 400        # of a time line
CELLS = (500, 250)  # of a scatter picture: no two marks of a series in one; fewer where more than MARKS would be left
MARKS = 10000
BANDS = 400
PHASES = 400       # the longest ones
LANES = 6
NEVER = -1
COLUMNS = ("number", "address", "bytes", "site", "born", "ended", "kind")


class Blocks:
    """Columns, one entry a block, in the order of allocation. `ended` is NEVER for what is alive at the end of the trace."""

    def __init__(self, rows, end_ns, kind_names):
        """rows: number, address, bytes, site, born, ended, place of the kind in `kind_names`."""
        table = numpy.fromiter(rows, dtype=[(column, numpy.int64) for column in COLUMNS])
        for column in COLUMNS:
            setattr(self, column, table[column].copy())
        self.kind_names, self.end_ns = kind_names, max(end_ns, 1)

    def __len__(self):
        return len(self.number)

    def chosen(self, which):
        """The blocks where the mask `which` is true."""
        made = object.__new__(Blocks)
        made.end_ns, made.kind_names = self.end_ns, self.kind_names
        for column in COLUMNS:
            setattr(made, column, getattr(self, column)[which])
        return made

    @property
    def freed(self):
        return self.ended != NEVER

    def until(self):
        """Ends, where what was never freed ends with the trace."""
        return numpy.where(self.freed, self.ended, self.end_ns)

    def lifetimes(self):
        """Of the blocks that ended."""
        return (self.ended - self.born)[self.freed]


def read(path, end_ns):
    """Blocks, the names of call sites, and the longest phases as (name, begin, end), of the database that gpumem export wrote."""
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
    """Times, differences of live bytes, and places in `blocks`, in the order of time; at one moment frees come first."""
    freed = numpy.flatnonzero(blocks.freed)
    times = numpy.concatenate((blocks.ended[freed], blocks.born))
    differences = numpy.concatenate((-blocks.bytes[freed], blocks.bytes))
    places = numpy.concatenate((freed, numpy.arange(len(blocks))))
    order = numpy.argsort(times, kind="stable")
    return times[order], differences[order], places[order]


def extremes(times, values, end_ns, bins=BINS):
    """Places of the least, greatest and last value of each bin of time, so that a line through them misses no peak."""
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
    """Times and for each kind its live bytes from then on. The sum of all kinds keeps its extremes in each bin."""
    times, differences, places = changes(blocks)
    kept = extremes(times, numpy.cumsum(differences), blocks.end_ns, bins)
    kinds = blocks.kind[places]
    lines = {name: numpy.cumsum(numpy.where(kinds == code, differences, 0))[kept] for code, name in enumerate(blocks.kind_names)}
    return times[kept], dict(sorted(lines.items(), key=lambda item: -item[1].max(initial=0)))


def bytes_by_threshold(blocks, thresholds_ns, bins=BINS):
    """For each threshold (times, bytes) of the blocks that live at most so long and of all others: asynchronous and managed."""
    times, differences, places = changes(blocks)
    lifetimes = numpy.where(blocks.freed, blocks.ended - blocks.born, numpy.iinfo(numpy.int64).max)[places]
    for threshold_ns in thresholds_ns:
        short = lifetimes <= threshold_ns
        lines = []
        for part in (short, ~short):
            at, live = times[part], numpy.cumsum(differences[part])
            kept = extremes(at, live, blocks.end_ns, bins)
            lines.append((at[kept], live[kept]))
        yield lines


def telling_thresholds(rows, most=9):
    """Of the rows of one device those whose split differs from the one before; evenly thinned to `most`."""
    split = ("async_peak_bytes", "managed_peak_bytes")
    kept = [row for place, row in enumerate(rows) if not place or any(row[key] != rows[place - 1][key] for key in split)]
    if len(kept) <= most:
        return kept
    return [kept[round(place * (len(kept) - 1) / (most - 1))] for place in range(most)]


# ---- marks and bars

def thin(x, y):
    """Places of points of which no two share a cell of the picture: as many marks as the eye can tell apart."""
    cells, kept = CELLS, numpy.arange(len(x))
    while len(kept) > MARKS or (cells == CELLS and len(kept)):
        grid = 0
        for values, count in zip((x, y), cells):
            low, high = float(values.min()), float(values.max())
            grid = grid * count + ((values - low) / ((high - low) or 1) * (count - 1)).astype(numpy.int64)
        kept = numpy.sort(numpy.unique(grid, return_index=True)[1])
        cells = tuple(count * 3 // 4 for count in cells)
    return kept


BELOW_EDGES = numpy.array([10.0 ** (power / 4) for power in range(4, 37)]) / 1e9  # 10 ns ... 1 s, four a decade
ABOVE_BINS = 40


def lifetime_bars(lifetimes_ns):
    """(edges in s, counts) of lifetimes below one second, and of those above; shorter than the first edge counts for the first bar."""
    seconds = numpy.maximum(lifetimes_ns / 1e9, BELOW_EDGES[0])
    short, long = seconds[lifetimes_ns < 10 ** 9], seconds[lifetimes_ns >= 10 ** 9]
    # The last edge is open, whatever rounding made of it.
    counts = numpy.histogram(numpy.minimum(short, numpy.nextafter(1, 0)), BELOW_EDGES)[0]
    above = numpy.linspace(1, max(2, numpy.ceil(long.max(initial=2))), ABOVE_BINS + 1)
    return (BELOW_EDGES, counts), (above, numpy.histogram(long, above)[0])


def bands(blocks, most=BANDS):
    """The blocks of most bytes x time as rectangles: (places in `blocks`, lower edges). Addresses without the gaps between them:
    blocks that share an address share a height."""
    areas = blocks.bytes.astype(float) * (blocks.until() - blocks.born)
    places = numpy.sort(numpy.argsort(-areas, kind="stable")[:most])
    places = places[blocks.bytes[places] > 0]
    low, high = blocks.address[places], blocks.address[places] + blocks.bytes[places]
    lows, height, reached, gone = numpy.zeros(len(places), dtype=numpy.int64), 0, None, 0
    for place in numpy.argsort(low, kind="stable"):
        if reached is None or low[place] > reached:
            gone = low[place] - height  # a gap, or the first
            reached = low[place]
        lows[place] = low[place] - gone
        reached = max(reached, high[place])
        height = reached - gone
    return places, lows


def lanes(phases, most=LANES):
    """(lane, name, begin, end): each phase in the first lane where it overlaps nothing, so that what contains stands above what it
    contains. What finds no lane is left out."""
    ends, rows = [], []
    for name, begin, end in sorted(phases, key=lambda phase: (phase[1], -phase[2])):
        lane = next((lane for lane, reached in enumerate(ends) if reached <= begin), len(ends))
        if lane == most:
            continue
        ends[lane:lane + 1] = [end]
        rows.append((lane, name, begin, end))
    return rows
