// The page of gpumem html. The data are totals by interval of time and series (see tools/cli/timeline.h); each selection of a range of
// time adds the rows of its intervals. Names come from the traced program, so they enter the page only as text, never as HTML.
(function () {
"use strict";

const KIND = 0, SITE = 1;
const FIELDS = ["allocs", "bytes", "frees", "freed_bytes", "temporary", "temporary_bytes", "leaked", "leaked_bytes", "live_at_peak",
                "live_at_end", "most_live"];
const SUMS = FIELDS.slice(0, 8);
const BANDS = 12, ROWS_SHOWN = 200;
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8c6bb1", "#b5a300", "#4d9221", "#c51b7d", "#35978f",
                 "#7f7f7f"];
const REST = "#bbbbbb";
const $ = id => document.getElementById(id);
const data = JSON.parse($("data").textContent);

// ---- texts

function bytesText(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let at = 0;
    for (; value >= 1024 && at < units.length - 1; at++)
        value /= 1024;
    return (at ? value.toPrecision(value >= 1000 ? 4 : 3) : String(value)) + " " + units[at];
}

function timeText(ns) {
    for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]])
        if (Math.abs(ns) >= size)
            return Number((ns / size).toPrecision(5)) + " " + unit;
    return Math.round(ns) + " ns";
}

const countText = value => value.toLocaleString("en-US");

// ---- columns of numbers

function decoder(text) {
    const bytes = atob(text);
    let at = 0;
    return () => {
        let value = 0, scale = 1, byte;
        do {
            byte = bytes.charCodeAt(at++);
            value += (byte & 127) * scale;
            scale *= 128;
        } while (byte > 127);
        return value;
    };
}

const intervalCount = data.interval_count, intervalNs = data.interval_ns;
const intervals = {};
{
    const next = decoder(data.intervals), fields = ["peakNs", "peak", "end", "kept", "reserved", "beyond"];
    for (const field of fields)
        intervals[field] = new Float64Array(intervalCount);
    for (let i = 0; i < intervalCount; i++) {
        for (const field of fields)
            intervals[field][i] = next();
        intervals.peakNs[i] += i * intervalNs;
    }
}

