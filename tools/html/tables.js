// The tables: groups of series, single blocks, failed requests. A click on a row selects its group, or pins its block.

const ROWS_SHOWN = 200;
const seriesColumns = raw => [["at_peak", "at the peak", bytesText], ["bytes", "allocated", bytesText], ["allocs", "allocations", countText],
                              ["freed_bytes", "freed", bytesText], ["frees", "frees", countText], ["live_at_end", "live at the end", bytesText],
                              ["temporary", "temporary", countText], ["temporary_bytes", "temporary bytes", bytesText],
                              ["leaked", leakedWord(raw), countText], ["leaked_bytes", `${leakedWord(raw)}, bytes`, bytesText]];
const MOST = ["most_live", "own peak", bytesText];
const COMPARED = ["at_peak", "bytes", "allocs", "leaked_bytes"];
const BLOCK_COLUMNS = [["site", "call site"], ["bytes", "size", bytesText], ["created", "allocated at", timeText], ["age", "lifetime", value => value < 0 ? "-" : timeText(value)],
                       ["kind", "kind"], ["device", "device"], ["thread", "thread"], ["phase", "phase"]];
const FAILURE_COLUMNS = [["site", "call site"], ["time", "at", timeText], ["bytes", "requested", bytesText], ["live", "live then", bytesText], ["device", "device"],
                         ["call", "call"], ["result", "result"]];
const ACCOUNT_COLUMNS = [["name", "the card's memory"], ["device", "device"], ["fullest", "at the fullest", bytesText], ["last", "at last", bytesText],
                         ["meaning", "which is"]];

const isSummary = () => Boolean(state.trace.raw.summary_ns);
const severalDevices = () => state.trace.devices.length > 1;

function tableRows() {
    const some = [{id: "site", set: SITE}, {id: "block", title: "Largest blocks"}, {id: "phase", set: PHASE}, {id: "kind", set: KIND},
                  {id: "thread", set: THREAD}, {id: "device", set: DEVICE}, {id: "failed", title: "Failed requests"},
                  {id: "account", title: "The card's memory"}];
    return some.filter(row => (!isSummary() || [SITE, KIND, DEVICE].includes(row.set)) && (row.set !== DEVICE || severalDevices()) &&
                              (row.id !== "failed" || state.trace.failures.length) && (row.id !== "account" || accounts().length));
}

// The devices that are shown, and whose memory was measured.
const accounts = () => state.trace.devices.filter((some, at) => some.account?.length && (!state.view || at === state.view));

const titleOf = row => row.title || WORDS[row.set][1];

// A lower bound of the most that each group held: what its series held together at known moments, and each series by itself.
function ownPeaks(which) {
    const {trace, part, view} = state, {of, names} = trace.groups[which], most = new Float64Array(names.length);
    part.sums.most_live.forEach((value, series) => { most[of[series]] = Math.max(most[of[series]], value); });
    eachMoment(trace, which, view, part.mask, (moment, i, live) => {
        if (i >= part.from && i <= part.to)
            live.forEach((value, at) => { most[at] = Math.max(most[at], value); });
    });
    return most;
}

function groupSums(trace, part, which, fields) {
    const {of, names} = trace.groups[which], sums = {};
    for (const field of fields) {
        sums[field] = new Float64Array(names.length);
        part.sums[field].forEach((value, series) => {
            if (trace.onDevice[series] || which === KIND || !["at_peak", "live_at_end"].includes(field))
                sums[field][of[series]] += value;
        });
    }
    return sums;
}

function seriesTable(which) {
    const {trace, part} = state, {names} = trace.groups[which], own = which !== SITE && !state.other && ownPeaks(which);
    const columns = seriesColumns(trace.raw).filter(([field]) => !isSummary() || !field.startsWith("temporary"));
    const sums = groupSums(trace, part, which, columns.map(([field]) => field)), rows = [];
    for (let at = 0; at < names.length; at++) {
        const row = {name: names[at]};
        for (const [field] of columns)
            row[field] = sums[field][at];
        if (own)
            row.most_live = own[at];
        if (row.allocs || row.frees || row.at_peak || row.live_at_end || row.most_live)
            rows.push(row);
    }
    const name = ["name", WORDS[which][0]];
    return state.other ? {columns: [name, ...compare(rows, which)], rows} : {columns: [name, columns[0], ...(own ? [MOST] : []), ...columns.slice(1)], rows};
}

