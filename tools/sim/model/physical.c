/* Physical memory of a device: one sparse file, counted in 2 MiB extents, seen through two windows of
 * addresses (device and managed).  Small allocations share an extent in 512-byte grains.  Freed addresses are
 * reused last in, first out, so that a client that reuses too early is seen. */
#include "sim.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

struct sim_device sim_devices[SIM_MAX_DEVICES];

struct sim_piece {
    struct sim_extent *extent;
    size_t offset, size;
    bool free;
    struct sim_piece *prev, *next;   /* neighbours in the extent */
    struct sim_piece *older, *newer; /* free pieces of a window, newest first */
};
static struct sim_piece *newest[SIM_MAX_DEVICES][2];

static CUresult open_window(struct sim_device *d, int k, size_t size) {
    struct sim_window *w = &d->window[k];
    int prot_all = PROT_NONE;
    w->size = size;
    w->va = mmap(NULL, size + SIM_CHUNK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (w->va == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    w->va = (char *)SIM_ROUND((uintptr_t)w->va, SIM_CHUNK);
    w->alias = w->va;
    if (sim_opt.strict && k == 0) {
        w->alias = mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, d->fd, 0);
        return w->alias == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    }
    void *p = mmap(w->va, size, prot_all, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, d->fd, 0);
    return p == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static void raise_file_limit(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max < 65536 ? r.rlim_max : 65536;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

CUresult sim_devices_start(void) {
    raise_file_limit();
    size_t size = sim_opt.memory * 4 > ((size_t)16 << 30) ? sim_opt.memory * 4 : (size_t)16 << 30;
    size = SIM_ROUND(size, SIM_CHUNK);
    for (int i = 0; i < sim_opt.devices; i++) {
        struct sim_device *d = &sim_devices[i];
        d->ordinal = i;
        d->fd = memfd_create("simcuda-device", MFD_CLOEXEC);
        if (d->fd < 0 || ftruncate(d->fd, (off_t)size) != 0)
            return CUDA_ERROR_OUT_OF_MEMORY;
        SIM_TRY(open_window(d, 0, size));
        SIM_TRY(open_window(d, 1, size));
        d->free_extents = calloc(1, sizeof *d->free_extents);
        *d->free_extents = (struct sim_extent){.device = d, .size = size};
    }
    return CUDA_SUCCESS;
}

uintptr_t sim_extent_va(const struct sim_extent *e) { return (uintptr_t)e->device->window[e->window].va + e->offset; }

static void protect(const struct sim_extent *e, int prot) {
    const struct sim_window *w = &e->device->window[e->window];
    mprotect(w->alias + e->offset, e->size, prot);
}

bool sim_has_room(struct sim_device *d, uint64_t bytes) {
    if (bytes > sim_free_bytes(d))
        sim_pools_squeeze(d);
    return bytes <= sim_free_bytes(d);
}

CUresult sim_extent_take(struct sim_device *d, size_t size, int window, struct sim_extent **out) {
    size = SIM_ROUND(size, SIM_CHUNK);
    bool beyond = window && d->used + size <= sim_opt.memory + sim_opt.beyond;
    if (size == 0 || (!sim_has_room(d, size) && !beyond))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_extent **link = &d->free_extents, *e;
    while (*link && (*link)->size < size)
        link = &(*link)->next;
    if (!*link || !(e = calloc(1, sizeof *e)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_extent *f = *link;
    *e = (struct sim_extent){.device = d, .offset = f->offset, .size = size, .window = window, .used = true};
    f->offset += size;
    f->size -= size;
    if (f->size == 0) {
        *link = f->next;
        free(f);
    }
    d->used += size;
    sim_card_tell(d);
    if (d->used > d->peak)
        d->peak = d->used;
    protect(e, PROT_READ | PROT_WRITE);
    *out = e;
    return CUDA_SUCCESS;
}

/* Joins e with the free neighbours it has; the result is the first to be reused. */
void sim_extent_give(struct sim_extent *e) {
    struct sim_device *d = e->device;
    protect(e, PROT_NONE);
    fallocate(d->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)e->offset, (off_t)e->size);
    d->used -= e->size;
    sim_card_tell(d);
    e->used = false;
    for (struct sim_extent **link = &d->free_extents; *link;) {
        struct sim_extent *f = *link;
        if (f->offset + f->size == e->offset || e->offset + e->size == f->offset) {
            e->offset = f->offset < e->offset ? f->offset : e->offset;
            e->size += f->size;
            *link = f->next;
            free(f);
        } else {
            link = &f->next;
        }
    }
    e->next = d->free_extents;
    d->free_extents = e;
}

static void piece_list(struct sim_piece *p) {
    struct sim_piece **head = &newest[p->extent->device->ordinal][p->extent->window];
    p->free = true;
    p->newer = NULL;
    p->older = *head;
    if (*head)
        (*head)->newer = p;
    *head = p;
}

static void piece_unlist(struct sim_piece *p) {
    struct sim_piece **head = &newest[p->extent->device->ordinal][p->extent->window];
    if (p->newer)
        p->newer->older = p->older;
    else
        *head = p->older;
    if (p->older)
        p->older->newer = p->newer;
    p->free = false;
}

static CUresult piece_take(struct sim_device *d, int window, size_t size, struct sim_piece **out) {
    struct sim_piece *p = newest[d->ordinal][window];
    while (p && p->size < size)
        p = p->older;
    if (!p) {
        struct sim_extent *e;
        SIM_TRY(sim_extent_take(d, SIM_CHUNK, window, &e));
        p = e->pieces = calloc(1, sizeof *p);
        *p = (struct sim_piece){.extent = e, .size = SIM_CHUNK};
        piece_list(p);
    }
    piece_unlist(p);
    if (p->size > size) {
        struct sim_piece *rest = calloc(1, sizeof *rest);
        *rest = (struct sim_piece){
            .extent = p->extent, .offset = p->offset + size, .size = p->size - size, .prev = p, .next = p->next};
        if (p->next)
            p->next->prev = rest;
        p->next = rest;
        p->size = size;
        piece_list(rest);
    }
    *out = p;
    return CUDA_SUCCESS;
}

static void piece_join_next(struct sim_piece *p) {
    struct sim_piece *n = p->next;
    piece_unlist(n);
    p->size += n->size;
    p->next = n->next;
    if (n->next)
        n->next->prev = p;
    free(n);
}

static void piece_give(struct sim_piece *p) {
    if (p->next && p->next->free)
        piece_join_next(p);
    if (p->prev && p->prev->free) {
        struct sim_piece *before = p->prev;
        before->size += p->size;
        before->next = p->next;
        if (p->next)
            p->next->prev = before;
        free(p);
        p = before;
        piece_unlist(p);
    }
    struct sim_extent *e = p->extent;
    if (p->size == SIM_CHUNK) {
        e->pieces = NULL;
        free(p);
        sim_extent_give(e);
        return;
    }
    piece_list(p);
}

CUresult sim_native_alloc(struct sim_ctx *ctx, size_t size, int window, struct sim_block **out) {
    struct sim_extent *e = NULL;
    struct sim_piece *p = NULL;
    uintptr_t addr;
    if (size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (size > sim_opt.memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (size < SIM_SMALL) {
        SIM_TRY(piece_take(ctx->device, window, SIM_ROUND(size, SIM_GRAIN), &p));
        e = p->extent;
        addr = sim_extent_va(e) + p->offset;
    } else {
        SIM_TRY(sim_extent_take(ctx->device, size, window, &e));
        addr = sim_extent_va(e);
    }
    struct sim_block *b = sim_block_new(addr, size, window ? KIND_MANAGED : KIND_NATIVE, ctx->device);
    b->ctx = ctx;
    b->extent = e;
    b->reserved = p ? p->size : e->size;
    b->access = window ? ~0u : 1u << ctx->device->ordinal;
    *out = b;
    return CUDA_SUCCESS;
}

/* The caller has waited already.  Bytes that stay mapped are poisoned. */
void sim_block_untrim(struct sim_block *b) {
    if (!b->trimmed)
        return;
    b->trimmed = false;
    b->device->used += b->reserved;
    b->device->graph_used += b->reserved;
}

void sim_native_free(struct sim_block *b) {
    struct sim_extent *e = b->extent;
    sim_block_untrim(b);
    if (!e->pieces) {
        sim_block_gone(b);
        sim_extent_give(e);
        return;
    }
    struct sim_piece *p = e->pieces;
    unsigned in_use = 0;
    for (const struct sim_piece *x = p; x; x = x->next)
        in_use += !x->free;
    if (in_use > 1) /* else the whole extent is unmapped at once */
        memset(sim_alias(b->addr), 0xDB, b->reserved);
    while (sim_extent_va(e) + p->offset != b->addr)
        p = p->next;
    sim_block_gone(b);
    piece_give(p);
}
