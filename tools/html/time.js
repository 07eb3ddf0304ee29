// The panels over time: live memory by group, memory taken from the devices, phases, blocks at their addresses. They share one axis.

const BANDS = 12;
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8c6bb1", "#b5a300", "#4d9221", "#c51b7d", "#35978f",
                 "#7f7f7f"];
const REST = "#aaaaaa", FAILED = "#d11a2a", LINE = 19, MAP_HEIGHT = 240, RIGHT = 10;
const charts = {live: null, taken: null};
let bands = null, taken = null, blockBoxes = [], phaseBoxes = [];

const gutter = () => innerWidth < 600 ? 58 : 78;
const colourOf = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const fullTime = () => Math.max(state.trace.raw.end_ns, 1);

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

// Where a time is, in pixels from the left edge of a panel. All panels have the same width.
function timeScale(width) {
    const {begin, end} = state.part, left = gutter() + 6, room = Math.max(1, width - left - RIGHT), span = Math.max(1, end - begin);
    return {left, room, at: ns => left + (ns - begin) / span * room, ns: x => begin + (x - left) / room * span};
}

// ---- live memory: the groups with most memory have a band each

// A device has one colour in all panels.
function colourOfDevice(name) {
    const at = state.trace.devices.findIndex((device, place) => place && `device ${device.device}` === name);
    return COLOURS[Math.max(0, at - 1) % COLOURS.length];
}

function makeBands() {
    const {trace, view, by, part} = state, {names} = trace.groups[by], most = new Float64Array(names.length);
    eachMoment(trace, by, view, part.mask, (moment, i, live) => {
        for (let at = 0; at < live.length; at++)
            most[at] = Math.max(most[at], live[at]);
    });
    const order = Array.from(names.keys()).filter(at => most[at] > 0).sort((a, b) => most[b] - most[a] || a - b);
    const own = order.slice(0, order.length > BANDS ? BANDS - 1 : BANDS), rest = order.length > own.length, width = own.length + rest;
    const place = new Int32Array(names.length).fill(own.length), points = [new Array(width + 1).fill(0)];
    own.forEach((at, band) => { place[at] = band; });
    eachMoment(trace, by, view, part.mask, (moment, i, live) => {
        const point = new Array(width + 1).fill(0);
        point[0] = Math.max(moment, points[points.length - 1][0]);
        for (const at of order)
            point[1 + place[at]] += live[at];
        points.push(point);
    });
    const colours = own.map((at, band) => by === KIND ? shared.kinds.find(kind => kind.name === names[at]).colour :
        by === DEVICE ? colourOfDevice(names[at]) : COLOURS[band]);
    const labels = own.map(at => names[at]), ofGroup = names.map((_, at) => place[at] < own.length ? colours[place[at]] : REST);
    if (rest) {
        colours.push(REST);
        labels.push(`${countText(order.length - own.length)} others`);
    }
    return {points, labels, colours, ofGroup, groups: own.map(at => names[at]),
            most: labels.map((_, band) => points.reduce((a, point) => Math.max(a, point[1 + band]), 0))};
}

// `groups`: what a click on the entry selects, undefined if nothing.
function fillLegend(list, {labels, colours, most, groups}, values) {
    list.replaceChildren(...labels.map((label, at) => {
        const item = document.createElement("li"), mark = document.createElement("i"), value = document.createElement("b");
        const name = document.createElement(groups && groups[at] !== undefined ? "button" : "span");
        mark.style.background = colours[at];
        name.className = "name";
        name.textContent = name.title = label;
        if (name.tagName === "BUTTON") {
            name.type = "button";
            name.addEventListener("click", () => toggleFilter(state.by, groups[at]));
        }
        value.textContent = values ? bytesText(values[at]) : "at most " + bytesText(most[at]);
        item.append(mark, name, value);
        return item;
    }));
}

// A second line over the live chart: the same of the trace that is compared.
function comparedPoints() {
    const {other, by, filter} = state, points = [];
    if (!other)
        return points;
    const view = otherView(), mask = seriesMask(other, view, filter);
    eachMoment(other, by, view, mask, (moment, i, live) => { points.push([moment, live.reduce((a, b) => a + b, 0)]); });
    return points;
}

function chartOptions(height) {
    return {
        height, stepPlot: true, includeZero: true, legend: "never", dateWindow: [state.part.begin, state.part.end], highlightCircleSize: 2,
        animatedZooms: false, rightGap: RIGHT - 1, axisLineColor: colourOf("--soft"), gridLineColor: colourOf("--line"),
        axisLabelFontSize: innerWidth < 600 ? 11 : 12,
        interactionModel: {...Dygraph.defaultInteractionModel, dblclick: () => wholeRun()},
        zoomCallback: (begin, end) => zoomTo(begin, end),
    };
}