function readRows(set) {
    const next = decoder(set.rows), first = new Uint32Array(intervalCount + 1), series = [], columns = FIELDS.map(() => []);
    for (let i = 0; i < intervalCount; i++) {
        let last = 0;
        for (let count = next(); count > 0; count--) {
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

const stacks = [];  // of each series of call sites: numbers of texts, innermost first
{
    const next = decoder(data.stacks), names = [];
    for (let i = 0; i < data.sets[SITE].count; i++) {
        names.push(data.texts[next()]);
        stacks.push(Array.from({length: next()}, next));
    }
    data.sets[SITE].names = names;
}

// A group is what a table shows as one row: series with equal names.
const TITLES = [["kind", "Kinds"], ["call site", "Call sites"], ["phase", "Phases"], ["thread", "Threads"]];
const sets = data.sets.map((set, which) => {
    const names = [], byName = new Map();
    const groupOf = Uint32Array.from(set.names, name => {
        if (!byName.has(name)) {
            byName.set(name, names.length);
            names.push(name);
        }
        return byName.get(name);
    });
    return {which, names, groupOf, count: set.count, rows: readRows(set), colours: set.colours, onDevice: set.on_device};
});

const BLOCK = ["number", "high", "low", "bytes", "slack", "created", "lived", "kind", "site", "phase", "thread", "device", "call", "leaked"];
const blocks = [];
{
    const next = decoder(data.blocks), total = data.block_count;
    for (let i = 0; i < total; i++) {
        const block = {};
        for (const field of BLOCK)
            block[field] = next();
        block.address = block.high * 4294967296 + block.low;
        block.ended = block.lived ? block.created + block.lived - 1 : Infinity;
        block.device -= 1;
        blocks.push(block);
    }
}

// ---- the selection: a range of intervals

let selection = {from: 0, to: intervalCount - 1, begin: 0, end: data.end_ns};
let totals = [];  // of each set: arrays by group, and by series the bytes at the peak

function intervalAt(ns) {
    return Math.max(0, Math.min(intervalCount - 1, Math.floor(ns / intervalNs)));
}

// Calls visit(series, row) for the latest row of each series up to the interval.
function eachLatest(rows, until, count, visit) {
    const latest = new Int32Array(count).fill(-1);
    for (let row = 0; row < rows.first[until + 1]; row++)
        latest[rows.series[row]] = row;
    for (let series = 0; series < count; series++)
        if (latest[series] >= 0)
            visit(series, latest[series]);
}

function addUp(set, from, to, peakAt) {
    const {rows, groupOf, names, count} = set, sum = {series: {at_peak: new Float64Array(count)}};
    for (const field of [...SUMS, "most_live", "at_peak", "live_at_end"])
        sum[field] = new Float64Array(names.length);
    for (const field of ["bytes", "leaked_bytes", "temporary_bytes"])
        sum.series[field] = new Float64Array(count);
    const most = new Float64Array(count);
    if (from > 0)
        eachLatest(rows, from - 1, count, (series, row) => { most[series] = rows.live_at_end[row]; });
    for (let row = rows.first[from]; row < rows.first[to + 1]; row++) {
        const series = rows.series[row], group = groupOf[series];
        for (const field of SUMS)
            sum[field][group] += rows[field][row];
        for (const field of ["bytes", "leaked_bytes", "temporary_bytes"])
            sum.series[field][series] += rows[field][row];
        most[series] = Math.max(most[series], rows.most_live[row]);
    }
    eachLatest(rows, peakAt, count, (series, row) => {
        const value = row >= rows.first[peakAt] ? rows.live_at_peak[row] : rows.live_at_end[row];
        sum.series.at_peak[series] = value;
        sum.at_peak[groupOf[series]] += value;
    });
    eachLatest(rows, to, count, (series, row) => { sum.live_at_end[groupOf[series]] += rows.live_at_end[row]; });
    most.forEach((value, series) => { sum.most_live[groupOf[series]] += value; });
    return sum;
}

function peakInterval(from, to) {
    let best = from;
    for (let i = from + 1; i <= to; i++)
        if (intervals.peak[i] > intervals.peak[best])
            best = i;
    return best;
}

function select(beginNs, endNs) {
    const begin = Math.max(0, beginNs), end = Math.max(begin, Math.min(data.end_ns, endNs));
    const from = intervalAt(begin), to = Math.max(from, intervalAt(end < data.end_ns ? end - 1 : end));
    const peakAt = peakInterval(from, to);
    selection = {from, to, begin, end, peakAt};
    totals = sets.map(set => addUp(set, from, to, peakAt));
    showSelection();
    showFlame();
    showBlocks();
    showTable();
}

function showSelection() {
    const sum = field => totals[KIND][field].reduce((a, b) => a + b, 0), {from, to, peakAt} = selection;
    const values = {begin_ns: from * intervalNs, end_ns: Math.min((to + 1) * intervalNs, data.end_ns), peak_bytes: intervals.peak[peakAt],
                    peak_ns: intervals.peakNs[peakAt]};
    for (const field of SUMS)
        values[field] = sum(field);
    for (const field of ["kept", "reserved", "beyond"])
        values[field] = intervals[field].subarray(from, to + 1).reduce((a, b) => Math.max(a, b), 0);
    const words = [`${timeText(values.begin_ns)} to ${timeText(values.end_ns)}`,
                   `peak of device memory ${bytesText(values.peak_bytes)} at ${timeText(values.peak_ns)}`,
                   `${countText(values.allocs)} allocations, ${bytesText(values.bytes)}`,
                   `${countText(values.frees)} frees`,
                   !data.summary_ns && `${countText(values.temporary)} temporary`,
                   `${countText(values.leaked)} leaked, ${bytesText(values.leaked_bytes)}`,
                   `reserved at most ${bytesText(values.reserved)}`];
    $("selection").textContent = "Selected: " + words.filter(Boolean).join(" \u00b7 ");
    for (const field in values)
        $("selection").dataset[field] = values[field];
}

// ---- live bytes over time

let chart = null, bands = null;

// Two moments of each interval: the maximum of device memory, and the end. The groups with most memory have a band each.
function makeBands(set) {
    const {rows, groupOf, names, count} = set, most = new Float64Array(names.length), live = new Float64Array(names.length);
    const now = new Float64Array(count);
    const walk = visit => {
        live.fill(0);
        now.fill(0);
        for (let i = 0; i < intervalCount; i++) {
            for (const [column, moment] of [["live_at_peak", intervals.peakNs[i]], ["live_at_end", Math.min((i + 1) * intervalNs, data.end_ns)]]) {
                for (let row = rows.first[i]; row < rows.first[i + 1]; row++) {
                    const series = rows.series[row];
                    live[groupOf[series]] += rows[column][row] - now[series];
                    now[series] = rows[column][row];
                }
                visit(moment, i);
            }
        }
    };
    walk((moment, i) => {
        for (let row = rows.first[i]; row < rows.first[i + 1]; row++) {
            const group = groupOf[rows.series[row]];
            most[group] = Math.max(most[group], live[group]);
        }
    });
    const order = Array.from(names.keys()).filter(group => most[group] > 0).sort((a, b) => most[b] - most[a] || a - b);
    const shown = order.slice(0, order.length > BANDS ? BANDS - 1 : BANDS), rest = order.length > shown.length;
    const place = new Int32Array(names.length).fill(shown.length), points = [];
    shown.forEach((group, at) => { place[group] = at; });
    const width = shown.length + rest;
    const start = new Array(width + 1).fill(0);
    points.push(start);
    walk(moment => {
        const point = new Array(width + 1).fill(0);
        point[0] = Math.max(moment, points[points.length - 1][0]);
        for (const group of shown)
            point[1 + place[group]] = live[group];
        if (rest)
            for (let at = shown.length; at < order.length; at++)
                point[width] += live[order[at]];
        points.push(point);
    });
    const colours = shown.map((group, at) => set.which === KIND ? set.colours[group] : COLOURS[at]);
    const labels = shown.map(group => names[group]);
    const colourOf = names.map((_, group) => place[group] < shown.length ? colours[place[group]] : REST);
    if (rest) {
        colours.push(REST);
        labels.push(`${countText(order.length - shown.length)} others`);
    }
    return {points, labels, colours, colourOf, most: labels.map((_, at) => points.reduce((a, point) => Math.max(a, point[1 + at]), 0))};
}

function fillLegend(list, {labels, colours, most}, values) {
    list.replaceChildren(...labels.map((label, at) => {
        const item = document.createElement("li"), mark = document.createElement("i"), name = document.createElement("span");
        const value = document.createElement("b");
        mark.style.background = colours[at];
        name.className = "name";
        name.textContent = name.title = label;
        value.textContent = values ? bytesText(values[at]) : "at most " + bytesText(most[at]);
        item.append(mark, name, value);
        return item;
    }));
}

const showLegend = values => fillLegend($("legend"), bands, values);

let queued = 0;
function selectSoon(range) {
    cancelAnimationFrame(queued);
    queued = requestAnimationFrame(() => select(range[0], range[1]));
}

function bytesTicks(min, max, pixels) {
    const rough = (max - min) / Math.max(2, pixels / 40), unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(rough, 1)) / 10));
    const step = unit * 2 ** Math.ceil(Math.log2(Math.max(rough / unit, 1))), ticks = [];
    for (let value = Math.ceil(min / step) * step; value <= max; value += step)
        ticks.push({v: value, label: bytesText(value).replace(/\.0+ /, " ")});
    return ticks;
}

