/* Writes, copies and compares the pattern beside guarded blocks (guard_pattern.h). */
#include "shim/resource/guard_pattern.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/base/events.h"
#include "shim/accounts/stats.h"
#include "shim/driver/event.h"
#include "shim/driver/internal_stream.h"
#include "shim/resource/guard_scan.h"

#define MOST_PITCH ((uint64_t)INT32_MAX) /* CU_DEVICE_ATTRIBUTE_MAX_PITCH of all devices so far */
#define NOBODY     UINT64_MAX            /* no block has this address */
#define NEAR       GM_GUARD_NEAR
enum { CONTEXTS = 16, COPIES = 32, FIRST = 64 };

bool gm_guard_compares_all;

/* Within the capture guard. The context is current. */
static gm_status private_stream(const struct gm_guard_block *block, CUstream *stream) {
    struct gm_internal internal;
    if (!gm_internal_of((CUcontext)(uintptr_t)block->context, block->context_id, block->device, &internal))
        return GM_NOT_SUPPORTED;
    return gm_internal_stream(&internal, GM_INTERNAL_ALLOC, stream);
}

/* Work that the program submits after the allocation must not begin before the pattern is written, which would cover
 * the damage. So the allocation waits, unless work of the program held up the last pattern and still does. */
gm_status gm_guard_pattern_write(const struct gm_guard_block *block) {
    static bool held_up;
    CUstream stream;
    gm_status status = private_stream(block, &stream);
    bool waits = !status && (!__atomic_load_n(&held_up, __ATOMIC_RELAXED) || !gm_drv.stream_query(stream));
    for (int before = 0; before < 2 && !status; before++) {
        struct gm_guard_bytes side = gm_guard_side_of(block, before);
        if (side.size)
            status = (gm_status)gm_drv.memset_d8_async(side.address, GM_GUARD_PATTERN, side.size, stream);
        if (status && before)
            (void)gm_drv.stream_synchronize(stream);
    }
    if (!status && waits)
        __atomic_store_n(&held_up, gm_internal_stream_ask(stream, GM_GUARD_PATIENTLY) == CUDA_ERROR_NOT_READY,
                         __ATOMIC_RELAXED);
    return status;
}

/* The context is current, and is not destroyed before leave(). */
struct entered {
    CUstreamCaptureMode mode;
    CUstream stream; /* the private one */
    struct gm_context_held context;
};

static void leave(const struct entered *entered) {
    gm_capture_guard_leave(entered->mode);
    gm_context_leave_held(&entered->context);
}

/* GM_INVALID_CONTEXT: the context of the block ends or has ended, and so has all work in its private stream. After an
 * error nothing is entered. */
static gm_status enter(const struct gm_guard_block *block, struct entered *entered) {
    gm_status status =
        gm_context_enter_held((CUcontext)(uintptr_t)block->context, block->context_id, &entered->context);
    if (status)
        return status == GM_FENCE_PENDING || gm_is_destroyed_error(status) ? GM_INVALID_CONTEXT : status;
    status = GM_NOT_SUPPORTED;
    if (gm_capture_guard_enter(&entered->mode)) {
        status = private_stream(block, &entered->stream);
        if (!status)
            return GM_OK;
        gm_capture_guard_leave(entered->mode);
    }
    gm_context_leave_held(&entered->context);
    return status;
}

/* ---- copies of several blocks before one wait
 *
 * A block that has bytes before it ends close to the end of its mapping, because of its alignment alone. So there are
 * fewer bytes behind it than before it, and two rows of the same length have both: they end where the block begins and
 * where the mapping ends. A small block is copied as a whole, because the rows would overlap. */

struct edges {
    unsigned char bytes[2][NEAR];
};

static struct room {
    uint64_t context_id; /* 0: unused */
    CUcontext context;
    struct edges *edges;     /* pinned memory of the context; NULL: being allocated, or refused */
    uint64_t blocks[COPIES]; /* addresses of the blocks whose bytes are there; 0: unused */
} rooms[CONTEXTS];
static gm_spin rooms_lock; /* held to claim and to forget a room */

static struct room *find_room(uint64_t context_id) {
    for (unsigned i = 0; i < CONTEXTS; i++)
        if (__atomic_load_n(&rooms[i].context_id, __ATOMIC_ACQUIRE) == context_id)
            return &rooms[i];
    return NULL;
}

