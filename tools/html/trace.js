// A trace: totals by interval of time and series (see tools/cli/timeline.h). A selection of a range of time, a device and groups adds the
// rows of its intervals and series.

const KIND = 0, SITE = 1, PHASE = 2, THREAD = 3, DEVICE = 4;
const WORDS = [["kind", "Kinds"], ["call site", "Call sites"], ["phase", "Phases"], ["thread", "Threads"], ["device", "Devices"]];
// How the recording ended, as enum gm_trace_end. What is live at the end of a part of a run need not be a leak.
const CUT = 0, WHOLE = 1;
const leakedWord = raw => raw.finished === WHOLE ? "leaked" : "live at the trace's end";

const FIELDS = ["allocs", "bytes", "frees", "freed_bytes", "temporary", "temporary_bytes", "leaked", "leaked_bytes", "live_at_peak",
                "live_at_device_peak", "live_at_end", "most_live"];
const SUMS = FIELDS.slice(0, 8);

function decodeIntervals(text, count, ns) {
    const next = decoder(text), fields = ["peakNs", "peak", "end", "kept", "reserved", "beyond"], intervals = {};
    for (const field of fields)
        intervals[field] = new Float64Array(count);
    for (let i = 0; i < count; i++) {
        for (const field of fields)
            intervals[field][i] = next();
        intervals.peakNs[i] += i * ns;
    }
    return intervals;
}

function decodeRows(text, count) {
    const next = decoder(text), first = new Uint32Array(count + 1), series = [], columns = FIELDS.map(() => []);
    for (let i = 0; i < count; i++) {
        let last = 0;
        for (let left = next(); left > 0; left--) {
            last += next();
            series.push(last);
            for (const column of columns)
                column.push(next());
        }
        first[i + 1] = series.length;
    }
    const rows = {first, series: Uint32Array.from(series)};
    FIELDS.forEach((field, at) => { rows[field] = Float64Array.from(columns[at]); });
    return rows;
}

// What tables and charts show as one: series with equal names.
function group(names) {
    const list = [], byName = new Map();
    const of = Uint32Array.from(names, name => {
        if (!byName.has(name)) {
            byName.set(name, list.length);
            list.push(name);
        }
        return byName.get(name);
    });
    return {names: list, of, byName};
}

function decodeBlocks(raw) {
    const next = decoder(raw.blocks), fields = ["number", "high", "low", "bytes", "slack", "created", "lived", "series", "call", "leaked"], blocks = [];
    for (let i = 0; i < raw.block_count; i++) {
        const block = {};
        for (const field of fields)
            block[field] = next();
        block.address = block.high * 4294967296 + block.low;
        block.ended = block.lived ? block.created + block.lived - 1 : Infinity;
        blocks.push(block);
    }
    return blocks;
}

function decodePhases(raw) {
    const text = decoder(raw.phase_texts), next = decoder(raw.phases), phases = [];
    for (let i = 0; i < raw.phase_count; i++) {
        const name = raw.texts[text()], begin = next();
        phases.push({name, begin, end: begin + next(), depth: next(), thread: next(), nested: next()});
    }
    return phases;
}

function openTrace(raw, shared) {
    const count = raw.interval_count, ns = raw.interval_ns, next = decoder(raw.stacks), siteNames = [], stacks = [];
    const series = {kind: [], device: [], site: [], phase: [], thread: []}, cells = decoder(raw.series);
    const failedAt = decoder(raw.failed_at);
    for (let i = 0; i < raw.series_count; i++)
        for (const field in series)
            series[field].push(cells());
    const sites = Math.max(-1, ...series.site.reduce((most, site) => [Math.max(most[0], site)], [-1])) + 1;
    const failures = raw.failures.map(failure => ({...failure, site: failedAt()}));
    for (let i = Math.max(sites, ...failures.map(failure => failure.site + 1)); i > 0; i--) {
        siteNames.push(raw.texts[next()]);
        stacks.push(Array.from({length: next()}, next));
    }
    const trace = {
        raw, series, stacks, siteNames, failures, count, ns, rows: decodeRows(raw.rows, count), blocks: decodeBlocks(raw), phases: decodePhases(raw),
        onDevice: Uint8Array.from(series.kind, kind => shared.kinds[kind].on_device),
        devices: raw.devices.map(some => ({...some, intervals: decodeIntervals(some.intervals, count, ns)})),
        groups: [
            group(series.kind.map(kind => shared.kinds[kind].name)), group(series.site.map(site => siteNames[site])),
            group(series.phase.map(text => raw.texts[text])), group(series.thread.map(thread => `thread ${thread | 0}`)),
            group(series.device.map(device => `device ${device}`))],
    };
    trace.viewOf = Uint8Array.from(series.device, device => Math.max(0, trace.devices.findIndex((some, at) => at && some.device === device)));
    trace.intervalAt = moment => Math.max(0, Math.min(count - 1, Math.floor(moment / ns)));
    trace.nameOf = (which, of) => trace.groups[which].names[trace.groups[which].of[of]];
    return trace;
}

