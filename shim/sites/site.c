/* Call sites: chains of return addresses, and stack layouts that make repeated look-ups cheap. site.h describes the
 * method. */
#include "shim/sites/site.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include "shim/base/base.h"
#include "shim/base/room.h"
#include "shim/base/real_dl.h"
#include "shim/sites/modules.h"
#include "shim/sites/python.h"
#include "shim/trace/writer.h"

enum {
    LAYOUTS = 4096,            /* known stack layouts */
    FEW_LAYOUTS = LAYOUTS / 2, /* of them before gm_site_setup */
    SITES = 1 << 17,           /* call chains; further chains have no site */
    RUNTIME_FRAMES = 8, /* most frames of the CUDA runtime with the first one outside: how far a stack is unwound */
    STATIC_FRAMES = 6,  /* frames stored when the runtime may be linked into the caller's module */
    CALLERS = 256,      /* hash of hook return addresses -> layouts */
    WORDS = 1 << 21,    /* frames of all chains */
    SITE_WORDS = GM_SITE_FRAMES + GM_PYTHON_FRAMES,
    MAIN_STACK = 64 << 20, /* assumed size of the first thread's stack; deeper frames are unwound each time */
};

struct layout {
    uintptr_t caller;
    struct layout *next;              /* next layout of the same hash */
    uint32_t reach;                   /* bytes from the frame to the end of the last slot */
    uint16_t count;                   /* number of frames beyond `caller` */
    uint32_t offsets[GM_SITE_FRAMES]; /* slot = frame + offset */
};

struct chain {
    uint32_t first; /* index in words[] */
    uint16_t count; /* number of words */
    uint16_t outside;
    uint16_t native; /* number of return addresses, with `caller`; Python frames follow */
};

struct walk {
    uintptr_t caller;
    bool started;
    unsigned count, room;
    uintptr_t ip[GM_SITE_FRAMES], stack[GM_SITE_FRAMES]; /* return address and stack pointer after the return */
};

static struct layout *layouts;
static unsigned layout_count;
static struct layout *by_caller[CALLERS];
static struct chain *chains;         /* [1 .. chain_count] */
static uint32_t chain_count;         /* stored after the chain, for readers without the lock */
static struct gm_site_keys *keys_of; /* [1 .. chain_count]; NULL: keys are not needed */
bool gm_sites_on, gm_sites_of_new;
static bool provisional; /* gm_site_setup may want other numbers of frames */
static uint32_t *table;  /* open addressing: chain ids */
static uintptr_t *words;
static uint32_t word_count;
static unsigned extra_frames;
GM_LOCK(lock); /* for writers; readers need no lock. The loader is never called under it: a thread that holds the
                        loader's locks may wait for it */

static struct functions {
    _Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn, void *);
    uintptr_t (*ip)(struct _Unwind_Context *);
    uintptr_t (*cfa)(struct _Unwind_Context *);
    int (*getattr)(pthread_t, pthread_attr_t *);
    int (*getstack)(const pthread_attr_t *, void **, size_t *);
    int (*destroy)(pthread_attr_t *);
} functions;
static bool functions_found; /* stored behind them */
static bool disabled;        /* no unwinder, or no memory: every site is 0 */

/* Cache of each thread. */
enum { RECENT = 8 };
struct recent {
    const struct layout *layout;
    uint32_t id, era;
};
struct known {
    uintptr_t stack_low, stack_high; /* bounds of the thread's stack; 0: not known yet */
    struct recent recent[RECENT][2]; /* latest chains of the thread: most calls come from a few sites */
};

GM_ROOM_FITS(struct known, sites);

static void disable(void) {
    if (!__atomic_exchange_n(&disabled, true, __ATOMIC_RELAXED))
        gm_log(gm_sites_are_on() ? GM_LOG_WARN : GM_LOG_INFO,
               "no unwinder (libgcc_s.so.1) or no memory: call sites stay unknown");
}

