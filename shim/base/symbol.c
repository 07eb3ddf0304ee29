/* Reads a symbol table by pread(2) in pieces (symbol.h). A mapped file that another process shortens would end this one
 * by a bus error. */
#include "shim/base/symbol.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/base/file.h"

enum { SECTIONS = 256, SYMBOLS = 2048 };

struct search {
    int fd;
    uint64_t address;
    ElfW(Ehdr) head;
    ElfW(Shdr) sections[SECTIONS];
    ElfW(Sym) symbols[SYMBOLS];
};

static bool read_at(int fd, void *data, size_t bytes, uint64_t offset) {
    return gm_pread(fd, data, bytes, offset) == (ssize_t)bytes;
}

static bool read_sections(struct search *s) {
    return read_at(s->fd, &s->head, sizeof s->head, 0) && !memcmp(s->head.e_ident, ELFMAG, SELFMAG) &&
           s->head.e_shentsize == sizeof(ElfW(Shdr)) && s->head.e_shnum && s->head.e_shnum <= SECTIONS &&
           read_at(s->fd, s->sections, s->head.e_shnum * sizeof(ElfW(Shdr)), s->head.e_shoff);
}

static bool contains(const ElfW(Sym) * symbol, uint64_t address) {
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
           address - symbol->st_value < symbol->st_size;
}

static bool read_name(const struct search *s, const ElfW(Shdr) * strings, const ElfW(Sym) * symbol, char *name,
                      size_t size) {
    if (symbol->st_name >= strings->sh_size)
        return false;
    uint64_t remaining = strings->sh_size - symbol->st_name;
    size_t bytes = remaining < size - 1 ? (size_t)remaining : size - 1;
    ssize_t got = gm_pread(s->fd, name, bytes, strings->sh_offset + symbol->st_name);
    name[got > 0 ? got : 0] = '\0';
    return name[0] != '\0';
}

static bool search_table(struct search *s, const ElfW(Shdr) * table, char *name, size_t size) {
    uint64_t count = table->sh_size / sizeof(ElfW(Sym));
    if (table->sh_link >= s->head.e_shnum)
        return false;
    for (uint64_t first = 0; first < count; first += SYMBOLS) {
        uint64_t some = count - first < SYMBOLS ? count - first : SYMBOLS;
        if (!read_at(s->fd, s->symbols, some * sizeof(ElfW(Sym)), table->sh_offset + first * sizeof(ElfW(Sym))))
            return false;
        for (uint64_t i = 0; i < some; i++)
            if (contains(&s->symbols[i], s->address))
                return read_name(s, &s->sections[table->sh_link], &s->symbols[i], name, size);
    }
    return false;
}

/* The full table first; a stripped file has only the dynamic one. */
static bool search_file(struct search *s, char *name, size_t size) {
    static const uint32_t types[] = {SHT_SYMTAB, SHT_DYNSYM};
    if (!read_sections(s))
        return false;
    for (unsigned t = 0; t < 2; t++)
        for (unsigned i = 0; i < s->head.e_shnum; i++)
            if (s->sections[i].sh_type == types[t] && search_table(s, &s->sections[i], name, size))
                return true;
    return false;
}

bool gm_symbol_find(const char *path, uint64_t address, char *name, size_t size) {
    struct search *s = gm_pages(sizeof *s);
    bool found = false;
    if (!s)
        return false;
    s->address = address;
    s->fd = gm_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (s->fd >= 0) {
        found = search_file(s, name, size);
        gm_close(s->fd);
    }
    munmap(s, sizeof *s);
    return found;
}
