// The page of gpumem html: what is selected, and how mouse, keyboard and the page's address change it. Names come from the traced program, so
// they enter the page only as text, never as HTML.

const $ = id => document.getElementById(id);
const data = JSON.parse($("data").textContent), shared = data;
const state = {at: -1, trace: null, other: null, otherAt: -1, view: 0, by: SITE, filter: [], part: null, otherPart: null, tab: "site", sort: {}, pinned: null};
const opened = [];

const searched = () => $("search").value.trim().toLowerCase();
const matches = (text, words) => text.toLowerCase().includes(words);
const trace = at => opened[at] ||= openTrace(data.traces[at], shared);

// The same device of the other trace; all of them if it lacks it.
function otherView() {
    const wanted = state.trace.devices[state.view].device;
    return state.view && state.other ? Math.max(0, state.other.devices.findIndex((some, at) => at && some.device === wanted)) : 0;
}

// ---- changes of the selection

function select(begin, end) {
    const whole = fullTime();
    begin = Math.max(0, Math.min(begin, whole));
    end = Math.max(begin, Math.min(whole, end));
    state.part = selectPart(state.trace, begin, end, state.view, state.filter);
    state.otherPart = state.other && selectPart(state.other, begin, end >= whole ? Math.max(state.other.raw.end_ns, 1) : end, otherView(), state.filter);
    showSelection();
    showPhases();
    showBlocks();
    showFlame();
    showTable();
    keepInLink();
}

let queued = 0;
function selectSoon(begin, end) {
    cancelAnimationFrame(queued);
    queued = requestAnimationFrame(() => zoomTo(begin, end));
}

function zoomTo(begin, end) {
    const least = Math.min(fullTime(), Math.max(state.trace.ns / 50, 10));
    if (end - begin < least)
        [begin, end] = [(begin + end - least) / 2, (begin + end + least) / 2];
    begin = Math.max(0, Math.min(begin, fullTime() - (end - begin)));
    select(begin, Math.min(end, fullTime()));
    for (const chart of [charts.live, charts.taken]) {
        const [from, to] = chart.xAxisRange();
        if (from !== state.part.begin || to !== state.part.end)
            chart.updateOptions({dateWindow: [state.part.begin, state.part.end]});
    }
}

const wholeRun = () => zoomTo(0, fullTime());

function aroundPeak() {
    const {intervals} = state.trace.devices[state.view], at = intervals.peakNs[peakInterval(intervals, 0, state.trace.count - 1)];
    const half = Math.max(state.trace.raw.end_ns / 40, 2 * state.trace.ns);
    zoomTo(Math.max(0, at - half), Math.min(fullTime(), at + half));
}

function zoomBy(factor, at) {
    const {begin, end} = state.part, middle = at === undefined ? (begin + end) / 2 : at;
    zoomTo(middle - (middle - begin) * factor, middle + (end - middle) * factor);
}

function moveBy(share) {
    const {begin, end} = state.part, by = (end - begin) * share, from = Math.max(0, Math.min(begin + by, fullTime() - (end - begin)));
    zoomTo(from, from + end - begin);
}

// Everything again: for another trace, device, group or filter.
function showAll(begin, end) {
    state.part = selectPart(state.trace, begin, end, state.view, state.filter);
    state.otherPart = null;
    showFacts();
    showFilters();
    showTraces();
    showLive();
    showTaken();
    select(begin, end);
}

const showAgain = () => showAll(state.part.begin, state.part.end);

const usualGroup = () => state.trace.devices.length > 1 && !state.view ? DEVICE : SITE;

function chooseTrace(at) {
    Object.assign(state, {at, trace: trace(at), view: 0, pinned: null, part: null});
    state.by = usualGroup();
    if (state.otherAt === at)
        Object.assign(state, {otherAt: -1, other: null});
    fillDevices();
    showPinned();
    showAll(0, fullTime());
}

function chooseOther(at) {
    Object.assign(state, {otherAt: at, other: at < 0 ? null : trace(at)});
    state.sort = {};
    showAgain();
}

function toggleFilter(which, name) {
    state.filter[which] = state.filter[which] === name ? undefined : name;
    showAgain();
}

function pinBlock(block) {
    state.pinned = block && block.number !== state.pinned ? block.number : null;
    showPinned();
    showBlocks();
    keepInLink();
}

// ---- texts