static bool has_functions(void) { return GM_LIKELY(__atomic_load_n(&functions_found, __ATOMIC_ACQUIRE)); }

/* As one thread found them: a second one may be at work at the same time. */
static void publish_functions(const struct functions *found) {
    gm_spin_lock(&lock);
    if (!functions_found)
        functions = *found;
    __atomic_store_n(&functions_found, true, __ATOMIC_RELEASE);
    gm_spin_unlock(&lock);
}

bool gm_site_find_unwinder(void) {
    if (__atomic_load_n(&disabled, __ATOMIC_RELAXED))
        return false;
    if (has_functions())
        return true;
    struct functions found = {0};
    void *unwinder = gm_real_dlopen("libgcc_s.so.1", RTLD_NOW);
    if (unwinder) {
        found.backtrace = gm_real_dlsym(unwinder, "_Unwind_Backtrace");
        found.ip = gm_real_dlsym(unwinder, "_Unwind_GetIP");
        found.cfa = gm_real_dlsym(unwinder, "_Unwind_GetCFA");
    }
    if (!found.backtrace || !found.ip || !found.cfa) {
        disable();
        return false;
    }
    found.getattr = gm_real_dlsym(RTLD_DEFAULT, "pthread_getattr_np");
    found.getstack = gm_real_dlsym(RTLD_DEFAULT, "pthread_attr_getstack");
    found.destroy = gm_real_dlsym(RTLD_DEFAULT, "pthread_attr_destroy");
    publish_functions(&found);
    return true;
}

static void make_tables(unsigned extra, bool keys) {
    __atomic_store_n(&extra_frames, extra > 64 ? 64 : extra, __ATOMIC_RELAXED);
    layouts = gm_pages(LAYOUTS * sizeof(*layouts));
    chains = gm_pages((SITES + 1) * sizeof(*chains));
    table = gm_pages(2 * SITES * sizeof(*table));
    words = gm_pages(WORDS * sizeof(*words));
    if (keys)
        keys_of = gm_pages((SITES + 1) * sizeof(*keys_of));
    if (!layouts || !chains || !table || !words || (keys && !keys_of))
        disable();
}

static uint32_t era = 1; /* increases when ids restart, or stacks are read otherwise */

/* Stacks are unwound and learned anew, with other numbers of frames. Threads may still read the old layouts. */
static void forget_layouts(unsigned extra) {
    __atomic_store_n(&extra_frames, extra > 64 ? 64 : extra, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < CALLERS; i++)
        __atomic_store_n(&by_caller[i], NULL, __ATOMIC_RELAXED);
    __atomic_add_fetch(&era, 1, __ATOMIC_RELEASE);
}

void gm_site_setup(unsigned extra, bool keys) {
    gm_spin_lock(&lock);
    if (!table)
        make_tables(extra, keys);
    else if (provisional)
        forget_layouts(extra);
    provisional = false;
    gm_spin_unlock(&lock);
    __atomic_store_n(&gm_sites_on, true, __ATOMIC_RELEASE);
}

void gm_site_setup_of_new(unsigned extra) {
    gm_spin_lock(&lock);
    provisional = !table;
    if (!table)
        make_tables(extra, false);
    gm_spin_unlock(&lock);
    __atomic_store_n(&gm_sites_of_new, true, __ATOMIC_RELEASE);
}

/* ---- chains */