// Adds what the other trace has to the rows, and rows that only it has. Returns the columns.
function compare(rows, which) {
    const {other, otherPart} = state, sums = groupSums(other, otherPart, which, COMPARED), byName = new Map(rows.map(row => [row.name, row]));
    other.groups[which].names.forEach((name, at) => {
        if (!byName.has(name) && COMPARED.some(field => sums[field][at])) {
            byName.set(name, Object.fromEntries([["name", name], ...COMPARED.map(field => [field, 0])]));
            rows.push(byName.get(name));
        }
    });
    for (const row of rows) {
        const at = other.groups[which].byName.get(row.name);
        for (const field of COMPARED)
            row["d_" + field] = row[field] - (at === undefined ? 0 : sums[field][at]);
    }
    return seriesColumns(state.trace.raw).filter(([field]) => COMPARED.includes(field)).flatMap(([field, title, form]) =>
        [[field, title, form], ["d_" + field, "more", signed(form)]]);
}

function blockTable() {
    const {trace, part} = state, rows = [];
    for (const block of trace.blocks)
        if (part.mask[block.series] && block.created <= part.end && block.ended >= part.begin)
            rows.push({block, bytes: block.bytes, created: block.created, age: block.lived ? block.lived - 1 : -1, kind: trace.nameOf(KIND, block.series),
                       device: String(trace.series.device[block.series]), thread: trace.nameOf(THREAD, block.series),
                       phase: trace.nameOf(PHASE, block.series), site: trace.nameOf(SITE, block.series)});
    return {columns: BLOCK_COLUMNS.filter(([field]) => field !== "device" || severalDevices()), rows};
}

function failureTable() {
    const rows = shownFailures().map(failure => ({failure, time: failure.time_ns, bytes: failure.bytes, live: failure.live, device: String(failure.device),
                                                  call: shared.calls[failure.call], result: failure.result, site: state.trace.siteNames[failure.site]}));
    return {columns: FAILURE_COLUMNS, rows};
}

// In the order of the list, which adds up to the card.
function accountTable() {
    const rows = accounts().flatMap(({device, account, ran_out: ranOut}) => {
        const sum = field => account.reduce((all, row) => all + row[field], 0);
        return [...account, {name: "card", fullest: sum("fullest"), last: sum("last"),
                             meaning: ranOut ? "the sum; at the fullest: when memory ran out" : "the sum"}].map(row => ({...row, device: String(device)}));
    });
    rows.forEach((row, at) => { row.order = at; });
    return {columns: ACCOUNT_COLUMNS.filter(([field]) => field !== "device" || severalDevices()), rows};
}

const defaultSort = row => row.id === "account" ? ["order", 1] : row.id === "failed" ? ["time", 1] : row.set !== undefined && state.other ? ["d_at_peak", -1] : ["bytes", -1];

