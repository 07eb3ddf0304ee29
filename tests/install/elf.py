"""What a shared library needs and offers, as readelf tells it."""
import collections
import re
import subprocess

Symbol = collections.namedtuple('Symbol', 'name version defined')


def readelf(*args):
    return subprocess.run(['readelf', '-W', *args], check=True, capture_output=True, text=True,
                          env={'LC_ALL': 'C', 'PATH': '/usr/bin:/bin'}).stdout


def dynamic(path, tag):
    return re.findall(r'\(%s\).*\[(.*)\]' % tag, readelf('-d', path))


def symbols(path):
    """Global and weak dynamic symbols; a version node (absolute) is none."""
    found = []
    for line in readelf('--dyn-syms', path).splitlines():
        field = line.split()
        if len(field) < 8 or field[4] not in ('GLOBAL', 'WEAK', 'UNIQUE') or field[6] == 'ABS':
            continue
        name, _, version = field[7].replace('@@', '@').partition('@')
        found.append(Symbol(name, version, field[6] != 'UND'))
    return found


def thread_local_bytes(path):
    """Of each thread, out of the reserve for libraries that are loaded late."""
    sizes = re.findall(r'^ +TLS +\S+ \S+ \S+ \S+ (0x[0-9a-f]+) ', readelf('-l', path), re.MULTILINE)
    return sum(int(size, 16) for size in sizes)


def hardening_faults(path, checks_calls=True):
    """What an attacker who found an error could use, one line each. `checks_calls`: compiled with _FORTIFY_SOURCE."""
    tags, segments = readelf('-d', path), readelf('-l', path)
    imported = {s.name for s in symbols(path) if not s.defined}
    if not re.search(r'\(FLAGS(_1)?\).*\b(BIND_)?NOW\b', tags):
        yield 'binds functions late'
    if 'GNU_RELRO' not in segments:
        yield 'has relocations that stay writable'
    for tag in ('TEXTREL', 'RPATH', 'RUNPATH'):
        if re.search(r'\(%s\)|\b%s\b' % (tag, tag), tags):
            yield f'has {tag}'
    stack = re.search(r'GNU_STACK +\S+ \S+ \S+ \S+ \S+ ([RWE ]+) 0x', segments)
    if not stack or 'E' in stack[1]:
        yield 'has an executable stack'
    if any('W' in flags and 'E' in flags for flags in re.findall(r'LOAD +\S+ \S+ \S+ \S+ \S+ ([RWE ]+) 0x', segments)):
        yield 'has a segment that is writable and executable'
    if '(Shared object file)' not in readelf('-h', path) and '(Position-Independent Executable file)' not in readelf('-h', path):
        yield 'is no position-independent code'
    if '__stack_chk_fail' not in imported:
        yield 'has no stack protector'
    if checks_calls and not any(re.fullmatch('__.*_chk', name) for name in imported):
        yield 'checks no calls of the C library'


def needed_versions(path):
    """Version names that other libraries must have, GLIBC_2.17 and the like."""
    text = readelf('--version-info', path)
    needs = text[text.index('Version needs section'):] if 'Version needs section' in text else ''
    return set(re.findall(r'Name: (\S+)', needs))