static uint64_t hash_words(const uintptr_t *at, unsigned count) {
    uint64_t hash = count * 0x9e3779b97f4a7c15ull;
    for (unsigned i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 0xff51afd7ed558ccdull, hash ^= hash >> 32;
    return hash;
}

static uint32_t find_chain(const uintptr_t *ip, unsigned count) {
    uint64_t mask = 2 * SITES - 1;
    for (uint64_t at = hash_words(ip, count) & mask;; at = (at + 1) & mask) {
        uint32_t id = __atomic_load_n(&table[at], __ATOMIC_ACQUIRE);
        if (!id)
            return 0;
        if (chains[id].count == count && memcmp(words + chains[id].first, ip, count * sizeof(*ip)) == 0)
            return id;
    }
}

static void write_site(uint32_t id) {
    union {
        struct gm_record_site record;
        char bytes[sizeof(struct gm_record_site) + SITE_WORDS * 8];
        uint64_t align;
    } out = {0};
    const struct chain *chain = &chains[id];
    uint64_t *frames = (uint64_t *)(out.bytes + sizeof(out.record));

    out.record.id = id;
    out.record.frames = chain->count;
    out.record.outside = chain->outside;
    for (unsigned i = 0; i < chain->count; i++)
        frames[i] = words[chain->first + i];
    out.record.head.type = GM_RECORD_SITE;
    out.record.head.bytes = (uint32_t)(sizeof(out.record) + chain->count * 8u);
    gm_trace_record(&out.record.head);
}

/* Computes the key of a chain. The lock is held, and the modules of the chain are known. */
static void name_chain(uint32_t id) {
    const struct chain *chain = &chains[id];
    struct gm_site_keys *keys = &keys_of[id];
    gm_site_keys_begin(keys);
    for (unsigned i = chain->outside; i < chain->native && (i == chain->outside || i < GM_SITE_KEY_FRAMES); i++) {
        uintptr_t ip = words[chain->first + i];
        const struct gm_site_module *module = gm_module_known(ip);
        if (module && module->c_library)
            break;
        gm_site_keys_add(keys, module ? module->key : GM_SITE_NO_MODULE, module ? ip - module->base : 0);
    }
}

const struct gm_site_keys *gm_site_keys(uint32_t id) { return keys_of && id ? &keys_of[id] : NULL; }

/* The lock is held. */
static uint32_t add_chain(const uintptr_t *ip, unsigned native, unsigned python, unsigned outside) {
    unsigned count = native + python;
    uint32_t id = find_chain(ip, count);
    if (id)
        return id;
    if (chain_count == SITES || word_count + count > WORDS)
        return 0;
    id = chain_count + 1;
    chains[id] = (struct chain){word_count, (uint16_t)count, (uint16_t)outside, (uint16_t)native};
    memcpy(words + word_count, ip, count * sizeof(*ip));
    word_count += count;
    __atomic_store_n(&chain_count, id, __ATOMIC_RELEASE);
    write_site(id);
    if (keys_of)
        name_chain(id);
    uint64_t mask = 2 * SITES - 1, at = hash_words(ip, count) & mask;
    while (table[at])
        at = (at + 1) & mask;
    __atomic_store_n(&table[at], id, __ATOMIC_RELEASE);
    return id;
}

static bool is_known(uint32_t id) { return id && id <= __atomic_load_n(&chain_count, __ATOMIC_ACQUIRE); }

bool gm_site_location(uint32_t id, struct gm_site_location *location) {
    if (!is_known(id))
        return false;
    const struct chain *chain = &chains[id];
    const uintptr_t *ip = words + chain->first + chain->outside;
    unsigned most = chain->outside ? 1 : chain->native;
    struct gm_site_module module;
    if (!gm_module_look(ip[0], &module, location->module, sizeof(location->module)))
        return false;
    location->base = module.base;
    location->count = 0;
    for (unsigned i = 0; i < most && location->count < GM_SITE_LOCATION_FRAMES; i++)
        if (ip[i] >= module.start && ip[i] < module.limit)
            location->frames[location->count++] = ip[i];
    return true;
}

unsigned gm_site_frames(uint32_t id, const uintptr_t **frames) {
    unsigned count = 0;
    gm_spin_lock(&lock);
    if (id && id <= chain_count) {
        *frames = words + chains[id].first;
        count = chains[id].native;
    }
    gm_spin_unlock(&lock);
    return count;
}

unsigned gm_site_python(uint32_t id, uintptr_t *frames, unsigned room) {
    const struct chain *chain = is_known(id) ? &chains[id] : NULL;
    unsigned count = 0;
    for (unsigned i = chain ? chain->native : 0; chain && i < chain->count && count < room; i++)
        if (!gm_python_is_wrapper(words[chain->first + i]))
            frames[count++] = words[chain->first + i];
    if (chain && !count && room && chain->count > chain->native)
        frames[count++] = words[chain->first + chain->count - 1];
    return count;
}

/* ---- unwinding and layouts */

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *arg) {
    struct walk *walk = arg;
    uintptr_t ip = functions.ip(context);

    if (!walk->started && ip != walk->caller)
        return _URC_NO_REASON;
    walk->started = true;
    if (!ip || walk->count == walk->room)
        return _URC_END_OF_STACK;
    walk->ip[walk->count] = ip;
    walk->stack[walk->count++] = functions.cfa(context);
    return _URC_NO_REASON;
}

