/* All backings in a list with one lock. Registering and unregistering hold no lock (backing.h). */
#include "shim/resource/backing.h"

#include <sys/mman.h>

#include "shim/driver/internal_stream.h"

static struct gm_backing *all, *unowned;
static uint64_t registered; /* bytes */
GM_LOCK(lock);              /* of the lists, and of the owners */
GM_ZERO_IN_CHILD(all);
GM_ZERO_IN_CHILD(unowned);
GM_ZERO_IN_CHILD(registered);

static size_t pieces_of(size_t size) { return (size + GM_SUSPENDABLE_PIECE - 1) / GM_SUSPENDABLE_PIECE; }

static size_t piece_bytes(const struct gm_backing *backing, size_t piece) {
    size_t rest = backing->size - piece * GM_SUSPENDABLE_PIECE;
    return rest < GM_SUSPENDABLE_PIECE ? rest : GM_SUSPENDABLE_PIECE;
}

/* Huge pages begin at their multiples. A child of a fork does not get the memory: its copy would be another one than
 * the registered one. */
static char *huge_pages(size_t size) {
    size_t wide = size + GM_SUSPENDABLE_PAGE;
    char *memory = mmap(NULL, wide, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)memory % GM_SUSPENDABLE_PAGE;
    if (before)
        munmap(memory, before);
    munmap(memory + before + size, wide - before - size);
    madvise(memory + before, size, MADV_HUGEPAGE);
    madvise(memory + before, size, MADV_DONTFORK);
    return memory + before;
}

static void unmap(struct gm_backing *backing) {
    if (backing->memory)
        munmap(backing->memory, backing->size);
    if (backing->pages)
        munmap(backing->pages, gm_backing_pages(backing) * sizeof *backing->pages);
    if (backing->pieces)
        munmap(backing->pieces, pieces_of(backing->size) * sizeof *backing->pieces);
    gm_backing_file_leave(backing->file);
    munmap(backing, sizeof *backing);
}

struct gm_backing *gm_backing_create(size_t size, int device, struct gm_backing_file *file) {
    struct gm_backing *backing = gm_pages(sizeof *backing);
    if (!backing)
        return NULL;
    *backing = (struct gm_backing){.file = file, .size = size, .device = device, .owners = 1};
    if (file) {
        backing->place = file->size;
        file->size += size;
        __atomic_add_fetch(&file->users, 1, __ATOMIC_RELAXED);
    } else {
        backing->memory = huge_pages(size);
    }
    backing->pages = gm_pages(gm_backing_pages(backing) * sizeof *backing->pages);
    backing->pieces = gm_pages(pieces_of(size) * sizeof *backing->pieces);
    if ((!backing->memory && !file) || !backing->pages || !backing->pieces) {
        unmap(backing);
        return NULL;
    }
    gm_spin_lock(&lock);
    backing->next = all;
    all = backing;
    gm_spin_unlock(&lock);
    return backing;
}

void gm_backing_give(struct gm_backing *backing) {
    struct gm_backing **at = &all;
    if (!backing)
        return;
    gm_spin_lock(&lock);
    if (!--backing->owners) {
        while (*at != backing)
            at = &(*at)->next;
        *at = backing->next;
        backing->next = unowned;
        unowned = backing;
    }
    gm_spin_unlock(&lock);
}

uint64_t gm_backing_stored(const struct gm_backing *backing) {
    uint64_t stored = 0;
    for (size_t i = 0; i < gm_backing_pages(backing); i++)
        stored += backing->pages[i].state == GM_PAGE_STORED ? GM_SUSPENDABLE_PAGE : 0;
    return stored;
}

bool gm_backing_exists(void) { return __atomic_load_n(&all, __ATOMIC_RELAXED); }
uint64_t gm_backing_registered(void) { return __atomic_load_n(&registered, __ATOMIC_RELAXED); }

/* ---- registration. It may end with its context. */

static bool has_registered(const struct gm_backing *backing) {
    for (size_t i = 0; i < pieces_of(backing->size); i++)
        if (backing->pieces[i].context_id)
            return true;
    return false;
}