function timeTicks(min, max, pixels) {
    const rough = (max - min) / Math.max(2, pixels / 100), power = 10 ** Math.floor(Math.log10(Math.max(rough, 1))), ticks = [];
    const step = [1, 2, 5, 10].map(factor => factor * power).find(value => value >= rough) || 10 * power;
    const [size, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(row => max >= row[0]) || [1, "ns"];
    for (let value = Math.ceil(min / step) * step; value <= max; value += step)
        ticks.push({v: value, label: Number((value / size).toPrecision(7)) + " " + unit});
    return ticks;
}

function showChart() {
    const set = sets[Number($("by").value)], range = chart ? chart.xAxisRange() : [0, data.end_ns];
    bands = makeBands(set);
    if (chart)
        chart.destroy();
    chart = new Dygraph($("chart"), bands.points, {
        labels: ["time", ...bands.labels.map((_, at) => "band " + at)],
        interactionModel: Dygraph.defaultInteractionModel,  // with a range selector dragging would move the range
        colors: bands.colours, stackedGraph: true, stepPlot: true, fillAlpha: 0.75, strokeWidth: 0.5, includeZero: true,
        dateWindow: range, showRangeSelector: true, rangeSelectorHeight: 28, rangeSelectorPlotStrokeColor: "#888888",
        rangeSelectorPlotFillColor: "#cccccc", animatedZooms: false, legend: "never", highlightCircleSize: 2,
        ylabel: set.which === KIND ? "live bytes" : "live device memory",
        axes: {x: {ticker: (min, max, pixels) => timeTicks(min, max, pixels), pixelsPerLabel: 100},
               y: {ticker: (min, max, pixels) => bytesTicks(min, max, pixels), axisLabelWidth: 88}},
        drawCallback: (graph, first) => {
            if (first)
                return;
            selectSoon(graph.xAxisRange());
            taken.chart.updateOptions({dateWindow: graph.xAxisRange()});
        },
        highlightCallback: (event, x, points, row) => {
            const values = bands.points[row].slice(1);
            showLegend(values);
            const lines = [`${timeText(x)}: ${bytesText(values.reduce((a, b) => a + b, 0))} live`], largest = largestAt(x);
            if (largest)
                lines.push("largest block:", ...blockLines(largest));
            showTip(event, lines);
        },
        unhighlightCallback: () => { showLegend(null); hideTip(); },
    });
    showLegend(null);
}

// ---- memory taken from the devices: the most of each interval

const taken = {labels: ["live", "kept for reuse", "reserved"], colours: ["#0072B2", "#E69F00", "#009E73"], points: []};

function showTaken() {
    if (data.beyond_measured) {
        taken.labels.push("reserved and beyond gpumem");
        taken.colours.push("#CC79A7");
    }
    const rowAt = i => [intervals.peak[i], intervals.kept[i], intervals.reserved[i], intervals.reserved[i] + intervals.beyond[i]]
        .slice(0, taken.labels.length);
    for (let i = 0; i < intervalCount && i * intervalNs <= data.end_ns; i++)
        taken.points.push([i * intervalNs, ...rowAt(i)]);
    taken.points.push([Math.max(data.end_ns, 1), ...taken.points[taken.points.length - 1].slice(1)]);
    taken.most = taken.labels.map((_, at) => taken.points.reduce((most, point) => Math.max(most, point[1 + at]), 0));
    taken.labels.forEach((label, at) => { $("taken").dataset[label.split(" ").pop()] = taken.most[at]; });
    $("taken-note").textContent = "Reserved: bytes taken from the driver, with what rounding adds." + (data.beyond_measured ?
        " Beyond gpumem: contexts, modules, graphs, libraries" + (data.beyond_shared ? ", and other processes of the card" : "") +
        ", measured now and then." : "");
    const legend = values => fillLegend($("taken-legend"), taken, values);
    taken.chart = new Dygraph($("taken"), taken.points, {
        labels: ["time", ...taken.labels], colors: taken.colours, stepPlot: true, strokeWidth: 1.5, includeZero: true, legend: "never",
        dateWindow: [0, data.end_ns], highlightCircleSize: 2, ylabel: "device memory",
        axes: {x: {ticker: (min, max, pixels) => timeTicks(min, max, pixels), pixelsPerLabel: 100},
               y: {ticker: (min, max, pixels) => bytesTicks(min, max, pixels), axisLabelWidth: 88}},
        zoomCallback: (begin, end) => chart.updateOptions({dateWindow: [Math.max(0, begin), Math.min(data.end_ns, end)]}),
        highlightCallback: (event, x, points, row) => {
            legend(taken.points[row].slice(1));
            showTip(event, [timeText(x), ...taken.labels.map((label, at) => `${label}: ${bytesText(taken.points[row][1 + at])}`)]);
        },
        unhighlightCallback: () => { legend(null); hideTip(); },
    });
    legend(null);
}

function largestAt(ns) {
    let best = null;
    for (const block of blocks)
        if (block.created <= ns && ns < block.ended && (!best || block.bytes > best.bytes))
            best = block;
    return best;
}

// ---- hover

function showTip(event, lines) {
    const tip = $("tip");
    tip.textContent = lines.join("\n");
    tip.hidden = false;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8), y = event.clientY + 16;
    tip.style.left = Math.max(4, x) + "px";
    tip.style.top = Math.max(4, y + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : y) + "px";
}

