/* Walks the entries of a fat binary and unpacks those that a device of this machine may run. */
#include "shim/hook/fatbin.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/hook/unpack.h"

struct container {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* behind the header */
};

struct entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes; /* behind the header, with padding */
    uint32_t packed_bytes, options;
    uint16_t minor, major; /* of the code's format */
    uint32_t arch, name, name_bytes;
    uint64_t flags, key, unpacked_bytes;
};

enum { PTX = 1, CUBIN = 2 };                              /* kinds */
enum { LZ4 = 1 << 13, ZSTD = 1 << 15, HIDDEN = 1 << 16 }; /* flags; HIDDEN: encrypted */
#define MOST_UNPACKED ((uint64_t)1 << 30)

/* Before compute capability 10.0 a cubin runs on devices of its own major number and no smaller minor one, and PTX on
 * devices of no smaller number. Later cubins can be finalised for other devices, and numbers were changed (10.1 became
 * 11.0), so all of them count for all later devices. */
static bool may_run(const struct entry *entry, const struct gm_capabilities *devices) {
    enum { LATER = 100 };
    bool runs = devices->count == 0;
    for (unsigned i = 0; i < devices->count && !runs; i++) {
        unsigned device = devices->of[i];
        runs = entry->arch >= LATER ? device >= LATER
                                    : device >= entry->arch && (entry->kind == PTX || device / 10 == entry->arch / 10);
    }
    return runs;
}

static bool unpacked_has(const struct entry *entry, const uint8_t *code,
                         bool (*finds)(const void *code, size_t size, bool is_text)) {
    uint64_t size = entry->unpacked_bytes, packing = entry->flags & (LZ4 | ZSTD);
    if (entry->packed_bytes > entry->bytes || size == 0 || size > MOST_UNPACKED || (packing != LZ4 && packing != ZSTD))
        return true;
    void *room = gm_pages(size);
    if (!room)
        return true;
    bool whole = packing == LZ4 ? gm_unpack_lz4(code, entry->packed_bytes, room, size)
                                : gm_unpack_zstd(code, entry->packed_bytes, room, size);
    bool has = !whole || finds(room, size, entry->kind == PTX);
    munmap(room, size);
    return has;
}

static bool entry_has(const struct entry *entry, const uint8_t *code, const struct gm_capabilities *devices,
                      bool (*finds)(const void *code, size_t size, bool is_text)) {
    if (entry->bytes == 0)
        return false;
    if ((entry->kind != PTX && entry->kind != CUBIN) || entry->flags & HIDDEN)
        return true;
    if (!may_run(entry, devices))
        return false;
    if (entry->packed_bytes || entry->unpacked_bytes || entry->flags & (LZ4 | ZSTD))
        return unpacked_has(entry, code, finds);
    return finds(code, entry->bytes, entry->kind == PTX);
}

bool gm_fatbin_has(const void *fat, size_t limit, const struct gm_capabilities *devices,
                   bool (*finds)(const void *code, size_t size, bool is_text)) {
    struct container container;
    struct entry entry;
    if (limit < sizeof container)
        return true;
    memcpy(&container, fat, sizeof container);
    if (container.magic != GM_FATBIN_MAGIC || container.version != 1 || container.header_bytes < sizeof container ||
        container.header_bytes > limit || container.bytes > limit - container.header_bytes)
        return true;
    const uint8_t *at = (const uint8_t *)fat + container.header_bytes;
    for (uint64_t left = container.bytes; left; at += entry.header_bytes + entry.bytes) {
        if (left < sizeof entry)
            return true;
        memcpy(&entry, at, sizeof entry);
        if (entry.header_bytes < sizeof entry || entry.header_bytes > left || entry.bytes > left - entry.header_bytes)
            return true;
        if (entry_has(&entry, at + entry.header_bytes, devices, finds))
            return true;
        left -= entry.header_bytes + entry.bytes;
    }
    return false;
}
