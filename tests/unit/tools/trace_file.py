"""Builds traces byte by byte from the published format, independently of the writer."""
import os
import struct

MAGIC = b"GPUMEM\r\n"
CHUNK_MAGIC = 0x4B4E4843
HEADER = 4096
ACTIONS = dict(alloc=1, alloc_fail=2, free=3, free_fail=4, release=5, reserve=6, unreserve=7, map=8, unmap=9,
               trim=10, drop=12, mark=13, context_gone=18, phase_begin=19, phase_end=20, copy_source=21, copy=22, pool_size=23, beyond=24, held=25,
               sum=26, peak=27, total=28, memory_error=31)
CALLS = dict(none=0, cuMemAlloc=1, cuMemAllocAsync=3, cuMemHostAlloc=7, cuMemAddressReserve=12, cuMemCreate=13, cuMemMap=14, cuMemFree=20, cuMemFreeAsync=21,
             cuMemFreeHost=22, cuMemAddressFree=26, cuMemRelease=27, cuMemUnmap=28, cuCtxDestroy=35)
KINDS = dict(native=0, async_=1, managed=2, host=4, array=5, vmm=6, cache=11, host_numa=12, mapped=13)
OUT_OF_MEMORY, CACHE_LIMIT, IDLE, TRIM_CALL = 13, 18, 19, 20  # as reasons
FENCE, PARTLY_USED = 21, 22
KEPT, SHARED = 4, 8  # as flags


def header(version=1, event_bytes=64, header_bytes=HEADER, chunk_bytes=262144, finished=1, dropped=0,
           pid=4242, rank=-1, epoch=2000, host=b"node7", file_bytes=0, summary_ns=0, limit=0, ring=0, program=b"/bin/solver",
           policy=b"auto", library=b"0.1.0"):
    text = struct.pack("<8sIIIIQQiiiIQ", MAGIC, version, header_bytes, chunk_bytes, event_bytes, 1000, epoch, pid, 1, rank,
                       finished, dropped)
    text += struct.pack("64s256s64s32sQQQQ", host, program, policy, library, file_bytes, summary_ns, limit, ring)
    return text.ljust(HEADER, b"\0")


def event(seq, time, action, call, address, size, kind="native", site=0, result=0, slack=0, duration=100, context=1,
          device=0, hit=0, reason=1, verdict="native", stream=0, flags=0):
    return struct.pack("<QQQQQIIIHbBBBBBHBB", seq, time, address, size, stream, slack, duration, site, context, device,
                       CALLS[call], ACTIONS[action], KINDS[kind], reason, KINDS[verdict], result, hit, flags)


def copy(seq, time, source, contents, address, size, hashed=True, result=0, **more):
    """The two events of a copy from host memory; takes two numbers from `seq` on."""
    return (event(seq, time, "copy_source", "none", source, contents, result=0 if hashed else 1, duration=40, site=more.get("site", 0)) +
            event(seq + 1, time, "copy", "none", address, size, result=result, **more))


def chunk(payload, thread=100, kind=1, used=None, size=None):
    size = size or (64 + len(payload) + 4095) // 4096 * 4096
    used = len(payload) if used is None else used
    return (struct.pack("<IHHiII44x", CHUNK_MAGIC, kind, 0, thread, used, size) + payload).ljust(size, b"\0")


def number(difference, bits=64):
    """A difference of packed words as a number with sign, in groups of 7 bits."""
    half = 1 << bits - 1
    difference = (difference + half) % (2 * half) - half
    value, out = (2 * difference if difference >= 0 else -2 * difference - 1), b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def packed(events, thread=100):
    """A chunk of packed events."""
    before, last, out = (0, 0), [(0,) * 8, (0,) * 8], b""
    for at in range(0, len(events), 64):
        words = struct.unpack("<8Q", events[at:at + 64])
        which = words[7] >> 1 & 1
        old, bits = last[which], which
        parts = number(words[1] - before[1])
        if words[0] != before[0] + 1:
            bits, parts = bits | 2, number(words[0] - before[0] - 1) + parts
        for place in range(2, 8):
            if words[place] != old[place]:
                bits |= 1 << place
                parts += number(words[place] - old[place], 32) + number((words[place] >> 32) - (old[place] >> 32), 32) \
                    if place == 5 else number(words[place] - old[place])
        out += bytes([bits]) + parts
        before, last[which] = words[:2], words
    return chunk(out, thread=thread, kind=3)


def _record(kind, body):
    body = body.ljust((len(body) + 7) // 8 * 8, b"\0")
    return struct.pack("<IHH", 8 + len(body), kind, 0) + body


def site(number, frames, outside=0):
    return _record(2, struct.pack("<IHH", number, len(frames), outside) + struct.pack("<%dQ" % len(frames), *frames))


def module(base, start, limit, path, build_id=b""):
    padded, path = build_id.ljust((len(build_id) + 7) // 8 * 8, b"\0"), os.fsencode(path)
    return _record(1, struct.pack("<QQQII", base, start, limit, len(build_id), len(path)) + padded + path)


def string(number, text):
    return _record(5, struct.pack("<II", number, len(text)) + text)


def python(number, line, function, file):
    padded = function.ljust((len(function) + 7) // 8 * 8, b"\0")
    return _record(6, struct.pack("<IiII", number, line, len(function), len(file)) + padded + file)


PYTHON_FRAME = 0x5059 << 48  # a frame of a site: this plus the number


def device(number, total, name):
    name = os.fsencode(name)
    return _record(3, struct.pack("<iIQ", number, len(name), total) + name)


def sample():
    """Two threads, a leak, a leak of cublas, a temporary block, a failure, blocks gone with a context."""
    M = 1 << 20
    records = (device(0, 80 << 30, "Test GPU") + module(0x10000, 0x10000, 0x20000, "/opt/none/app") +
               module(0x50000, 0x50000, 0x60000, "/opt/none/libcublas.so.13") + site(1, [0x10123]) + site(2, [0x50010]) +
               site(3, [0x10456, 0x10789]))
    a = [event(1, 1000, "alloc", "cuMemAlloc", 0x1000, 4 * M, site=1, slack=M),
         event(2, 2000, "alloc", "cuMemAllocAsync", 0x2000, 2 * M, kind="async_", site=3),
         event(3, 2500, "free", "cuMemFree", 0x2000, 2 * M, kind="async_"),
         event(6, 9000000, "alloc", "cuMemAlloc", 0x3000, 8 * M, site=3),
         event(7, 9500000, "alloc_fail", "cuMemAlloc", 0, 1 << 40, site=3, result=2),
         event(9, 20000000, "free", "cuMemFree", 0x3000, 8 * M)]
    b = [event(4, 3000, "alloc", "cuMemAlloc", 0x5000, M, site=2),
         event(5, 4000, "alloc", "cuMemHostAlloc", 0x6000, 512, kind="host", site=1),
         event(8, 10000000, "alloc", "cuMemAlloc", 0x7000, 3 * M, site=1, context=2, hit=1),
         event(10, 21000000, "release", "cuCtxDestroy", 0x7000, 3 * M, context=2),
         event(11, 22000000, "free", "cuMemFree", 0x9999, 0)]
    return header() + chunk(records, kind=2) + chunk(b"".join(a), thread=100) + chunk(b"".join(b), thread=101)