function hideTip() {
    $("tip").hidden = true;
}

const nameOf = (which, series) => sets[which].names[sets[which].groupOf[series]];

function blockLines(block) {
    const lines = [`block ${countText(block.number)}: ${bytesText(block.bytes)} (${countText(block.bytes)} bytes) of ${nameOf(KIND, block.kind)}` +
                   (block.device >= 0 ? `, device ${block.device}` : ""),
                   nameOf(SITE, block.site),
                   `${data.calls[block.call]}, address 0x${block.address ? (BigInt(block.high) * 4294967296n + BigInt(block.low)).toString(16) : "0"}`,
                   `allocated at ${timeText(block.created)} by ${nameOf(3, block.thread)}, ` +
                   (block.lived ? `lived ${timeText(block.lived - 1)}` : block.leaked ? "never freed" : "alive at the end")];
    if (sets[2].count > 1)
        lines.push(`phase: ${nameOf(2, block.phase)}`);
    return lines;
}

// ---- drawing

function surface(canvas, height) {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth || 800;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const draw = canvas.getContext("2d");
    draw.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw.clearRect(0, 0, width, height);
    draw.font = "12px system-ui, sans-serif";
    draw.textBaseline = "middle";
    return {draw, width};
}

const searched = () => $("search").value.trim().toLowerCase();
const matches = (text, words) => text.toLowerCase().includes(words);