const yAxis = () => ({ticker: (min, max, pixels) => bytesTicks(min, max, pixels), axisLabelWidth: gutter()});

function showLive() {
    bands = makeBands();
    const compared = comparedPoints(), top = bands.points.reduce((most, point) => Math.max(most, point.slice(1).reduce((a, b) => a + b, 0)), 0);
    const most = Math.max(top, ...compared.map(point => point[1]), 1);
    charts.live?.destroy();
    charts.live = new Dygraph($("chart"), bands.points, {
        ...chartOptions(innerWidth < 600 ? 220 : 300),
        labels: ["time", ...bands.labels.map((_, at) => "band " + at)], colors: bands.colours, stackedGraph: true, fillAlpha: 0.75, strokeWidth: 0.5,
        showRangeSelector: true, rangeSelectorHeight: 26, rangeSelectorPlotStrokeColor: colourOf("--soft"), rangeSelectorPlotFillColor: colourOf("--line"),
        rangeSelectorBackgroundStrokeColor: colourOf("--line"), rangeSelectorForegroundStrokeColor: colourOf("--text"), rangeSelectorAlpha: 0.6,
        valueRange: [0, most * 1.05],
        axes: {x: {ticker: (min, max, pixels) => timeTicks(min, max, pixels)}, y: yAxis()},
        drawCallback: (graph, first) => {
            const [begin, end] = graph.xAxisRange();
            if (!first && (begin !== state.part.begin || end !== state.part.end))
                selectSoon(begin, end);
        },
        plotter: [Dygraph.Plotters.fillPlotter, Dygraph.Plotters.linePlotter, event => {
            if (event.seriesIndex === 0) {
                drawCompared(event.drawingContext, event.plotArea, event.dygraph, compared);
                drawFailures(event.drawingContext, event.plotArea, event.dygraph);
            }
        }],
        highlightCallback: (event, x, points, row) => {
            const values = bands.points[row].slice(1), lines = [`${timeText(x)}: ${bytesText(values.reduce((a, b) => a + b, 0))} live`];
            const largest = largestAt(x), failed = failureNear(x);
            fillLegend($("legend"), bands, values);
            if (failed)
                lines.push(...failureLines(failed));
            else if (largest)
                lines.push("largest block:", ...blockLines(largest));
            showTip(event, lines);
        },
        unhighlightCallback: () => { fillLegend($("legend"), bands, null); hideTip(); },
        clickCallback: (event, x) => pinBlock(largestAt(x, bandAt(event, x))),
    });
    fillLegend($("legend"), bands, null);
}

function drawCompared(draw, area, graph, points) {
    draw.save();
    draw.beginPath();
    let before = graph.toDomYCoord(0);
    for (const [x, value] of points) {
        const at = graph.toDomXCoord(x);
        draw.lineTo(at, before);
        draw.lineTo(at, before = graph.toDomYCoord(value));
    }
    draw.setLineDash([5, 3]);
    draw.lineWidth = 1.5;
    draw.strokeStyle = colourOf("--text");
    draw.stroke();
    draw.restore();
}

// The group whose band is under the mouse: dygraphs puts the first band on top.
function bandAt(event, x) {
    const graph = charts.live, y = graph.toDataYCoord(event.clientY - $("chart").getBoundingClientRect().top);
    let point = bands.points[0], sum = 0;
    for (const some of bands.points) {
        if (some[0] > x)
            break;
        point = some;
    }
    for (let band = bands.labels.length - 1; band >= 0; band--)
        if ((sum += point[1 + band]) >= y)
            return bands.groups[band];
    return undefined;
}

// ---- memory taken from the device: the most of each interval

