// The flame graph: outermost frames above. It adds up the selected series of the call sites.

const flame = {trace: null, tree: null, root: 0, boxes: [], values: null, cursor: 0};

function flameTree(trace) {
    const tree = {text: [-1], parent: [-1], depth: [0], leaf: []}, places = new Map();
    trace.stacks.forEach((stack, site) => {
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
        tree.leaf[site] = node;
    });
    tree.children = tree.text.map(() => []);
    for (let node = 1; node < tree.text.length; node++)
        tree.children[tree.parent[node]].push(node);
    tree.name = node => node ? trace.raw.texts[tree.text[node]] : "all call sites";
    tree.path = node => node ? tree.path(tree.parent[node]) + "\n" + tree.name(node) : "";
    return tree;
}

function flameValues(trace, tree, part, measure) {
    const values = new Float64Array(tree.text.length);
    part.sums[measure].forEach((value, series) => {
        if (trace.onDevice[series] || measure !== "at_peak")
            values[tree.leaf[trace.series.site[series]]] += value;
    });
    for (let node = values.length - 1; node > 0; node--)
        values[tree.parent[node]] += values[node];
    return values;
}

function hashColour(text, from, light) {
    let hash = 0;
    for (let i = 0; i < text.length; i++)
        hash = (hash * 31 + text.charCodeAt(i)) | 0;
    return `hsl(${from + Math.abs(hash) % 40} ${55 + Math.abs(hash >> 8) % 25}% ${light + Math.abs(hash >> 16) % 14}%)`;
}

function cut(text, width) {
    const room = Math.floor((width - 6) / 6.2);
    return text.length > room ? text.slice(0, Math.max(1, room - 1)) + "\u2026" : text;
}

// With a second trace, red frames have more than there and blue ones less.
function flameDifference() {
    const {other, otherPart} = state;
    if (!other)
        return null;
    const tree = flameTree(other), values = flameValues(other, tree, otherPart, $("measure").value), byPath = new Map();
    values.forEach((value, node) => byPath.set(tree.path(node), value));
    return node => flame.values[node] - (byPath.get(flame.tree.path(node)) || 0);
}

function showFlame() {
    const {trace, part} = state, words = searched();
    if (flame.trace !== trace)
        Object.assign(flame, {trace, tree: flameTree(trace), root: 0, cursor: 0});
    const {tree} = flame, values = flame.values = flameValues(trace, tree, part, $("measure").value);
    flame.difference = flameDifference();
    if (!values[flame.root])
        flame.root = 0;
    const canvas = $("flame"), width = canvas.clientWidth || 800;
    flame.boxes = [];
    let depth = 0;
    const place = (node, left, wide) => {
        const y = tree.depth[node] - tree.depth[flame.root];
        depth = Math.max(depth, y + 1);
        flame.boxes.push({node, left, wide, y});
        const children = tree.children[node].filter(child => values[child] > 0).sort((a, b) => values[b] - values[a] || a - b);
        for (const child of children) {
            const some = wide * values[child] / values[node];
            if (some >= 0.4)
                place(child, left, some);
            left += some;
        }
    };
    if (values[flame.root])
        place(flame.root, 0, width);
    const {draw} = surface(canvas, Math.max(LINE, depth * LINE));
    let found = 0;
    flame.boxes.forEach((box, at) => {
        const text = tree.name(box.node), hit = words && matches(text, words), y = box.y * LINE;
        draw.fillStyle = hit ? "#c77dff" : flame.difference ? differenceColour(box.node) : box.node ? hashColour(text, 20, 62) : "#cccccc";
        draw.fillRect(box.left, y, Math.max(box.wide - 0.5, 0.4), LINE - 1);
        found += Boolean(hit);
        if (box.wide > 30) {
            draw.fillStyle = "#111111";
            draw.fillText(cut(text, box.wide), box.left + 3, y + LINE / 2);
        }
        if (at === flame.cursor && document.activeElement === canvas) {
            draw.strokeStyle = colourOf("--text");
            draw.lineWidth = 2;
            draw.strokeRect(box.left + 1, y + 1, Math.max(1, box.wide - 3), LINE - 3);
        }
    });
    canvas.dataset.total = values[0];
    canvas.dataset.root = values[flame.root];
    canvas.dataset.found = found;
    $("flame-note").textContent = values[0] ? `${bytesText(values[flame.root])} of ${bytesText(values[0])}` + (words ? `, ${found} frames found` : "") +
        (flame.difference ? "; red frames have more than in the other trace, blue ones less" : "") : "none in the selection";
}

function differenceColour(node) {
    const change = flame.difference(node), share = Math.min(1, Math.abs(change) / Math.max(flame.values[node], 1));
    return change ? `hsl(${change > 0 ? 5 : 215} 75% ${90 - 30 * share}%)` : "#dddddd";
}

function flameLines(box) {
    const value = flame.values[box.node], lines = [flame.tree.name(box.node), `${bytesText(value)} (${countText(value)} bytes), ` +
        `${(100 * value / flame.values[0]).toPrecision(3)} %`];
    if (flame.difference)
        lines.push(`${signed(bytesText)(flame.difference(box.node))} against the other trace`);
    return lines;
}

const flameAt = event => flame.boxes.find(box => box.y === Math.floor(event.offsetY / LINE) && box.left <= event.offsetX &&
                                          event.offsetX < box.left + box.wide);

function openFrame(box) {
    flame.root = box ? box.node : 0;
    flame.cursor = 0;
    showFlame();
}

// Arrow keys walk along the frames, Enter opens one.
function flameKey(event) {
    const at = flame.boxes[flame.cursor];
    if (!at)
        return;
    const middle = at.left + at.wide / 2, row = flame.boxes.filter(box => box.y === at.y).sort((a, b) => a.left - b.left), place = row.indexOf(at);
    const to = {ArrowLeft: () => row[place - 1], ArrowRight: () => row[place + 1], ArrowUp: () => flame.boxes.find(box => box.node === flame.tree.parent[at.node]),
                ArrowDown: () => flame.boxes.filter(box => flame.tree.parent[box.node] === at.node)
                    .sort((a, b) => Math.abs(a.left + a.wide / 2 - middle) - Math.abs(b.left + b.wide / 2 - middle))[0]}[event.key];
    if (event.key === "Enter") {
        openFrame(at);
    } else if (event.key === "Escape") {
        openFrame(null);
    } else if (to) {
        flame.cursor = Math.max(0, flame.boxes.indexOf(to() || at));
        showFlame();
    } else {
        return;
    }
    event.preventDefault();
    event.stopPropagation();
    const box = flame.boxes[flame.cursor];
    if (box)
        $("spoken").textContent = flameLines(box).join(", ");
}