// ---- the flame graph: outermost frames above

const LINE = 19;
const tree = {text: [-1], parent: [-1], depth: [0], leaf: []};
{
    const places = new Map();
    stacks.forEach((stack, series) => {
        let node = 0;
        for (let at = stack.length - 1; at >= 0; at--) {
            const key = node + ":" + stack[at];
            let child = places.get(key);
            if (child === undefined) {
                child = tree.text.length;
                places.set(key, child);
                tree.text.push(stack[at]);
                tree.parent.push(node);
                tree.depth.push(tree.depth[node] + 1);
            }
            node = child;
        }
        tree.leaf[series] = node;
    });
    tree.children = tree.text.map(() => []);
    for (let node = 1; node < tree.text.length; node++)
        tree.children[tree.parent[node]].push(node);
}
let flameRoot = 0, flameBoxes = [], flameValues = null;

const flameText = node => node ? data.texts[tree.text[node]] : "all call sites";

function flameColour(text) {
    let hash = 0;
    for (let i = 0; i < text.length; i++)
        hash = (hash * 31 + text.charCodeAt(i)) | 0;
    return `hsl(${20 + Math.abs(hash) % 40} ${60 + Math.abs(hash >> 8) % 25}% ${62 + Math.abs(hash >> 16) % 14}%)`;
}