// One number for each series: whether the device and the groups of the filter contain it. `filter`: a name for each kind of group.
function seriesMask(trace, view, filter) {
    const mask = new Uint8Array(trace.raw.series_count).fill(1);
    filter.forEach((name, which) => {
        if (name === undefined)
            return;
        const {byName, of} = trace.groups[which], wanted = byName.get(name);
        for (let i = 0; i < mask.length; i++)
            mask[i] &= of[i] === wanted;
    });
    for (let i = 0; view && i < mask.length; i++)
        mask[i] &= trace.viewOf[i] === view;
    return mask;
}

function peakInterval(intervals, from, to) {
    let best = from;
    for (let i = from + 1; i <= to; i++)
        if (intervals.peak[i] > intervals.peak[best])
            best = i;
    return best;
}

// Calls visit(series, row) for the latest row of each series up to its interval `until(series)`.
function eachLatest(rows, mask, until, visit) {
    const latest = new Int32Array(mask.length).fill(-1), limits = Array.from(mask, (_, series) => until(series));
    for (let i = 0, last = limits.reduce((a, b) => Math.max(a, b), -1); i <= last; i++)
        for (let row = rows.first[i]; row < rows.first[i + 1]; row++)
            if (i <= limits[rows.series[row]])
                latest[rows.series[row]] = row;
    for (let series = 0; series < mask.length; series++)
        if (mask[series] && latest[series] >= 0)
            visit(series, latest[series]);
}

// Totals of the selected series in the range, by series. `at_peak`: when the series' device was at its maximum of the range.
function addUp(trace, mask, from, to, peaks) {
    const {rows} = trace, size = mask.length, sum = {};
    for (const field of [...SUMS, "at_peak", "live_at_end", "most_live"])
        sum[field] = new Float64Array(size);
    if (from > 0)
        eachLatest(rows, mask, () => from - 1, (series, row) => { sum.most_live[series] = rows.live_at_end[row]; });
    for (let row = rows.first[from]; row < rows.first[to + 1]; row++) {
        const series = rows.series[row];
        if (!mask[series])
            continue;
        for (const field of SUMS)
            sum[field][series] += rows[field][row];
        sum.most_live[series] = Math.max(sum.most_live[series], rows.most_live[row]);
    }
    eachLatest(rows, mask, series => peaks[trace.viewOf[series]], (series, row) => {
        const inside = row >= rows.first[peaks[trace.viewOf[series]]];
        sum.at_peak[series] = inside ? rows.live_at_device_peak[row] : rows.live_at_end[row];
    });
    eachLatest(rows, mask, () => to, (series, row) => { sum.live_at_end[series] = rows.live_at_end[row]; });
    return sum;
}

// The selected part of a trace: interval range, totals by series.
function selectPart(trace, begin, end, view, filter) {
    const from = trace.intervalAt(begin), to = Math.max(from, trace.intervalAt(end < trace.raw.end_ns ? end - 1 : end));
    const peaks = trace.devices.map(some => peakInterval(some.intervals, from, to)), mask = seriesMask(trace, view, filter);
    return {begin, end, from, to, peaks, mask, sums: addUp(trace, mask, from, to, peaks)};
}

// The live bytes of each group at two moments of each interval: when device memory was at its maximum, and at the end. Memory of the host
// counts only where kinds of memory are shown.
function eachMoment(trace, which, view, mask, visit) {
    const {rows, count, ns} = trace, {of, names} = trace.groups[which], {intervals} = trace.devices[view];
    const live = new Float64Array(names.length), now = new Float64Array(mask.length);
    for (let i = 0; i < count; i++)
        for (const column of [view ? "live_at_device_peak" : "live_at_peak", "live_at_end"]) {
            const moment = column === "live_at_end" ? Math.min((i + 1) * ns, trace.raw.end_ns) : intervals.peakNs[i];
            for (let row = rows.first[i]; row < rows.first[i + 1]; row++) {
                const series = rows.series[row];
                if (!mask[series] || (which !== KIND && !trace.onDevice[series]))
                    continue;
                live[of[series]] += rows[column][row] - now[series];
                now[series] = rows[column][row];
            }
            visit(moment, i, live);
        }
}