function showTaken() {
    const {trace, view} = state, {intervals, bytes} = trace.devices[view], {raw} = trace;
    const alone = trace.devices.length === 1 || view, totals = !raw.summary_ns || trace.devices.length === 1;
    taken = {labels: [], colours: [], rows: []};
    const add = (label, colour, row) => { taken.labels.push(label); taken.colours.push(colour); taken.rows.push(row); };
    if (alone)
        add("live", "#0072B2", intervals.peak);
    if (alone && totals) {
        add("kept for reuse", "#E69F00", intervals.kept);
        add("reserved", "#009E73", intervals.reserved);
        if (raw.beyond_measured)
            add("reserved and beyond gpumem", "#CC79A7", intervals.reserved.map((value, i) => value + intervals.beyond[i]));
    }
    // Of several devices each has a line. A summary has reserved bytes of all of them together only.
    for (const [at, device] of alone ? [] : trace.devices.entries())
        if (at)
            add(`device ${device.device}`, colourOfDevice(`device ${device.device}`), totals ? device.intervals.reserved : device.intervals.peak);
    taken.points = [];
    for (let i = 0; i < trace.count && i * trace.ns <= raw.end_ns; i++)
        taken.points.push([i * trace.ns, ...taken.rows.map(row => row[i])]);
    taken.points.push([fullTime(), ...taken.points[taken.points.length - 1].slice(1)]);
    taken.most = taken.labels.map((_, at) => taken.points.reduce((most, point) => Math.max(most, point[1 + at]), 0));
    for (const name in $("taken").dataset)
        delete $("taken").dataset[name];
    taken.labels.forEach((label, at) => { $("taken").dataset[alone ? label.split(" ").pop() : label.replace(" ", "")] = taken.most[at]; });
    // The card is drawn if that leaves a third of the height to what the process uses.
    const most = Math.max(...taken.most, 1), card = bytes && bytes < 3 * most ? bytes : 0;
    $("taken-note").textContent = (bytes ? `The card has ${bytesText(bytes)}` + (card ? " (the dashed line). " : ". ") : "") +
        (totals ? "Reserved: taken from the driver, with what rounding adds." : "Live bytes.") + (raw.beyond_measured && totals && alone ? " Beyond gpumem: contexts, modules, " +
        "graphs, libraries" + (raw.beyond_shared ? ", and other processes of the card" : "") + ", measured now and then." : "");
    charts.taken?.destroy();
    charts.taken = new Dygraph($("taken"), taken.points, {
        ...chartOptions(140), labels: ["time", ...taken.labels], colors: taken.colours, strokeWidth: 1.5, valueRange: [0, Math.max(most, card) * 1.08],
        axes: {x: {ticker: (min, max, pixels) => timeTicks(min, max, pixels), axisLabelFormatter: () => "", axisLabelWidth: 0}, y: yAxis()},
        xAxisHeight: 4,
        underlayCallback: (draw, area, graph) => {
            if (card)
                drawLine(draw, area, graph.toDomYCoord(card));
        },
        highlightCallback: (event, x, points, row) => {
            fillLegend($("taken-legend"), taken, taken.points[row].slice(1));
            showTip(event, [timeText(x), ...taken.labels.map((label, at) => `${label}: ${bytesText(taken.points[row][1 + at])}`)]);
        },
        unhighlightCallback: () => { fillLegend($("taken-legend"), taken, null); hideTip(); },
    });
    fillLegend($("taken-legend"), taken, null);
}

function drawLine(draw, area, y) {
    draw.save();
    draw.setLineDash([7, 4]);
    draw.strokeStyle = colourOf("--text");
    draw.beginPath();
    draw.moveTo(area.x, y);
    draw.lineTo(area.x + area.w, y);
    draw.stroke();
    draw.restore();
}

// ---- failed requests

const shownFailures = () => state.trace.failures.filter(failure => !state.view || failure.device === state.trace.devices[state.view].device);

function drawFailures(draw, area, graph) {
    draw.save();
    draw.strokeStyle = draw.fillStyle = FAILED;
    for (const failure of shownFailures()) {
        const x = graph.toDomXCoord(failure.time_ns);
        if (x < area.x || x > area.x + area.w)
            continue;
        draw.beginPath();
        draw.moveTo(x, area.y + 8);
        draw.lineTo(x, area.y + area.h);
        draw.stroke();
        draw.beginPath();
        draw.moveTo(x - 5, area.y);
        draw.lineTo(x + 5, area.y);
        draw.lineTo(x, area.y + 9);
        draw.fill();
    }
    draw.restore();
}

function failureNear(ns) {
    const near = (state.part.end - state.part.begin) / 200;
    return shownFailures().filter(failure => Math.abs(failure.time_ns - ns) < near).sort((a, b) => Math.abs(a.time_ns - ns) - Math.abs(b.time_ns - ns))[0];
}

function failureLines(failure) {
    return [`failed at ${timeText(failure.time_ns)}: ${shared.calls[failure.call]}` + (failure.bytes ? ` of ${bytesText(failure.bytes)}` : "") +
            ` on device ${failure.device}`, `result ${failure.result}, ${bytesText(failure.live)} live on the device then`, state.trace.siteNames[failure.site]];
}

// ---- phases

const PHASE_ROWS = 6;