function showFlame() {
    const values = flameValues = new Float64Array(tree.text.length), words = searched();
    const bySeries = totals[SITE].series[$("measure").value];
    tree.leaf.forEach((node, series) => { values[node] += bySeries[series]; });
    for (let node = values.length - 1; node > 0; node--)
        values[tree.parent[node]] += values[node];
    if (!values[flameRoot])
        flameRoot = 0;
    const canvas = $("flame"), width = canvas.clientWidth || 800;
    flameBoxes = [];
    let depth = 0;
    const place = (node, left, wide) => {
        const y = tree.depth[node] - tree.depth[flameRoot];
        depth = Math.max(depth, y + 1);
        flameBoxes.push({node, left, wide, y});
        const children = tree.children[node].filter(child => values[child] > 0).sort((a, b) => values[b] - values[a] || a - b);
        for (const child of children) {
            const part = wide * values[child] / values[node];
            if (part >= 0.4)
                place(child, left, part);
            left += part;
        }
    };
    if (values[flameRoot])
        place(flameRoot, 0, width);
    const {draw} = surface(canvas, Math.max(LINE, depth * LINE));
    let found = 0;
    for (const box of flameBoxes) {
        const text = flameText(box.node), hit = words && matches(text, words);
        draw.fillStyle = hit ? "#c77dff" : box.node ? flameColour(text) : "#cccccc";
        draw.fillRect(box.left, box.y * LINE, Math.max(box.wide - 0.5, 0.4), LINE - 1);
        found += Boolean(hit);
        if (box.wide > 30) {
            draw.fillStyle = "#111111";
            const room = Math.floor((box.wide - 6) / 6.2);
            draw.fillText(text.length > room ? text.slice(0, Math.max(1, room - 1)) + "\u2026" : text, box.left + 3, box.y * LINE + LINE / 2);
        }
    }
    canvas.dataset.total = values[0];
    canvas.dataset.root = values[flameRoot];
    canvas.dataset.found = found;
    $("flame-note").textContent = values[0] ? `${bytesText(values[flameRoot])} of ${bytesText(values[0])}` + (words ? `, ${found} frames found` : "")
                                            : "none in the selection";
}

function flameAt(event) {
    const y = Math.floor(event.offsetY / LINE);
    return flameBoxes.find(box => box.y === y && box.left <= event.offsetX && event.offsetX < box.left + box.wide);
}

// ---- blocks at their addresses

const mapped = blocks.filter(block => block.bytes && data.sets[KIND].on_device[block.kind]).sort((a, b) => a.address - b.address);

// The vertical axis is the address without gaps: blocks that share an address share a height. Returns the lower edge of each block, and
// the sum.
function packed(some) {
    let reached = -1, skipped = 0, height = 1;
    const edges = some.map(block => {
        if (block.address > reached) {
            skipped += block.address - Math.max(reached, 0);
            reached = block.address;
        }
        reached = Math.max(reached, block.address + block.bytes);
        height = Math.max(height, reached - skipped);
        return block.address - skipped;
    });
    return {edges, height};
}

let blockBoxes = [];
const MAP_HEIGHT = 260;

function showBlocks() {
    if (data.summary_ns)
        return;
    const canvas = $("block-map"), {draw, width} = surface(canvas, MAP_HEIGHT), {begin, end} = selection, span = Math.max(1, end - begin);
    const which = Number($("by").value), words = searched(), field = ["kind", "site", "phase", "thread"][which];
    const some = mapped.filter(block => block.created <= end && block.ended >= begin), {edges, height} = packed(some);
    blockBoxes = [];
    some.forEach((block, at) => {
        const left = Math.max(0, (block.created - begin) / span * width), until = Math.min(block.ended, data.end_ns);
        const right = Math.min(width, (until - begin) / span * width), high = Math.max(1, block.bytes / height * MAP_HEIGHT);
        const top = MAP_HEIGHT - edges[at] / height * MAP_HEIGHT - high;
        const group = sets[which].groupOf[block[field]];
        draw.globalAlpha = words && !blockMatches(block, words) ? 0.15 : 0.85;
        draw.fillStyle = bands.colourOf[group];
        draw.fillRect(left, top, Math.max(right - left, 0.7), Math.max(high - 0.4, 0.6));
        blockBoxes.push({block, left, right: Math.max(right, left + 2), top, bottom: top + Math.max(high, 2)});
    });
    draw.globalAlpha = 1;
    canvas.dataset.shown = blockBoxes.length;
    $("block-note").textContent = `${countText(blockBoxes.length)} blocks of device memory at their addresses, over the selected time: ` +
        "the largest of the run and of each interval. Colours as above.";
}

function blockMatches(block, words) {
    return [nameOf(KIND, block.kind), nameOf(SITE, block.site), nameOf(2, block.phase), nameOf(3, block.thread)].some(text => matches(text, words));
}