function showFacts() {
    const {raw, devices} = state.trace;
    $("program").textContent = document.title = `gpumem: ${(raw.program || raw.file).split("/").pop()}`;
    $("program").title = raw.program;
    const peak = view => {
        const {intervals, device} = devices[view], at = peakInterval(intervals, 0, state.trace.count - 1);
        return `peak of ${devices.length > 1 ? `device ${device}` : "device memory"} ${bytesText(intervals.peak[at])} at ${timeText(intervals.peakNs[at])}`;
    };
    const facts = [raw.file, raw.host && `host ${raw.host}`, `process ${raw.pid}`, raw.rank >= 0 && `rank ${raw.rank}`,
                   raw.policy && `policy ${raw.policy}`, `${countText(raw.events)} events in ${timeText(raw.end_ns)}`,
                   ...(devices.length > 1 ? devices.slice(1).map((_, at) => peak(at + 1)) : [peak(0)]),
                   raw.failed && `${countText(raw.failed)} failed allocations`, raw.lost && `${countText(raw.lost)} events lost`,
                   raw.from_ns && `only from ${timeText(raw.from_ns)} on, from which times count`,
                   raw.until_ns && `only until ${timeText(raw.until_ns)} of the trace`,
                   raw.finished !== WHOLE && "what is live at its end need not be a leak",
                   raw.min_bytes && `only blocks of at least ${bytesText(raw.min_bytes)}`, raw.finished === CUT && "the process did not end normally", `intervals of ${timeText(raw.interval_ns)}`,
                   raw.summary_ns && `a summary in intervals of ${timeText(raw.summary_ns)}, which has no single blocks, phases, threads`];
    $("measure").querySelector('[value="leaked_bytes"]').textContent = raw.finished === WHOLE ? "leaked bytes" : `bytes ${leakedWord(raw)}`;
    $("facts").textContent = facts.filter(Boolean).join(" \u00b7 ");
    $("taken-title").textContent = state.view ? `Memory taken from device ${devices[state.view].device}`
        : devices.length > 1 ? "Memory reserved on each device" : "Memory taken from the device";
    for (const element of document.querySelectorAll(".blocks-only"))
        element.hidden = Boolean(raw.summary_ns);
    if (raw.summary_ns && (state.by === PHASE || state.by === THREAD))
        state.by = SITE;
    for (const choice of $("by").options)
        choice.hidden = choice.disabled = (raw.summary_ns && [PHASE, THREAD].includes(+choice.value)) || (+choice.value === DEVICE && devices.length < 2);
    $("by").value = state.by;
}

function showSelection() {
    const {part, trace, view} = state, {from, to} = part, {intervals} = trace.devices[view], peakAt = part.peaks[view];
    const sum = field => part.sums[field].reduce((a, b) => a + b, 0);
    const values = {begin_ns: from * trace.ns, end_ns: Math.min((to + 1) * trace.ns, trace.raw.end_ns), peak_bytes: intervals.peak[peakAt],
                    peak_ns: intervals.peakNs[peakAt]};
    for (const field of SUMS)
        values[field] = sum(field);
    for (const field of ["kept", "reserved", "beyond"])
        values[field] = intervals[field].subarray(from, to + 1).reduce((a, b) => Math.max(a, b), 0);
    const several = trace.devices.length > 1 && !view;
    const peaks = several ? trace.devices.slice(1).map((device, at) => `peak of device ${device.device} ${bytesText(device.intervals.peak[part.peaks[at + 1]])}`)
                          : [`peak of device memory ${bytesText(values.peak_bytes)} at ${timeText(values.peak_ns)}`];
    const words = [`${timeText(values.begin_ns)} to ${timeText(values.end_ns)}`, ...peaks,
                   `${countText(values.allocs)} allocations, ${bytesText(values.bytes)}`, `${countText(values.frees)} frees`,
                   !isSummary() && `${countText(values.temporary)} temporary`, `${countText(values.leaked)} ${leakedWord(trace.raw)}, ${bytesText(values.leaked_bytes)}`,
                   !several && !(view && isSummary()) && `reserved at most ${bytesText(values.reserved)}`];
    $("selection").textContent = "Selected: " + words.filter(Boolean).join(" \u00b7 ");
    for (const field in values)
        $("selection").dataset[field] = values[field];
}

function showFilters() {
    $("filters").replaceChildren(...state.filter.flatMap((name, which) => {
        if (name === undefined)
            return [];
        const button = document.createElement("button");
        button.type = "button";
        button.title = "Show all again";
        button.textContent = `only ${WORDS[which][0]} ${name} \u00d7`;
        button.addEventListener("click", () => toggleFilter(which, name));
        return [button];
    }));
}

function blockLines(block) {
    const {trace} = state, name = which => trace.nameOf(which, block.series);
    const lines = [`block ${countText(block.number)}: ${bytesText(block.bytes)} (${countText(block.bytes)} bytes) of ${name(KIND)}, ${name(DEVICE)}`,
                   name(SITE),
                   `${shared.calls[block.call]}, address 0x${block.address ? (BigInt(block.high) * 4294967296n + BigInt(block.low)).toString(16) : "0"}`,
                   `allocated at ${timeText(block.created)} by ${name(THREAD)}, ` +
                   (block.lived ? `lived ${timeText(block.lived - 1)}` : block.leaked && trace.raw.finished === WHOLE ? "never freed" : "alive at the end")];
    if (trace.groups[PHASE].names.length > 1 || name(PHASE) !== "(no phase)")
        lines.push(`phase: ${name(PHASE)}`);
    return lines;
}