unsigned gm_site_walk(uintptr_t frames[GM_SITE_FRAMES]) {
    struct walk walk = {.started = true, .room = GM_SITE_FRAMES};
    if (gm_site_find_unwinder())
        functions.backtrace(step, &walk);
    memcpy(frames, walk.ip, walk.count * sizeof *frames);
    return walk.count;
}

/* The stack slot that held a frame's return address. On x86-64 it lies right below the stack pointer after the
 * return. On other machines it lies somewhere in the callee's frame. 0: not found. */
static uintptr_t slot_of_frame(const struct walk *walk, unsigned i) {
#if defined(__x86_64__)
    uintptr_t slot = walk->stack[i] - sizeof(uintptr_t);
    return *(uintptr_t *)slot == walk->ip[i] ? slot : 0;
#else
    for (uintptr_t slot = walk->stack[i - 1]; slot + sizeof(uintptr_t) <= walk->stack[i]; slot += sizeof(uintptr_t))
        if (*(uintptr_t *)slot == walk->ip[i])
            return slot;
    return 0;
#endif
}

static void learn_layout(const struct walk *walk, unsigned count, uintptr_t frame) {
    struct layout fresh = {.caller = walk->caller, .count = (uint16_t)(count - 1)};
    struct layout **head = &by_caller[(walk->caller >> 2) % CALLERS];

    for (unsigned i = 1; i < count; i++) {
        uintptr_t slot = slot_of_frame(walk, i);
        if (!slot || slot < frame || slot - frame > UINT32_MAX - sizeof(slot))
            return;
        fresh.offsets[i - 1] = (uint32_t)(slot - frame);
        fresh.reach = fresh.offsets[i - 1] + (uint32_t)sizeof(slot);
    }
    for (struct layout *known = *head; known; known = known->next)
        if (known->caller == fresh.caller && known->count == fresh.count &&
            memcmp(known->offsets, fresh.offsets, fresh.count * sizeof(fresh.offsets[0])) == 0)
            return;
    if (layout_count == (provisional ? FEW_LAYOUTS : LAYOUTS))
        return;
    struct layout *layout = &layouts[layout_count++];
    *layout = fresh;
    layout->next = *head;
    __atomic_store_n(head, layout, __ATOMIC_RELEASE);
}

/* Number of frames to store: up to the first frame outside a shared CUDA runtime, and the extra frames. A statically
 * linked runtime has no module of its own, so a fixed number is stored and the reader decides by symbols. */
static unsigned cut(const struct walk *walk, unsigned *outside) {
    unsigned first = 0;
    for (; first + 1 < walk->count; first++) {
        const struct gm_site_module *module = gm_module_find(walk->ip[first]);
        if (!module || !module->runtime)
            break;
    }
    *outside = first;
    unsigned wanted = first + 1 + __atomic_load_n(&extra_frames, __ATOMIC_RELAXED);
    if (wanted < STATIC_FRAMES)
        wanted = STATIC_FRAMES;
    for (unsigned i = first; i < wanted && i < walk->count; i++)
        gm_module_find(walk->ip[i]);
    return wanted < walk->count ? wanted : walk->count;
}