// Phases that overlap in time have rows of their own.
function showPhases() {
    const {trace} = state, canvas = $("phase-map"), panel = $("phases");
    panel.hidden = !trace.phases.length;
    phaseBoxes = [];
    if (panel.hidden)
        return;
    const ends = [], rows = trace.phases.map(phase => {
        let row = ends.findIndex(end => end <= phase.begin);
        if (row < 0)
            row = ends.length;
        ends[row] = phase.end;
        return row;
    });
    const count = Math.min(PHASE_ROWS, ends.length), {draw, width} = surface(canvas, count * LINE), scale = timeScale(width), words = searched();
    draw.save();
    draw.beginPath();
    draw.rect(scale.left, 0, scale.room, count * LINE);
    draw.clip();
    trace.phases.forEach((phase, at) => {
        const left = Math.max(scale.left, scale.at(phase.begin)), right = Math.min(scale.left + scale.room, scale.at(phase.end)), y = rows[at] * LINE;
        if (rows[at] >= count || right < left || phase.end < state.part.begin || phase.begin > state.part.end)
            return;
        draw.globalAlpha = words && !matches(phase.name, words) ? 0.3 : 1;
        draw.fillStyle = hashColour(phase.name, 200, 60);
        draw.fillRect(left, y, Math.max(1, right - left - 1), LINE - 2);
        draw.fillStyle = "#111111";
        if (right - left > 24)
            draw.fillText(cut(phase.name, right - left), left + 3, y + LINE / 2 - 1);
        phaseBoxes.push({phase, left, right: Math.max(right, left + 3), top: y, bottom: y + LINE});
    });
    draw.restore();
    $("phase-note").textContent = ends.length > count ? `${countText(ends.length - count)} more rows are not drawn.` : "";
}

const phaseLines = phase => [phase.name, `${timeText(phase.begin)} to ${timeText(phase.end)}, ${timeText(phase.end - phase.begin)}` +
                             (phase.nested ? `, thread ${phase.thread | 0}` : "")];

// ---- blocks at their addresses

// The vertical axis is the address without gaps: blocks that share an address share a height.
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

function showBlocks() {
    const {trace, part, by} = state, panel = $("blocks");
    if (!panel)
        return;
    const canvas = $("block-map"), {draw, width} = surface(canvas, MAP_HEIGHT + 18), scale = timeScale(width), words = searched();
    const some = trace.blocks.filter(block => block.bytes && trace.onDevice[block.series] && part.mask[block.series] && block.created <= part.end &&
                                     block.ended >= part.begin).sort((a, b) => trace.series.device[a.series] - trace.series.device[b.series] ||
                                                                       a.address - b.address);
    const {edges, height} = packed(some.map(block => ({...block, address: block.address + trace.series.device[block.series] * 2 ** 50})));
    blockBoxes = [];
    some.forEach((block, at) => {
        const left = Math.max(scale.left, scale.at(block.created)), right = Math.min(scale.left + scale.room, scale.at(Math.min(block.ended, trace.raw.end_ns)));
        const high = Math.max(1, block.bytes / height * MAP_HEIGHT), top = MAP_HEIGHT - edges[at] / height * MAP_HEIGHT - high;
        draw.globalAlpha = words && !blockMatches(block, words) ? 0.15 : 0.85;
        draw.fillStyle = bands.ofGroup[trace.groups[by].of[block.series]];
        draw.fillRect(left, top, Math.max(right - left, 0.7), Math.max(high - 0.4, 0.6));
        if (state.pinned === block.number) {
            draw.globalAlpha = 1;
            draw.lineWidth = 2;
            draw.strokeStyle = colourOf("--text");
            draw.strokeRect(left, top, Math.max(right - left, 2), Math.max(high, 2));
        }
        blockBoxes.push({block, left, right: Math.max(right, left + 2), top, bottom: top + Math.max(high, 2)});
    });
    draw.globalAlpha = 1;
    draw.fillStyle = colourOf("--soft");
    draw.textAlign = "right";
    draw.fillText(bytesText(height > 1 ? height : 0), scale.left - 6, 8);
    draw.fillText("0 B", scale.left - 6, MAP_HEIGHT - 6);
    draw.textAlign = "center";
    for (const tick of timeTicks(part.begin, part.end, scale.room))
        draw.fillText(tick.label, Math.min(scale.at(tick.v), scale.left + scale.room - 12), MAP_HEIGHT + 10);
    canvas.dataset.shown = blockBoxes.length;
    $("block-note").textContent = `${countText(blockBoxes.length)} blocks of device memory at their addresses: the largest of the run and of each ` +
        "interval. Colours as above; click to pin one.";
}

function blockMatches(block, words) {
    return [KIND, SITE, PHASE, THREAD].some(which => matches(state.trace.nameOf(which, block.series), words));
}

const boxAt = (boxes, event) => boxes.findLast(box => box.left <= event.offsetX && event.offsetX <= box.right && box.top <= event.offsetY &&
                                               event.offsetY <= box.bottom);

// The largest selected block that is live at the time, of one group if it is given.
function largestAt(ns, name) {
    const {trace, part, by} = state;
    let best = null;
    for (const block of trace.blocks)
        if (block.created <= ns && ns < block.ended && part.mask[block.series] && (!best || block.bytes > best.bytes) &&
            (name === undefined || trace.nameOf(by, block.series) === name))
            best = block;
    return best;
}
