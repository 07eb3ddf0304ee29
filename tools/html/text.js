// Numbers as text, and columns of numbers as the page holds them.

function bytesText(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let at = 0;
    for (; Math.abs(value) >= 1024 && at < units.length - 1; at++)
        value /= 1024;
    return (at ? value.toPrecision(Math.abs(value) >= 1000 ? 4 : 3) : String(value)) + " " + units[at];
}

function timeText(ns) {
    for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]])
        if (Math.abs(ns) >= size)
            return Number((ns / size).toPrecision(5)) + " " + unit;
    return Math.round(ns) + " ns";
}

const countText = value => value.toLocaleString("en-US");
const signed = form => value => (value > 0 ? "+" : value < 0 ? "\u2212" : "") + form(Math.abs(value));

function bytesTicks(min, max, pixels) {
    const rough = (max - min) / Math.max(2, pixels / 40), unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(rough, 1)) / 10));
    const step = unit * 2 ** Math.ceil(Math.log2(Math.max(rough / unit, 1))), ticks = [];
    for (let value = Math.ceil(min / step) * step; value <= max; value += step)
        ticks.push({v: value, label: bytesText(value).replace(/\.0+ /, " ")});
    return ticks;
}

function timeTicks(min, max, pixels) {
    const rough = (max - min) / Math.max(2, pixels / 90), power = 10 ** Math.floor(Math.log10(Math.max(rough, 1))), ticks = [];
    const step = [1, 2, 5, 10].map(factor => factor * power).find(value => value >= rough) || 10 * power;
    const [size, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(row => max >= row[0]) || [1, "ns"];
    for (let value = Math.ceil(min / step) * step; value <= max; value += step)
        ticks.push({v: value, label: Number((value / size).toPrecision(7)) + " " + unit});
    return ticks;
}

// Base64 of numbers in groups of 7 bits, the lowest first; the highest bit of a byte says that another one follows.
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