function showTable() {
    const all = tableRows(), row = all.find(some => some.id === state.tab) || all[0];
    const {columns, rows} = row.id === "block" ? blockTable() : row.id === "failed" ? failureTable() : row.id === "account" ? accountTable() : seriesTable(row.set);
    const sort = state.sort[row.id] || defaultSort(row), [field, direction] = columns.some(([name]) => name === sort[0]) ? sort : defaultSort(row);
    const words = searched(), wanted = state.filter[row.set];
    const found = words ? rows.filter(some => columns.some(([name]) => typeof some[name] === "string" && matches(some[name], words))) : rows;
    const size = field.startsWith("d_") ? Math.abs : value => value;
    found.sort((a, b) => direction * (typeof a[field] === "string" ? (a[field] < b[field] ? -1 : a[field] > b[field] ? 1 : 0) : size(a[field]) - size(b[field])));
    const head = document.createElement("tr");
    for (const [name, title, form] of columns) {
        const cell = document.createElement("th"), button = document.createElement("button");
        button.type = "button";
        button.textContent = title;
        cell.append(button);
        cell.dataset.field = name;
        cell.scope = "col";
        cell.className = form ? "" : "text";
        if (name === field)
            cell.ariaSort = direction < 0 ? "descending" : "ascending";
        head.append(cell);
    }
    $("table").tHead.replaceChildren(head);
    $("table").tBodies[0].replaceChildren(...found.slice(0, ROWS_SHOWN).map(some => {
        const line = document.createElement("tr");
        Object.assign(line, {block: some.block, failure: some.failure, group: row.set !== undefined ? some.name : undefined});
        line.tabIndex = 0;
        if (row.set !== undefined && wanted === some.name)
            line.ariaSelected = "true";
        for (const [name, , form] of columns) {
            const cell = document.createElement("td");
            cell.textContent = form ? form(some[name]) : some[name];
            cell.className = form ? (name.startsWith("d_") ? (some[name] > 0 ? "grew" : some[name] < 0 ? "shrank" : "") : "") : "text";
            if (form)
                cell.dataset.value = some[name];
            line.append(cell);
        }
        return line;
    }));
    $("table").dataset.rows = found.length;
    $("table-note").textContent = `${countText(found.length)} rows` + (found.length > ROWS_SHOWN ? `, the first ${ROWS_SHOWN} of this order shown` : "") +
        (row.id === "block" ? ". The list has the largest blocks of the run and of each interval; click one to pin it."
         : row.id === "account" ? ". It is of the whole run, whatever range is selected."
         : row.set !== undefined ? ". Click a row to see only it." : ".");
    showTabs(all, row);
}

function showTabs(all, current) {
    const tabs = $("tabs");
    tabs.replaceChildren(...all.map(row => {
        const button = document.createElement("button");
        button.type = "button";
        button.setAttribute("role", "tab");
        button.ariaSelected = String(row === current);
        button.setAttribute("aria-controls", "table");
        button.tabIndex = row === current ? 0 : -1;
        button.textContent = titleOf(row);
        button.addEventListener("click", () => chooseTab(row.id));
        return button;
    }));
}

function chooseTab(id) {
    state.tab = id;
    showTable();
    keepInLink();
}

function tabKey(event) {
    const all = tableRows(), at = all.findIndex(row => row.id === state.tab), step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step)
        return;
    event.preventDefault();
    event.stopPropagation();
    chooseTab(all[(Math.max(at, 0) + step + all.length) % all.length].id);
    $("tabs").querySelector("[aria-selected=true]").focus();
}

// ---- the traces of the page

function showTraces() {
    const some = data.traces.length > 1;
    $("traces").hidden = !some;
    if (!some)
        return;
    const begin = Math.min(...data.traces.map(raw => raw.epoch_ns));
    $("traces-body").replaceChildren(...data.traces.map((raw, at) => {
        const line = document.createElement("tr"), peaks = raw.devices.length > 1 ? raw.devices.slice(1) : raw.devices;
        const perDevice = peaks.map((device, i) => (raw.devices.length > 1 ? `device ${device.device}: ` : "") +
            bytesText(peakOf(raw, raw.devices.length > 1 ? i + 1 : i)));
        const cells = [raw.file, raw.rank >= 0 ? raw.rank : "-", raw.host, raw.pid, timeText(raw.epoch_ns - begin), timeText(raw.end_ns), perDevice.join(", "),
                       countText(raw.failed), bytesText(raw.leaked_bytes) + (raw.finished === WHOLE ? "" : " live")];
        line.append(...cells.map((text, i) => {
            const cell = document.createElement("td");
            cell.textContent = text;
            cell.className = i ? "" : "text";
            return cell;
        }));
        line.tabIndex = 0;
        line.ariaSelected = String(at === state.at);
        line.trace = at;
        return line;
    }));
}

const peakOf = (raw, view) => {
    const next = decoder(raw.devices[view].intervals);
    let most = 0;
    for (let i = 0; i < raw.interval_count; i++) {
        next();
        most = Math.max(most, next());
        for (let rest = 0; rest < 4; rest++)
            next();
    }
    return most;
};