function blockAt(event) {
    for (let at = blockBoxes.length - 1; at >= 0; at--) {
        const box = blockBoxes[at];
        if (box.left <= event.offsetX && event.offsetX <= box.right && box.top <= event.offsetY && event.offsetY <= box.bottom)
            return box.block;
    }
    return null;
}

// ---- tables

const SERIES_COLUMNS = [["at_peak", "at the peak", bytesText], ["bytes", "allocated", bytesText], ["allocs", "allocations", countText],
                        ["freed_bytes", "freed", bytesText], ["frees", "frees", countText], ["live_at_end", "live at the end", bytesText],
                        ["temporary", "temporary", countText], ["temporary_bytes", "temporary bytes", bytesText],
                        ["leaked", "leaked", countText], ["leaked_bytes", "leaked bytes", bytesText]]
    .filter(([field]) => !data.summary_ns || !field.startsWith("temporary"));
const MOST = ["most_live", "own peak", bytesText];
const BLOCK_COLUMNS = [["bytes", "size", bytesText], ["created", "allocated at", timeText], ["age", "lifetime", value => value < 0 ? "-" : timeText(value)],
                       ["kind", "kind"], ["thread", "thread"], ["phase", "phase"], ["site", "call site"]];
const tables = [
    {set: 1, sort: ["bytes", -1]}, {blocks: true, sort: ["bytes", -1]}, {set: 2, sort: ["bytes", -1]}, {set: 0, sort: ["bytes", -1]},
    {set: 3, sort: ["bytes", -1]},
].filter(some => !data.summary_ns || some.set <= SITE);
let table = tables[0];
const titleOf = some => some.blocks ? "Largest blocks" : TITLES[some.set][1];

function seriesTable(which) {
    const sum = totals[which], set = sets[which], rows = [];
    const columns = [...SERIES_COLUMNS.slice(0, 1), ...(which === SITE ? [] : [MOST]), ...SERIES_COLUMNS.slice(1), ["name", TITLES[which][0]]];
    for (let group = 0; group < set.names.length; group++) {
        const row = {name: set.names[group]};
        for (const [field] of columns)
            if (field !== "name")
                row[field] = sum[field][group];
        if (row.allocs || row.frees || row.at_peak || row.live_at_end || row.most_live)
            rows.push(row);
    }
    return {columns, rows};
}

function blockTable() {
    const {begin, end} = selection, rows = [];
    for (const block of blocks)
        if (block.created <= end && block.ended >= begin)
            rows.push({block, bytes: block.bytes, created: block.created, age: block.lived ? block.lived - 1 : -1, kind: nameOf(KIND, block.kind),
                       thread: nameOf(3, block.thread), phase: nameOf(2, block.phase), site: nameOf(SITE, block.site)});
    return {columns: BLOCK_COLUMNS, rows};
}

function showTable() {
    const {columns, rows} = table.blocks ? blockTable() : seriesTable(table.set), [field, direction] = table.sort, words = searched();
    const found = words ? rows.filter(row => columns.some(([name]) => typeof row[name] === "string" && matches(row[name], words))) : rows;
    const order = (a, b) => typeof a === "string" ? (a < b ? -1 : a > b ? 1 : 0) : a - b;
    found.sort((a, b) => direction * order(a[field], b[field]));
    const head = document.createElement("tr");
    for (const [name, title, form] of columns) {
        const cell = document.createElement("th");
        cell.textContent = title;
        cell.dataset.field = name;
        cell.className = form ? "" : "text";
        if (name === field)
            cell.setAttribute("aria-sort", direction < 0 ? "descending" : "ascending");
        head.append(cell);
    }
    $("table").tHead.replaceChildren(head);
    $("table").tBodies[0].replaceChildren(...found.slice(0, ROWS_SHOWN).map(row => {
        const line = document.createElement("tr");
        line.block = row.block;
        for (const [name, , form] of columns) {
            const cell = document.createElement("td");
            cell.textContent = form ? form(row[name]) : row[name];
            cell.className = form ? "" : "text";
            if (form)
                cell.dataset.value = row[name];
            line.append(cell);
        }
        return line;
    }));
    $("table").dataset.rows = found.length;
    $("table-note").textContent = `${countText(found.length)} rows` + (found.length > ROWS_SHOWN ? `, the first ${ROWS_SHOWN} of this order shown` : "") +
        (table.blocks ? ". The list has the largest blocks of the run and of each interval." : "");
    for (const button of $("tabs").children)
        button.setAttribute("aria-selected", String(button.textContent === titleOf(table)));
}