function showPinned() {
    const {trace, pinned} = state, block = pinned !== null && trace.blocks.find(some => some.number === pinned);
    $("pin").hidden = !block;
    if (!block)
        return;
    const lines = blockLines(block), stack = trace.stacks[trace.series.site[block.series]];
    $("pin-title").textContent = lines[0];
    $("pin-text").textContent = lines.slice(2).join("\n");
    $("pin-stack").replaceChildren(...stack.map(text => {
        const item = document.createElement("li");
        item.textContent = trace.raw.texts[text];
        return item;
    }));
    $("pin-only").onclick = () => toggleFilter(SITE, trace.nameOf(SITE, block.series));
}

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

// ---- the page's address keeps the selection

const FILTERS = ["kind", "site", "phase", "thread", "device"];
let silent = false;

function keepInLink() {
    if (silent || !state.part)
        return;
    const words = new URLSearchParams(), {part} = state;
    const keep = (name, value, usual) => { if (value !== usual && value !== undefined && value !== null) words.set(name, value); };
    keep("trace", state.at, 0);
    keep("with", state.otherAt, -1);
    keep("device", state.view, 0);
    keep("by", state.by, usualGroup());
    keep("tab", state.tab, "site");
    keep("measure", $("measure").value, "at_peak");
    keep("find", $("search").value, "");
    keep("block", state.pinned, null);
    if (part.begin > 0 || part.end < fullTime()) {
        words.set("from", Math.round(part.begin));
        words.set("to", Math.round(part.end));
    }
    state.filter.forEach((name, which) => keep(FILTERS[which] + "=", name, undefined));
    const link = "#" + words;
    if (link !== (location.hash || "#"))
        history.replaceState(null, "", link);
}

function readLink() {
    const words = new URLSearchParams(location.hash.slice(1)), number = (name, low, high, usual) => {
        const value = Number(words.get(name) ?? usual);
        return value >= low && value <= high ? value : usual;
    };
    silent = true;
    const at = number("trace", 0, data.traces.length - 1, data.compare ? 1 : 0), other = number("with", -1, data.traces.length - 1, data.compare ? 0 : -1);
    state.filter = FILTERS.map(name => words.get(name + "=") ?? undefined);
    Object.assign(state, {tab: words.get("tab") || "site", otherAt: other, other: other < 0 || other === at ? null : trace(other)});
    $("search").value = words.get("find") || "";
    if ([...$("measure").options].some(option => option.value === words.get("measure")))
        $("measure").value = words.get("measure");
    chooseTrace(at);
    state.view = number("device", 0, state.trace.devices.length - 1, 0);
    state.by = number("by", KIND, DEVICE, usualGroup());
    state.pinned = words.has("block") ? number("block", 0, Infinity, null) : null;
    fillDevices();
    showPinned();
    showAll(number("from", 0, fullTime(), 0), number("to", 0, fullTime(), fullTime()));
    silent = false;
}

// ---- controls

function fillSelect(select, rows, value) {
    select.replaceChildren(...rows.map(([key, text]) => new Option(text, key)));
    select.value = value;
    select.parentElement.hidden = rows.length < 2;
}

function fillDevices() {
    const {devices} = state.trace;
    fillSelect($("device"), devices.map((some, at) => [at, at ? `${some.device}${some.name && ": " + some.name}` : "all"]).slice(0, devices.length > 1 ? undefined : 0),
               state.view);
    const name = raw => (raw.rank >= 0 ? `rank ${raw.rank}, ` : "") + raw.file;
    fillSelect($("trace"), data.traces.map((raw, at) => [at, name(raw)]), state.at);
    fillSelect($("other"), [[-1, "nothing"], ...data.traces.map((raw, at) => [at, name(raw)]).filter(([at]) => at !== state.at)], state.otherAt);
}

const KEYS = {
    ArrowLeft: () => moveBy(-0.1), ArrowRight: () => moveBy(0.1), "+": () => zoomBy(0.8), "=": () => zoomBy(0.8), "-": () => zoomBy(1.25),
    "0": wholeRun, Home: wholeRun, p: aroundPeak, "/": () => $("search").focus(), "?": () => $("help").showModal(),
    Escape: () => {
        if (state.pinned !== null)
            return pinBlock(null);
        state.filter = [];
        showAgain();
    },
};

function onKey(event) {
    const typing = event.target.matches("input, select, dialog *"), act = KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || (typing && event.key !== "Escape") || $("help").open)
        return;
    if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && !event.target.closest("#over-time") && event.target !== document.body)
        return;
    event.preventDefault();
    act();
}

