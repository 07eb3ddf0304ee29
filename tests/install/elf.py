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


def needed_versions(path):
    """Version names that other libraries must have, GLIBC_2.17 and the like."""
    text = readelf('--version-info', path)
    needs = text[text.index('Version needs section'):] if 'Version needs section' in text else ''
    return set(re.findall(r'Name: (\S+)', needs))
