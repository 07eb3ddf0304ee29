"""Builds shared libraries byte by byte that have a symbol table with any names in it, and any sections besides."""
import struct

BASE, FUNCTION, LENGTH = 0, 0x1000, 0x100  # of the first function; the next ones follow


def library(names, sections=()):
    """The functions lie one behind the other from FUNCTION on. `sections`: pairs of a name and bytes."""
    strings, symbols, shnames = b"\0", struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0), b"\0"
    for at, name in enumerate(names):
        symbols += struct.pack("<IBBHQQ", len(strings), 0x12, 0, 1, FUNCTION + at * LENGTH, LENGTH)  # global function
        strings += name + b"\0"
    text = b"\xc3" * (LENGTH * len(names))
    parts = [(b".text", 1, 6, FUNCTION, text, 0, 0, 0), (b".symtab", 2, 0, 0, symbols, 3, 1, 24), (b".strtab", 3, 0, 0, strings, 0, 0, 0)]
    parts += [(name, 1, 0, 0, data, 0, 0, 0) for name, data in sections]
    parts += [(b".shstrtab", 3, 0, 0, None, 0, 0, 0)]
    body, headers = b"", b"\0" * 64
    for name, kind, flags, address, data, link, info, size in parts:
        offset, place = len(shnames), FUNCTION + len(body)
        shnames += name + b"\0"
        data = shnames if data is None else data
        headers += struct.pack("<IIQQQQIIQQ", offset, kind, flags, address, place, len(data), link, info, 1, size)
        body += data.ljust(-(-len(data) // 16) * 16, b"\0")
    at = FUNCTION + len(body)
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, at, 0, 64, 56, 1, 64, len(parts) + 1, len(parts))
    head += struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, FUNCTION + len(text), FUNCTION + len(text), 0x1000)
    return head.ljust(FUNCTION, b"\0") + body + headers
