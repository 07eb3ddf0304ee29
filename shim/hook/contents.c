/* Host memory may be unmapped at any moment by another thread, so gpumem does not read it itself. The kernel copies it
 * piece by piece into a memory file, which gpumem has mapped, and fails where the memory is not readable. The kernel
 * can read whatever the processor can read, also the pinned memory that the driver has mapped. */
#include "shim/hook/contents.h"

#include <sys/mman.h>

#include "shim/base/file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { WINDOW = 256 * 1024, PIECES = 64, CLOEXEC = 1 /* flag of memfd_create */ };

struct gather {
    int file;
    const char *window; /* the file's bytes */
    struct iovec pieces[PIECES];
    unsigned count;
    size_t bytes;
    bool readable;
    XXH3_state_t state;
};

static bool open_window(struct gather *g) {
    g->file = (int)syscall(SYS_memfd_create, "gpumem-copy", CLOEXEC);
    if (g->file < 0 || (g->file = gm_lift(g->file)) < 0)
        return false;
    g->window = mmap(NULL, WINDOW, PROT_READ, MAP_SHARED, g->file, 0);
    if (g->window != MAP_FAILED)
        return true;
    gm_close(g->file);
    return false;
}

static void close_window(struct gather *g) {
    munmap((void *)g->window, WINDOW);
    gm_close(g->file);
}

/* Only the bytes that were written are looked at: the window may be larger than the file. */
static void hash_pieces(struct gather *g) {
    g->readable = g->readable && gm_safe_pwritev(g->file, g->pieces, g->count, 0) == (ssize_t)g->bytes;
    if (g->readable)
        XXH3_64bits_update(&g->state, g->window, g->bytes);
    g->count = 0;
    g->bytes = 0;
}

static void gather_bytes(struct gather *g, uint64_t start, size_t bytes) {
    while (bytes && g->readable) {
        size_t part = bytes < WINDOW - g->bytes ? bytes : WINDOW - g->bytes;
        g->pieces[g->count++] = (struct iovec){(void *)(uintptr_t)start, part};
        g->bytes += part;
        start += part;
        bytes -= part;
        if (g->bytes == WINDOW || g->count == PIECES)
            hash_pieces(g);
    }
}

static bool has_gaps(const struct gm_host_rows *r) {
    return (r->height > 1 && r->pitch != r->width) || (r->depth > 1 && r->layer != r->width * r->height);
}

bool gm_contents_hash(const struct gm_host_rows *r, uint64_t *hash) {
    struct gather g = {.readable = true};
    bool gaps = has_gaps(r);
    if (!open_window(&g))
        return false;
    XXH3_64bits_reset_withSeed(&g.state, gaps ? r->pitch + r->layer * UINT64_C(0x9e3779b97f4a7c15) : 0);
    if (!gaps)
        gather_bytes(&g, r->start, r->width * r->height * r->depth);
    for (size_t z = 0; gaps && z < r->depth && g.readable; z++)
        for (size_t y = 0; y < r->height && g.readable; y++)
            gather_bytes(&g, r->start + z * r->layer + y * r->pitch, r->width);
    if (g.bytes)
        hash_pieces(&g);
    close_window(&g);
    *hash = g.readable ? XXH3_64bits_digest(&g.state) : 0;
    return g.readable;
}