// ---- start

function showFacts() {
    $("program").textContent = document.title = `gpumem: ${data.program || data.file}`;
    const facts = [data.file, data.host && `host ${data.host}`, `process ${data.pid}`, data.rank >= 0 && `rank ${data.rank}`,
                   data.policy && `policy ${data.policy}`, `${countText(data.events)} events in ${timeText(data.end_ns)}`,
                   `peak of device memory ${bytesText(data.peak_bytes)} at ${timeText(data.peak_ns)}`,
                   data.failed && `${countText(data.failed)} failed allocations`, data.lost && `${countText(data.lost)} events lost`,
                   !data.finished && "the process did not end normally",
                   `intervals of ${timeText(intervalNs)}`,
                   data.summary_ns && `a summary in intervals of ${timeText(data.summary_ns)}, which has no single blocks, phases, threads`];
    $("facts").textContent = facts.filter(Boolean).join(" \u00b7 ");
}

function connect() {
    $("by").addEventListener("change", () => { showChart(); showBlocks(); });
    $("measure").addEventListener("change", showFlame);
    $("search").addEventListener("input", () => { showFlame(); showBlocks(); showTable(); });
    $("whole").addEventListener("click", () => chart.updateOptions({dateWindow: [0, data.end_ns]}));
    $("peak").addEventListener("click", () => {
        const half = Math.max(data.end_ns / 40, 2 * intervalNs);
        chart.updateOptions({dateWindow: [Math.max(0, data.peak_ns - half), Math.min(data.end_ns, data.peak_ns + half)]});
    });
    $("unzoom").addEventListener("click", () => { flameRoot = 0; showFlame(); });
    $("flame").addEventListener("click", event => {
        const box = flameAt(event);
        flameRoot = box ? box.node : 0;
        showFlame();
    });
    $("flame").addEventListener("mousemove", event => {
        const box = flameAt(event);
        if (!box)
            return hideTip();
        const value = flameValues[box.node];
        showTip(event, [flameText(box.node), `${bytesText(value)} (${countText(value)} bytes), ${(100 * value / flameValues[0]).toPrecision(3)} %`]);
    });
    $("block-map")?.addEventListener("mousemove", event => {
        const block = blockAt(event);
        if (block)
            showTip(event, blockLines(block));
        else
            hideTip();
    });
    $("table").tHead.addEventListener("click", event => {
        const field = event.target.dataset.field;
        if (!field)
            return;
        table.sort = [field, table.sort[0] === field ? -table.sort[1] : event.target.className ? 1 : -1];
        showTable();
    });
    $("table").addEventListener("mousemove", event => {
        const line = event.target.closest("tr");
        if (line && line.block)
            showTip(event, blockLines(line.block));
        else
            hideTip();
    });
    for (const id of ["flame", "block-map", "table"])
        $(id)?.addEventListener("mouseleave", hideTip);
    for (const some of tables) {
        const button = document.createElement("button");
        button.type = "button";
        button.setAttribute("role", "tab");
        button.textContent = titleOf(some);
        button.addEventListener("click", () => { table = some; showTable(); });
        $("tabs").append(button);
    }
    addEventListener("resize", () => { showFlame(); showBlocks(); });
}

// Leaves out what needs single blocks.
function showSummary() {
    $("blocks").remove();
    for (const choice of document.querySelectorAll("#by option[value='2'], #by option[value='3'], #measure option[value=temporary_bytes]"))
        choice.remove();
}

if (data.summary_ns)
    showSummary();
showFacts();
connect();
showTaken();
showChart();
select(0, data.end_ns);
}());