static GM_APART uint32_t unwind_site(uintptr_t caller, uintptr_t frame) {
    struct walk walk = {.caller = caller, .room = __atomic_load_n(&extra_frames, __ATOMIC_RELAXED) + RUNTIME_FRAMES};
    unsigned outside;

    if (__atomic_load_n(&disabled, __ATOMIC_RELAXED))
        return 0;
    gm_python_search();
    functions.backtrace(step, &walk);
    if (!walk.count)
        return 0;
    unsigned count = cut(&walk, &outside);
    gm_spin_lock(&lock);
    uint32_t id = add_chain(walk.ip, count, 0, outside);
    if (id)
        learn_layout(&walk, count, frame);
    gm_spin_unlock(&lock);
    return id;
}

/* Finds the bounds of the thread's own stack. Slots are read only within them. A program that switches stacks
 * (coroutines) lies outside and is unwound each time. */
static void find_stack(struct known *known) {
    void **end = gm_thread_id() == getpid() ? gm_elf_symbol("ld-linux", "__libc_stack_end") : NULL;
    pthread_attr_t attributes;
    void *low = NULL;
    size_t size = 0;

    known->stack_low = known->stack_high = 1;
    /* For the first thread the C library would read /proc/self/maps, which takes milliseconds once the driver has
     * mapped its memory. */
    if (end && *end) {
        known->stack_high = (uintptr_t)*end;
        known->stack_low = known->stack_high - MAIN_STACK;
        return;
    }
    if (!functions.getattr || !functions.getstack || !functions.destroy ||
        functions.getattr(pthread_self(), &attributes) != 0)
        return;
    if (functions.getstack(&attributes, &low, &size) == 0) {
        known->stack_low = (uintptr_t)low;
        known->stack_high = (uintptr_t)low + size;
    }
    functions.destroy(&attributes);
}

static inline bool readable(const struct known *known, const struct layout *layout, uintptr_t frame) {
    return frame + layout->reach <= known->stack_high;
}

/* The slot may hold any variable of a function. That is no error, so AddressSanitizer must not report it. */
__attribute__((no_sanitize("address"))) static uintptr_t slot_value(const struct layout *layout, size_t i,
                                                                    uintptr_t frame) {
    return *(const uintptr_t *)(frame + layout->offsets[i]);
}

static inline bool same_chain(const struct layout *layout, uint32_t id, uintptr_t frame) {
    const uintptr_t *ip = words + chains[id].first + 1;
    for (size_t i = 0; i < layout->count; i++)
        if (slot_value(layout, i, frame) != ip[i])
            return false;
    return true;
}

static inline bool is_recent(const struct known *known, const struct recent *r, uintptr_t caller, uintptr_t frame) {
    return r->era == __atomic_load_n(&era, __ATOMIC_RELAXED) && r->layout->caller == caller &&
           readable(known, r->layout, frame) && same_chain(r->layout, r->id, frame);
}

static inline bool is_on_stack(const struct known *known, uintptr_t frame) {
    return GM_LIKELY(frame >= known->stack_low && frame < known->stack_high);
}

static inline const struct layout *layouts_of(uintptr_t caller) {
    return __atomic_load_n(&by_caller[(caller >> 2) % CALLERS], __ATOMIC_ACQUIRE);
}

/* The two recent chains that are looked at. The third frame distinguishes the calls of a statically linked runtime. */
static inline struct recent *recent_of(struct known *known, const struct layout *layout, uintptr_t caller,
                                       uintptr_t frame) {
    uintptr_t third = layout->count > 1 && readable(known, layout, frame) ? slot_value(layout, 1, frame) : 0;
    return known->recent[(caller ^ third) * 0x9e3779b97f4a7c15ull >> 61];
}