// The wheel zooms with Ctrl, which is also what two fingers on a touchpad send, or after a click into the panels.
function onWheel(event) {
    const panel = event.target.closest(".time");
    if (!panel || (!event.ctrlKey && !$("over-time").contains(document.activeElement)))
        return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
        return moveBy(Math.sign(event.deltaX || event.deltaY) * 0.08);
    const box = panel.getBoundingClientRect();
    zoomBy(1.0015 ** event.deltaY, timeScale(box.width).ns(event.clientX - box.left));
}

// The same moment in all panels.
function showMoment(event) {
    const panel = event.target.closest(".time"), box = panel && panel.getBoundingClientRect(), x = panel ? event.clientX - box.left : -1;
    const inside = panel && x >= gutter() + 6 && x <= box.width - RIGHT;
    for (const mark of document.querySelectorAll(".moment")) {
        mark.hidden = !inside;
        mark.style.left = x + "px";
    }
}

function hover(id, find, lines) {
    $(id).addEventListener("mousemove", event => {
        const found = find(event);
        if (found)
            showTip(event, lines(found));
        else
            hideTip();
    });
    $(id).addEventListener("mouseleave", hideTip);
}

function rowAct(event) {
    const line = event.target.closest("tbody tr");
    if (!line || (event.type === "keydown" && event.key !== "Enter") || (event.type === "click" && String(getSelection())))
        return;
    if (line.trace !== undefined)
        chooseTrace(line.trace);
    else if (line.block)
        pinBlock(line.block);
    else if (line.failure)
        zoomTo(line.failure.time_ns - fullTime() / 40, line.failure.time_ns + fullTime() / 40);
    else if (line.group !== undefined)
        toggleFilter(tableRows().find(row => row.id === state.tab)?.set ?? SITE, line.group);
}

function connect() {
    $("by").addEventListener("change", event => { state.by = Number(event.target.value); showAgain(); });
    $("device").addEventListener("change", event => {
        const usual = state.by === usualGroup();
        state.view = Number(event.target.value);
        state.by = usual ? usualGroup() : state.by;
        showAgain();
    });
    $("trace").addEventListener("change", event => chooseTrace(Number(event.target.value)));
    $("other").addEventListener("change", event => chooseOther(Number(event.target.value)));
    $("measure").addEventListener("change", () => { showFlame(); keepInLink(); });
    $("search").addEventListener("input", () => { showFlame(); showPhases(); showBlocks(); showTable(); keepInLink(); });
    $("whole").addEventListener("click", wholeRun);
    $("peak").addEventListener("click", aroundPeak);
    $("help-open").addEventListener("click", () => $("help").showModal());
    $("pin-close").addEventListener("click", () => pinBlock(null));
    $("unzoom").addEventListener("click", () => openFrame(null));
    $("flame").addEventListener("click", event => openFrame(flameAt(event)));
    $("flame").addEventListener("keydown", flameKey);
    for (const type of ["focus", "blur"])
        $("flame").addEventListener(type, showFlame);
    $("block-map").addEventListener("click", event => pinBlock(boxAt(blockBoxes, event)?.block));
    $("phase-map").addEventListener("click", event => {
        const box = boxAt(phaseBoxes, event);
        if (box)
            zoomTo(box.phase.begin, box.phase.end);
    });
    hover("flame", flameAt, flameLines);
    hover("block-map", event => boxAt(blockBoxes, event), box => blockLines(box.block));
    hover("phase-map", event => boxAt(phaseBoxes, event), box => phaseLines(box.phase));
    hover("table", event => event.target.closest("tr")?.block, blockLines);
    $("table").tHead.addEventListener("click", event => {
        const field = event.target.closest("th")?.dataset.field;
        if (!field)
            return;
        const row = tableRows().find(some => some.id === state.tab) || tableRows()[0], [before, direction] = state.sort[row.id] || defaultSort(row);
        state.sort[row.id] = [field, before === field ? -direction : event.target.closest("th").className ? 1 : -1];
        showTable();
    });
    for (const id of ["table", "traces"])
        for (const type of ["click", "keydown"])
            $(id).addEventListener(type, rowAct);
    $("tabs").addEventListener("keydown", tabKey);
    document.addEventListener("keydown", onKey);
    $("over-time").addEventListener("wheel", onWheel, {passive: false});
    $("over-time").addEventListener("mousemove", showMoment);
    $("over-time").addEventListener("mouseleave", showMoment);
    addEventListener("hashchange", readLink);
    let width = innerWidth;
    addEventListener("resize", () => {
        if (innerWidth !== width)
            showAgain();
        width = innerWidth;
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showAgain);
}

connect();
readLink();