/* Memory that comes too late for its context goes with that. */
static struct room *make_room(CUcontext context, uint64_t context_id) {
    void *pinned;
    gm_spin_lock(&rooms_lock);
    struct room *room = find_room(0);
    if (find_room(context_id))
        room = NULL; /* another thread makes it */
    if (room) {
        room->context = context;
        __atomic_store_n(&room->context_id, context_id, __ATOMIC_RELEASE);
    }
    gm_spin_unlock(&rooms_lock);
    if (!room || gm_drv.mem_host_alloc(&pinned, COPIES * sizeof(struct edges), 0) != CUDA_SUCCESS)
        return NULL;
    gm_spin_lock(&rooms_lock);
    if (room->context_id == context_id)
        __atomic_store_n(&room->edges, pinned, __ATOMIC_RELEASE);
    gm_spin_unlock(&rooms_lock);
    return room;
}

/* A copy of the same block whose free failed is overwritten in the order of the stream. */
static unsigned take_copy(struct room *room, uint64_t address) {
    for (unsigned i = 0; i < COPIES; i++)
        if (__atomic_load_n(&room->blocks[i], __ATOMIC_RELAXED) == address)
            return i;
    for (unsigned i = 0; i < COPIES; i++) {
        uint64_t none = 0;
        if (!__atomic_load_n(&room->blocks[i], __ATOMIC_RELAXED) &&
            __atomic_compare_exchange_n(&room->blocks[i], &none, address, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return i;
    }
    return COPIES;
}

static gm_status copy_rows(void *to, uint64_t from, size_t width, uint64_t pitch, size_t rows, CUstream stream) {
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = from,
                          .srcPitch = pitch,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = to,
                          .dstPitch = NEAR,
                          .WidthInBytes = width,
                          .Height = rows};
    return (gm_status)gm_drv.memcpy_2d_async(&copy, stream);
}

static bool is_copied_whole(const struct gm_guard_block *block) {
    size_t before = gm_guard_near_size(block, true), behind = gm_guard_near_size(block, false);
    return before && behind && block->size + behind < before;
}

/* After a failure no copy is on its way. */
static gm_status copy_edges(const struct gm_guard_block *block, struct edges *edges, CUstream stream) {
    size_t before = gm_guard_near_size(block, true), behind = gm_guard_near_size(block, false),
           width = before ? before : behind;
    uint64_t first = block->address - before, last = block->mapping + block->mapped - width;
    if (is_copied_whole(block))
        return (gm_status)gm_drv.memcpy_async((CUdeviceptr)(uintptr_t)edges, first, before + block->size + behind,
                                              stream);
    if (!before)
        return behind ? copy_rows(edges->bytes[1] + NEAR - width, block->address + block->size, width, width, 1, stream)
                      : GM_OK;
    if (behind && last - first <= MOST_PITCH)
        return copy_rows(edges->bytes[0] + NEAR - width, first, width, last - first, 2, stream);
    gm_status status = copy_rows(edges->bytes[0] + NEAR - width, first, width, width, 1, stream);
    if (!status && behind) {
        status = copy_rows(edges->bytes[1] + NEAR - width, last, width, width, 1, stream);
        if (status)
            (void)gm_drv.stream_synchronize(stream);
    }
    return status;
}

static const unsigned char *copy_of(const struct gm_guard_block *block, const struct edges *edges, bool before) {
    if (is_copied_whole(block))
        return edges->bytes[0] + (before ? 0 : gm_guard_near_size(block, true) + block->size);
    return edges->bytes[!before] + NEAR - gm_guard_near_size(block, before);
}

static void scan_edges(const struct gm_guard_block *block, const struct edges *edges, struct gm_guard_scan scans[2]) {
    for (int before = 0; before < 2; before++)
        gm_guard_scan(&scans[before], copy_of(block, edges, before), gm_guard_near_size(block, before), before);
}

/* While one of its copies is taken, a room stays. */
static void fetch(const struct gm_guard_block *block, CUstream stream) {
    struct room *room = find_room(block->context_id);
    if (!room)
        room = make_room((CUcontext)(uintptr_t)block->context, block->context_id);
    unsigned at = room ? take_copy(room, block->address) : COPIES;
    if (at == COPIES)
        return;
    struct edges *edges = __atomic_load_n(&room->edges, __ATOMIC_ACQUIRE);
    if (!edges || __atomic_load_n(&room->context_id, __ATOMIC_RELAXED) != block->context_id ||
        copy_edges(block, &edges[at], stream))
        __atomic_store_n(&room->blocks[at], 0, __ATOMIC_RELEASE);
}

void gm_guard_pattern_fetch(const struct gm_guard_block *block) {
    struct entered entered;
    if (block->size == block->mapped || enter(block, &entered))
        return;
    fetch(block, entered.stream);
    leave(&entered);
}

gm_status gm_guard_pattern_arrived(const struct gm_guard_block *block, uint64_t patience_ns) {
    struct entered entered;
    gm_status status = enter(block, &entered);
    if (status)
        return status;
    /* A copy that may not have arrived keeps its place. */
    status = patience_ns == GM_GUARD_FOREVER ? (gm_status)GM_TWICE(gm_drv.stream_synchronize(entered.stream))
                                             : gm_internal_stream_ask(entered.stream, patience_ns);
    leave(&entered);
    return status;
}

/* Compares the block's copy. False: there is none. */
static bool scan_fetched(const struct gm_guard_block *block, struct gm_guard_scan scans[2]) {
    int hold = gm_context_hold((CUcontext)(uintptr_t)block->context, block->context_id);
    bool found = false;
    if (hold < 0)
        return false;
    struct room *room = find_room(block->context_id);
    const struct edges *copies = room ? __atomic_load_n(&room->edges, __ATOMIC_ACQUIRE) : NULL;
    for (unsigned i = 0; copies && !found && i < COPIES; i++) {
        found = __atomic_load_n(&room->blocks[i], __ATOMIC_ACQUIRE) == block->address;
        if (!found)
            continue;
        scan_edges(block, &copies[i], scans);
        __atomic_store_n(&room->blocks[i], 0, __ATOMIC_RELEASE);
    }
    gm_context_let_go(hold);
    return found;
}

/* The caller holds the lock. Other threads look for rooms without it. */
static void empty(struct room *room) {
    room->context = NULL;
    __atomic_store_n(&room->edges, NULL, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < COPIES; i++)
        __atomic_store_n(&room->blocks[i], 0, __ATOMIC_RELAXED);
    __atomic_store_n(&room->context_id, 0, __ATOMIC_RELEASE);
}

void gm_guard_pattern_forget(uint64_t context_id) {
    gm_spin_lock(&rooms_lock);
    struct room *room = find_room(context_id);
    if (room)
        empty(room);
    gm_spin_unlock(&rooms_lock);
}

/* A room whose copies are all taken has none. */
static bool close_room(struct room *room) {
    unsigned taken = 0;
    for (uint64_t none = 0; taken < COPIES; taken++, none = 0)
        if (!__atomic_compare_exchange_n(&room->blocks[taken], &none, NOBODY, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            break;
    bool closed = taken == COPIES;
    while (!closed && taken)
        __atomic_store_n(&room->blocks[--taken], 0, __ATOMIC_RELEASE);
    return closed;
}

static void free_pinned(const struct room *room) {
    struct gm_context_held held;
    if (gm_context_enter_held(room->context, room->context_id, &held))
        return;
    (void)GM_TWICE(gm_drv.mem_free_host(room->edges));
    gm_context_leave_held(&held);
}

void gm_guard_pattern_trim(void) {
    for (unsigned i = 0; i < CONTEXTS; i++) {
        struct room *room = &rooms[i], old;
        if (!__atomic_load_n(&room->edges, __ATOMIC_ACQUIRE) || !close_room(room))
            continue;
        gm_spin_lock(&rooms_lock);
        old = *room;
        empty(room);
        gm_spin_unlock(&rooms_lock);
        CUstreamCaptureMode mode = gm_capture_relax();
        free_pinned(&old);
        gm_capture_unrelax(mode);
    }
}

void gm_guard_pattern_after_fork(void) {
    rooms_lock.held = 0;
    memset(rooms, 0, sizeof rooms);
}

/* ---- reads that wait */

static gm_status read_near(const struct gm_guard_block *block, struct edges *edges, struct gm_guard_scan scans[2],
                           CUstream stream) {
    gm_status status = copy_edges(block, edges, stream);
    if (!status)
        status = (gm_status)gm_drv.stream_synchronize(stream);
    if (!status)
        scan_edges(block, edges, scans);
    return status;
}

static gm_status read_further(const struct gm_guard_block *block, struct edges *edges, struct gm_guard_scan scans[2],
                              CUstream stream) {
    gm_status status = GM_OK;
    for (int before = 0; before < 2; before++) {
        const struct gm_guard_bytes side = gm_guard_side_of(block, before);
        while (!status && scans[before].compared < side.size) {
            size_t done = scans[before].compared, left = side.size - done;
            size_t part = left < sizeof *edges ? left : sizeof *edges;
            status = (gm_status)gm_drv.memcpy_async((CUdeviceptr)(uintptr_t)edges,
                                                    side.address + (before ? left - part : done), part, stream);
            if (!status)
                status = (gm_status)gm_drv.stream_synchronize(stream);
            if (!status)
                gm_guard_scan(&scans[before], edges->bytes[0], part, before);
        }
    }
    return status;
}

/* Pinned memory, or pages. */
static struct edges *take_buffer(const struct gm_guard_block *block, struct room **room, unsigned *at) {
    *room = find_room(block->context_id);
    for (*at = 0; *room && __atomic_load_n(&(*room)->edges, __ATOMIC_ACQUIRE) && *at < COPIES; ++*at) {
        uint64_t none = 0;
        if (__atomic_compare_exchange_n(&(*room)->blocks[*at], &none, NOBODY, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return &(*room)->edges[*at];
    }
    *room = NULL;
    return gm_pages(sizeof(struct edges));
}

static void drop_buffer(struct edges *edges, struct room *room, unsigned at) {
    if (room)
        __atomic_store_n(&room->blocks[at], 0, __ATOMIC_RELEASE);
    else
        munmap(edges, sizeof *edges);
}

/* `near`, `further`: which bytes are read. */
static gm_status read_now(const struct gm_guard_block *block, struct gm_guard_scan scans[2], bool near, bool further,
                          bool waits) {
    struct entered entered;
    struct room *room;
    unsigned at;
    gm_status status = enter(block, &entered);
    if (status)
        return status;
    struct edges *edges = take_buffer(block, &room, &at);
    if (!edges)
        status = GM_OUT_OF_MEMORY;
    if (!status && !waits)
        status = (gm_status)gm_drv.stream_query(entered.stream);
    if (!status && near)
        status = read_near(block, edges, scans, entered.stream);
    if (!status && further)
        status = read_further(block, edges, scans, entered.stream);
    if (edges)
        drop_buffer(edges, room, at);
    leave(&entered);
    return status;
}

/* Whether the bytes further away are compared. */
static bool goes_further(const struct gm_guard_block *block, enum gm_guard_found found) {
    static unsigned counts[GM_GUARD_AT_EXIT + 1];
    if (!block->whole || gm_guard_is_all_near(block))
        return false;
    return gm_guard_compares_all || __atomic_fetch_add(&counts[found], 1, __ATOMIC_RELAXED) < FIRST;
}

static void report(const struct gm_guard_block *block, const struct gm_guard_damage *damage) {
    __atomic_add_fetch(&gm_stats->guard_errors, 1, __ATOMIC_RELAXED);
    GM_PUBLISH(guard_damaged, block, damage);
}

enum gm_guard_pattern gm_guard_pattern_check(const struct gm_guard_block *block, enum gm_guard_found found) {
    struct gm_guard_scan scans[2] = {{0}};
    struct gm_guard_damage damage;
    bool freed = found == GM_GUARD_AT_FREE, fetched = freed && scan_fetched(block, scans);
    bool further = goes_further(block, found);
    if ((!fetched || further) && read_now(block, scans, !fetched, further, freed))
        return GM_GUARD_UNSURE;
    __atomic_sub_fetch(&gm_stats->guard_uncompared, 1, __ATOMIC_RELAXED);
    if (gm_guard_scan_damage(block, scans, block->ended ? GM_GUARD_AT_CONTEXT_END : found, &damage)) {
        report(block, &damage);
        return GM_GUARD_UNSURE;
    }
    return further || (block->whole && gm_guard_is_all_near(block)) ? GM_GUARD_ALL_RIGHT : GM_GUARD_NEAR_RIGHT;
}

bool gm_guard_pattern_look(const struct gm_guard_block *block, struct gm_guard_damage *damage) {
    struct gm_guard_scan scans[2] = {{0}};
    struct entered entered;
    if (read_now(block, scans, true, block->whole, false) ||
        !gm_guard_scan_damage(block, scans, GM_GUARD_AFTER_KERNEL, damage))
        return false;
    if (!enter(block, &entered)) {
        (void)gm_guard_pattern_write(block);
        leave(&entered);
    }
    return true;
}