/* Calls nothing. 0: the chain is none of this thread's recent ones. */
static inline uint32_t find_recent(uintptr_t caller, uintptr_t frame) {
    struct known *known = gm_room_part_known(GM_ROOM_SITES);
    if (GM_UNLIKELY(!known) || !is_on_stack(known, frame))
        return 0;
    const struct layout *layout = layouts_of(caller);
    if (GM_UNLIKELY(!layout))
        return 0;
    const struct recent *recent = recent_of(known, layout, caller, frame);
    if (GM_LIKELY(is_recent(known, recent, caller, frame)))
        return recent->id;
    return is_recent(known, recent + 1, caller, frame) ? recent[1].id : 0;
}

static GM_APART uint32_t find_native(uintptr_t caller, uintptr_t frame) {
    uintptr_t ip[GM_SITE_FRAMES];

    if (GM_UNLIKELY(!has_functions()) && !gm_site_find_unwinder())
        return 0;
    struct known *known = gm_room_part(GM_ROOM_SITES);
    if (known && GM_UNLIKELY(!known->stack_high))
        find_stack(known);
    if (GM_UNLIKELY(!known) || !is_on_stack(known, frame))
        return unwind_site(caller, frame);
    const struct layout *layout = layouts_of(caller);
    struct recent *recent = layout ? recent_of(known, layout, caller, frame) : NULL;
    for (; layout; layout = layout->next) {
        if (layout->caller != caller || !readable(known, layout, frame))
            continue;
        ip[0] = caller;
        for (unsigned i = 0; i < layout->count; i++)
            ip[i + 1] = slot_value(layout, i, frame);
        uint32_t id = find_chain(ip, layout->count + 1u);
        if (id) {
            recent[1] = recent[0];
            recent[0] = (struct recent){layout, id, __atomic_load_n(&era, __ATOMIC_RELAXED)};
            return id;
        }
    }
    return unwind_site(caller, frame);
}

/* The site of the chain and this thread's Python frames. */
static GM_APART uint32_t add_python(uint32_t native, const struct gm_python_key *key) {
    static const struct chain none;
    uintptr_t ip[SITE_WORDS];
    const struct chain *chain = native ? &chains[native] : &none;
    memcpy(ip, words + chain->first, chain->native * sizeof(*ip));
    unsigned python = gm_python_frames(ip + chain->native);
    if (!python)
        return native;
    gm_spin_lock(&lock);
    uint32_t id = add_chain(ip, chain->native, python, chain->outside);
    gm_spin_unlock(&lock);
    if (id)
        gm_python_store(key, id);
    return id ? id : native;
}

static GM_APART uint32_t with_python(uint32_t native) {
    struct gm_python_key key;
    if (__atomic_load_n(&disabled, __ATOMIC_RELAXED) || !gm_python_key(native, &key))
        return native;
    uint32_t id = gm_python_recall(&key);
    return id ? id : add_python(native, &key);
}

uint32_t gm_site_find(uintptr_t caller, uintptr_t frame) {
    uint32_t recent = find_recent(caller, frame), native = GM_LIKELY(recent) ? recent : find_native(caller, frame);
    return GM_UNLIKELY(gm_python_found()) ? with_python(native) : native;
}

void gm_site_define_again(void) {
    gm_modules_define_again();
    gm_python_define_again();
    gm_spin_lock(&lock);
    uint32_t count = chain_count; /* chains do not change, and later ones are written when they are added */
    gm_spin_unlock(&lock);
    for (uint32_t id = 1; id <= count; id++)
        write_site(id);
}

/* The child writes a trace of its own, so modules and chains are defined again. Layouts remain valid. */
void gm_site_after_fork(void) {
    chain_count = word_count = 0;
    era++;
    if (table)
        madvise(table, 2 * SITES * sizeof(*table), MADV_DONTNEED);
    gm_python_after_fork();
}