/* Where its context has ended, any other of the device does. */
static gm_status enter_for(const struct gm_backing *backing, const struct gm_backing_piece *piece,
                           struct gm_context_held *held) {
    struct gm_context context;
    gm_status status = gm_context_enter_held(piece->context, piece->context_id, held);
    return status != CUDA_ERROR_CONTEXT_IS_DESTROYED  ? status
           : gm_context_on(backing->device, &context) ? gm_context_enter_held(context.handle, context.id, held)
                                                      : status;
}

static gm_status unregister(struct gm_backing *backing, size_t number) {
    struct gm_backing_piece *piece = &backing->pieces[number];
    struct gm_context_held held;
    gm_status status = enter_for(backing, piece, &held);
    if (status)
        return status;
    status = gm_drv.mem_host_unregister(backing->memory + number * GM_SUSPENDABLE_PIECE);
    gm_context_leave_held(&held);
    if (status && status != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
        return status;
    piece->context_id = 0;
    __atomic_sub_fetch(&registered, piece_bytes(backing, number), __ATOMIC_RELAXED);
    return GM_OK;
}

/* Takes one out of the list. */
static struct gm_backing *take_unowned(bool idle) {
    gm_spin_lock(&lock);
    struct gm_backing **at = &unowned;
    while (*at && !idle && has_registered(*at))
        at = &(*at)->next;
    struct gm_backing *backing = *at;
    if (backing)
        *at = backing->next;
    gm_spin_unlock(&lock);
    return backing;
}

bool gm_backing_sweep(bool idle) {
    struct gm_backing *backing = take_unowned(idle);
    size_t number = 0;
    if (!backing)
        return false;
    if (!has_registered(backing)) {
        unmap(backing);
        return true;
    }
    while (!backing->pieces[number].context_id)
        number++;
    bool done = !unregister(backing, number);
    gm_spin_lock(&lock);
    backing->next = unowned;
    unowned = backing;
    gm_spin_unlock(&lock);
    return done;
}

bool gm_backing_waits(void) { return __atomic_load_n(&unowned, __ATOMIC_RELAXED); }

/* Huge pages that hold nothing would be filled for it. */
static bool is_full(const struct gm_backing *backing, size_t number) {
    size_t first = number * (GM_SUSPENDABLE_PIECE / GM_SUSPENDABLE_PAGE);
    size_t pages = piece_bytes(backing, number) / GM_SUSPENDABLE_PAGE;
    for (size_t i = first; i < first + pages; i++)
        if (backing->pages[i].state != GM_PAGE_STORED)
            return false;
    return true;
}

static bool find_piece(struct gm_backing *backing, size_t *number) {
    for (*number = 0; backing->memory && *number < pieces_of(backing->size); ++*number) {
        const struct gm_backing_piece *piece = &backing->pieces[*number];
        if (!piece->context_id && !piece->refused && is_full(backing, *number))
            return true;
    }
    return false;
}

/* The backing has one more owner then. */
static struct gm_backing *find_work(size_t *number) {
    gm_spin_lock(&lock);
    struct gm_backing *backing = all;
    while (backing && !find_piece(backing, number))
        backing = backing->next;
    if (backing)
        backing->owners++;
    gm_spin_unlock(&lock);
    return backing;
}

static void register_piece(struct gm_backing *backing, size_t number) {
    struct gm_backing_piece *piece = &backing->pieces[number];
    struct gm_context context;
    struct gm_context_held held;
    size_t bytes = piece_bytes(backing, number);
    piece->refused = true;
    if (!gm_context_on(backing->device, &context) || gm_context_enter_held(context.handle, context.id, &held))
        return;
    if (!gm_drv.mem_host_register(backing->memory + number * GM_SUSPENDABLE_PIECE, bytes,
                                  CU_MEMHOSTREGISTER_PORTABLE)) {
        piece->refused = false;
        piece->context = context.handle;
        __atomic_add_fetch(&registered, bytes, __ATOMIC_RELAXED);
        __atomic_store_n(&piece->context_id, context.id, __ATOMIC_RELEASE);
    }
    gm_context_leave_held(&held);
}

bool gm_backing_register(uint64_t most) {
    size_t number;
    struct gm_backing *backing = gm_backing_registered() + GM_SUSPENDABLE_PIECE <= most ? find_work(&number) : NULL;
    if (backing)
        register_piece(backing, number);
    gm_backing_give(backing);
    return backing != NULL;
}
