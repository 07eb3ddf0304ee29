/* The contexts seen so far: a hash table from handle to id, device and a small number. The driver may reuse the handle
 * of a destroyed context, so blocks carry the id, which is never reused.
 *
 * The file also holds who uses a context while another thread ends it, which contexts may use the memory of another
 * device, and the primary context of each device. */
#include "shim/base/events.h"
#include "shim/base/base.h"
#include "shim/driver/driver.h"

enum { SLOTS = 1024 }; /* contexts alive at once; further ones get a new id at each look-up */

static struct gm_context slots[SLOTS];
static struct {
    int users;  /* threads that hold the context */
    int ending; /* running calls that may end it */
} uses[SLOTS];
GM_ZERO_IN_CHILD(uses);
GM_LOCK(lock);
static uint64_t own_ids = 1ull << 48; /* far from the driver's small ids */
static uint16_t numbers;
static unsigned seen_count;

static unsigned first_slot_of(CUcontext handle) {
    return (unsigned)(((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15ull >> 54) % SLOTS;
}

/* Reads without a lock. A writer stores handle and the rest first and the id last; it empties a slot by setting the id
 * to 0. An id is never reused, so a copy is consistent when the id before and after is the same: whoever reads a field
 * of the next context, which is stored with release, also sees that the id has changed. Slots of ended contexts stay in
 * the probe sequence. */
static inline bool read_slot(const struct gm_context *slot, CUcontext handle, struct gm_context *context) {
    uint64_t id = __atomic_load_n(&slot->id, __ATOMIC_ACQUIRE);
    if (GM_UNLIKELY(!id) || GM_UNLIKELY(__atomic_load_n(&slot->handle, __ATOMIC_RELAXED) != handle))
        return false;
    *context = (struct gm_context){.handle = handle,
                                   .id = id,
                                   .device = __atomic_load_n(&slot->device, __ATOMIC_RELAXED),
                                   .number = __atomic_load_n(&slot->number, __ATOMIC_RELAXED)};
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return GM_LIKELY(__atomic_load_n(&slot->id, __ATOMIC_RELAXED) == id);
}

static GM_APART bool find_further(CUcontext handle, struct gm_context *context) {
    for (unsigned i = first_slot_of(handle), probes = 0; probes < SLOTS; i = (i + 1) % SLOTS, probes++) {
        if (!__atomic_load_n(&slots[i].handle, __ATOMIC_ACQUIRE))
            return false;
        if (read_slot(&slots[i], handle, context))
            return true;
    }
    return false;
}

static inline bool find_context(CUcontext handle, struct gm_context *context) {
    return GM_LIKELY(read_slot(&slots[first_slot_of(handle)], handle, context)) || find_further(handle, context);
}

bool gm_context_find(CUcontext handle, struct gm_context *context) { return find_context(handle, context); }

/* Index of the slot, or -1. */
static int slot_with(CUcontext handle, uint64_t id) {
    for (unsigned i = first_slot_of(handle), probes = 0; id && probes < SLOTS; i = (i + 1) % SLOTS, probes++) {
        CUcontext seen = __atomic_load_n(&slots[i].handle, __ATOMIC_ACQUIRE);
        if (seen == handle && __atomic_load_n(&slots[i].id, __ATOMIC_SEQ_CST) == id)
            return (int)i;
        if (!seen)
            break;
    }
    return -1;
}

bool gm_context_on(CUdevice device, struct gm_context *context) {
    bool found = false;
    gm_spin_lock(&lock);
    for (unsigned i = 0; i < SLOTS && !found; i++) {
        found = slots[i].id && slots[i].device == device && !uses[i].ending;
        if (found)
            *context = slots[i];
    }
    gm_spin_unlock(&lock);
    return found;
}

void gm_contexts_each(void (*visit)(const struct gm_context *context)) {
    for (unsigned i = 0; i < SLOTS; i++) {
        gm_spin_lock(&lock);
        struct gm_context context = slots[i];
        gm_spin_unlock(&lock);
        if (context.id)
            visit(&context);
    }
}

unsigned gm_contexts_seen(void) { return __atomic_load_n(&seen_count, __ATOMIC_RELAXED); }

/* ---- contexts whose work may use the memory of another device */

enum { REACHES = 128 };

static struct {
    CUdevice device;
    bool access; /* peer access is enabled: kernels may use the memory, too. Otherwise only copies do */
    struct gm_context accessor;
} reaches[REACHES];
static unsigned reach_count; /* REACHES + 1: more than fit */
static bool graphs;          /* with copies among their nodes may exist */

/* The lock is held. */
static void add_reach(CUdevice device, const struct gm_context *accessor, bool access) {
    for (unsigned i = 0; i < reach_count && i < REACHES; i++) {
        if (reaches[i].device == device && reaches[i].accessor.id == accessor->id) {
            reaches[i].access |= access;
            return;
        }
    }
    bool stored = slot_with(accessor->handle, accessor->id) >= 0; /* otherwise its end would not be noticed */
    if (stored && reach_count < REACHES) {
        reaches[reach_count].device = device;
        reaches[reach_count].access = access;
        reaches[reach_count].accessor = *accessor;
    }
    if (reach_count <= REACHES)
        __atomic_store_n(&reach_count, stored ? reach_count + 1 : REACHES + 1, __ATOMIC_RELEASE);
}

/* Streams of any two contexts may copy between their devices, with peer access or without. The lock is held. */
static void add_copies(const struct gm_context *context) {
    for (unsigned i = 0; i < SLOTS; i++) {
        if (!slots[i].id || slots[i].device < 0 || context->device < 0 || slots[i].device == context->device)
            continue;
        add_reach(slots[i].device, context, false);
        add_reach(context->device, &slots[i], false);
    }
}

void gm_context_note_reach(CUdevice device, const struct gm_context *accessor) {
    gm_spin_lock(&lock);
    add_reach(device, accessor, true);
    gm_spin_unlock(&lock);
}

void gm_context_note_graphs(void) {
    if (!__atomic_load_n(&graphs, __ATOMIC_RELAXED))
        __atomic_store_n(&graphs, true, __ATOMIC_RELEASE);
}

static unsigned accessors_of(CUdevice device, bool with_copies, struct gm_context *accessors, unsigned room) {
    unsigned count = 0;
    if (GM_LIKELY(!__atomic_load_n(&reach_count, __ATOMIC_ACQUIRE)))
        return 0;
    with_copies |= __atomic_load_n(&graphs, __ATOMIC_ACQUIRE);
    gm_spin_lock(&lock);
    if (reach_count > REACHES)
        count = room + 1;
    for (unsigned i = 0; i < reach_count && i < REACHES && count <= room; i++) {
        if (reaches[i].device != device || !(with_copies || reaches[i].access))
            continue;
        if (count < room)
            accessors[count] = reaches[i].accessor;
        count++;
    }
    gm_spin_unlock(&lock);
    return count;
}

unsigned gm_context_reach(CUdevice device, struct gm_context *accessors, unsigned room) {
    return accessors_of(device, false, accessors, room);
}

bool gm_context_other(CUdevice device) { return accessors_of(device, true, NULL, 0) != 0; }

/* ---- contexts seen as current */

static void describe_context(CUcontext handle, struct gm_context *context) {
    unsigned long long id = 0;
    context->handle = handle;
    context->device = -1;
    if (gm_drv.ctx_get_device(&context->device) != CUDA_SUCCESS)
        context->device = -1;
    if (!gm_drv.ctx_get_id || gm_drv.ctx_get_id(handle, &id) != CUDA_SUCCESS)
        id = __atomic_add_fetch(&own_ids, 1, __ATOMIC_RELAXED);
    /* A driver may count from 0, and a reset primary context may keep its id. The generation in the upper bits keeps
     * the ids distinct. */
    static uint64_t generations;
    context->id = ((uint64_t)__atomic_add_fetch(&generations, 1, __ATOMIC_RELAXED) << 32) ^ (id + 1);
}

/* True when this call saw the context first. Otherwise *context is what another thread stored. */
static bool remember_context(struct gm_context *context) {
    struct gm_context *vacant = NULL;
    bool is_new = false;

    gm_spin_lock(&lock);
    for (unsigned i = first_slot_of(context->handle), probes = 0; probes < SLOTS; i = (i + 1) % SLOTS, probes++) {
        struct gm_context *slot = &slots[i];
        if (slot->handle == context->handle && slot->id) {
            *context = *slot;
            goto done;
        }
        if (!vacant && !slot->id)
            vacant = slot;
        if (!slot->handle)
            break;
    }
    is_new = true;
    context->number = ++numbers;
    __atomic_store_n(&seen_count, seen_count + 1, __ATOMIC_RELAXED);
    if (vacant) {
        __atomic_store_n(&vacant->device, context->device, __ATOMIC_RELEASE);
        __atomic_store_n(&vacant->number, context->number, __ATOMIC_RELEASE);
        __atomic_store_n(&vacant->handle, context->handle, __ATOMIC_RELEASE);
        __atomic_store_n(&vacant->id, context->id, __ATOMIC_RELEASE);
    }
    add_copies(context);
done:
    gm_spin_unlock(&lock);
    return is_new;
}

static GM_RARE bool see_first(CUcontext handle, struct gm_context *context) {
    *context = (struct gm_context){0};
    describe_context(handle, context);
    if (remember_context(context))
        GM_PUBLISH(context_new, context);
    return true;
}

bool gm_context_current(struct gm_context *context) {
    CUcontext handle = NULL;
    if (gm_drv.ctx_get_current(&handle) != CUDA_SUCCESS || !handle) {
        *context = (struct gm_context){.device = -1};
        return false;
    }
    return GM_LIKELY(find_context(handle, context)) || see_first(handle, context);
}

CUcontext gm_context_handle(void) {
    CUcontext handle = NULL;
    return gm_drv.ctx_get_current && gm_drv.ctx_get_current(&handle) == CUDA_SUCCESS ? handle : NULL;
}

bool gm_context_of_stream(CUstream stream, CUcontext *context) {
    bool named = stream > CU_STREAM_PER_THREAD && gm_drv.stream_get_ctx &&
                 gm_drv.stream_get_ctx(stream, context) == CUDA_SUCCESS;
    if (!named)
        *context = gm_context_handle();
    return named;
}

const struct gm_context gm_context_none = {.handle = (CUcontext)(uintptr_t)1, .device = -1};

uint64_t gm_context_same_id(const struct gm_context *at) {
    CUcontext handle;
    if (GM_UNLIKELY(gm_drv.ctx_get_current(&handle) != CUDA_SUCCESS))
        return 0;
    uint64_t id = __atomic_load_n(&at->id, __ATOMIC_ACQUIRE);
    return GM_LIKELY(__atomic_load_n(&at->handle, __ATOMIC_RELAXED) == handle) ? id : 0;
}

uint64_t gm_context_current_id(const struct gm_context **at) {
    CUcontext handle = NULL;
    *at = &gm_context_none;
    if (gm_drv.ctx_get_current(&handle) != CUDA_SUCCESS)
        return 0;
    const struct gm_context *slot = *at = &slots[first_slot_of(handle)];
    uint64_t id = __atomic_load_n(&slot->id, __ATOMIC_ACQUIRE);
    return GM_LIKELY(__atomic_load_n(&slot->handle, __ATOMIC_RELAXED) == handle) ? id : 0;
}

/* ---- contexts that end while threads use them */

/* The ending thread first marks the context and then looks for users. So at least one of the two threads sees the
 * other. */
int gm_context_hold(CUcontext handle, uint64_t id) {
    int hold = slot_with(handle, id);
    if (hold < 0)
        return GM_CONTEXT_DESTROYED;
    __atomic_add_fetch(&uses[hold].users, 1, __ATOMIC_SEQ_CST);
    /* In this order: gm_context_end removes the id before the mark. */
    bool ending = __atomic_load_n(&uses[hold].ending, __ATOMIC_SEQ_CST);
    bool destroyed = __atomic_load_n(&slots[hold].id, __ATOMIC_SEQ_CST) != id;
    if (GM_LIKELY(!destroyed && !ending))
        return hold;
    gm_context_let_go(hold);
    return destroyed ? GM_CONTEXT_DESTROYED : GM_CONTEXT_ENDING;
}

void gm_context_let_go(int hold) { __atomic_sub_fetch(&uses[hold].users, 1, __ATOMIC_SEQ_CST); }

int gm_context_life(CUcontext handle, uint64_t id) {
    int slot = slot_with(handle, id);
    if (slot < 0)
        return GM_CONTEXT_DESTROYED;
    if (__atomic_load_n(&uses[slot].ending, __ATOMIC_SEQ_CST))
        return GM_CONTEXT_ENDING;
    return __atomic_load_n(&slots[slot].id, __ATOMIC_SEQ_CST) == id ? slot : GM_CONTEXT_DESTROYED;
}

bool gm_context_is_alone(CUcontext handle, uint64_t id, CUdevice device) {
    bool alone = gm_context_life(handle, id) >= 0;
    if (!alone || gm_contexts_seen() == 1)
        return alone;
    gm_spin_lock(&lock);
    for (unsigned i = 0; i < SLOTS && alone; i++)
        alone = !slots[i].id || slots[i].id == id || slots[i].device != device;
    gm_spin_unlock(&lock);
    return alone;
}

/* The lock is held. */
static int slot_now(CUcontext handle) {
    struct gm_context seen;
    return find_context(handle, &seen) ? slot_with(handle, seen.id) : -1;
}

uint64_t gm_context_ending(CUcontext handle) {
    gm_spin_lock(&lock);
    int slot = slot_now(handle);
    uint64_t id = slot < 0 ? 0 : slots[slot].id;
    if (id)
        __atomic_add_fetch(&uses[slot].ending, 1, __ATOMIC_SEQ_CST);
    gm_spin_unlock(&lock);
    if (id)
        gm_wait_for_users(&uses[slot].users);
    return id;
}

void gm_context_stays(CUcontext handle, uint64_t id) {
    gm_spin_lock(&lock);
    int slot = slot_with(handle, id);
    if (slot >= 0 && uses[slot].ending)
        __atomic_sub_fetch(&uses[slot].ending, 1, __ATOMIC_SEQ_CST);
    gm_spin_unlock(&lock);
}

/* The lock is held. */
static void forget_reach(uint64_t id) {
    for (unsigned i = 0; i < reach_count && reach_count <= REACHES;) {
        if (reaches[i].accessor.id != id) {
            i++;
            continue;
        }
        __atomic_store_n(&reach_count, reach_count - 1, __ATOMIC_RELEASE);
        reaches[i] = reaches[reach_count];
    }
}

bool gm_context_end(CUcontext handle, uint64_t *id) {
    gm_spin_lock(&lock);
    int slot = slot_now(handle);
    if (slot >= 0) {
        *id = slots[slot].id;
        forget_reach(*id);
        __atomic_store_n(&slots[slot].id, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&uses[slot].ending, 0, __ATOMIC_SEQ_CST);
    }
    gm_spin_unlock(&lock);
    return slot >= 0;
}

static CUcontext primaries[64];

void gm_context_note_primary(CUdevice device, CUcontext handle) {
    if (device >= 0 && device < 64)
        __atomic_store_n(&primaries[device], handle, __ATOMIC_RELEASE);
}

CUcontext gm_context_primary(CUdevice device) {
    return device >= 0 && device < 64 ? __atomic_load_n(&primaries[device], __ATOMIC_ACQUIRE) : NULL;
}

/* The primary context may never have been current while its green contexts work. Then it is made current once. */
bool gm_context_primary_lives(CUdevice device, struct gm_context *primary) {
    CUcontext handle = gm_context_primary(device), popped;
    unsigned flags;
    int active = 0;
    if (!handle || gm_context_find(handle, primary))
        return handle != NULL;
    if (gm_drv.primary_get_state(device, &flags, &active) != CUDA_SUCCESS || !active)
        return false;
    bool inside = gm_context_handle() == handle;
    if (!inside && gm_drv.ctx_push(handle) != CUDA_SUCCESS)
        return false;
    bool known = gm_context_current(primary);
    if (!inside)
        gm_drv.ctx_pop(&popped);
    return known;
}

static void add_user(struct gm_context *users, unsigned room, unsigned *count, const struct gm_context *context) {
    unsigned known = *count < room ? *count : room;
    for (unsigned i = 0; i < known; i++)
        if (users[i].handle == context->handle)
            return;
    if (*count < room)
        users[*count] = *context;
    ++*count;
}

static void add_primary(struct gm_context *users, unsigned room, unsigned *count, const struct gm_context *of) {
    struct gm_context primary;
    if (gm_context_primary(of->device) != of->handle && gm_context_primary_lives(of->device, &primary))
        add_user(users, room, count, &primary);
}

unsigned gm_context_users(struct gm_context *users, unsigned room, bool with_copies, unsigned *owners) {
    struct gm_context peers[GM_CONTEXT_USERS];
    *owners = 1;
    if (GM_LIKELY(!__atomic_load_n(&reach_count, __ATOMIC_ACQUIRE)) &&
        GM_LIKELY(gm_context_primary(users[0].device) == users[0].handle))
        return 1;
    unsigned count = 1, reach = accessors_of(users[0].device, with_copies, peers, GM_CONTEXT_USERS);
    add_primary(users, room, &count, &users[0]);
    *owners = count < room ? count : room;
    for (unsigned i = 0; i < reach && i < GM_CONTEXT_USERS; i++) {
        add_user(users, room, &count, &peers[i]);
        add_primary(users, room, &count, &peers[i]);
    }
    return reach > GM_CONTEXT_USERS ? room + 1 : count;
}
