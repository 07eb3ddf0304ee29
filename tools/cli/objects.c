#include "tools/cli/objects.h"

#include "tools/cli/read_trace.h"
#include "tools/cli/live_blocks.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct gm_thread_number {
    int id;
    uint32_t number;
    UT_hash_handle hh;
};

struct pass {
    struct gm_objects *o;
    struct gm_live_blocks live; /* created_ns holds the object's index */
    struct gm_thread_numbers threads;
    bool failed;
};

/* ---- lists that grow */

static bool grow(void **list, size_t *room, size_t count, size_t item) {
    if (count < *room)
        return true;
    size_t more = *room ? 2 * *room : 4096;
    void *bigger = more <= SIZE_MAX / item ? realloc(*list, more * item) : NULL;
    if (!bigger)
        return false;
    *list = bigger;
    *room = more;
    return true;
}

static void note(struct pass *p, size_t object, bool destroyed) {
    struct gm_objects *o = p->o;
    if (!grow((void **)&o->order, &o->order_room, o->order_count, sizeof *o->order))
        p->failed = true;
    else
        o->order[o->order_count++] = (uint32_t)(object << 1 | destroyed);
}

/* ---- threads */

uint32_t gm_thread_number(struct gm_thread_numbers *numbers, int id) {
    struct gm_thread_number *thread;
    if (numbers->latest && numbers->latest->id == id)
        return numbers->latest->number;
    HASH_FIND_INT(numbers->threads, &id, thread);
    if (!thread) {
        thread = calloc(1, sizeof *thread);
        if (!thread)
            return 0;
        thread->id = id;
        thread->number = HASH_COUNT(numbers->threads) + 1;
        HASH_ADD_INT(numbers->threads, id, thread);
    }
    numbers->latest = thread;
    return thread->number;
}

void gm_thread_numbers_free(struct gm_thread_numbers *numbers) {
    struct gm_thread_number *thread, *next;
    HASH_ITER(hh, numbers->threads, thread, next) {
        HASH_DEL(numbers->threads, thread);
        free(thread);
    }
}

/* ---- events */

static bool is_movable(const struct gm_event *e) {
    const struct gm_request request = {.call = (enum gm_call)e->call};
    return gm_call_is_movable(&request) && !(e->action == GM_ACT_ALLOC_FAIL && !e->context);
}

static void destroy(struct pass *p, const struct gm_live_block *block, uint64_t now) {
    size_t index = (size_t)block->created_ns;
    struct gm_object *object = &p->o->list[index];
    object->destroyed_ns = now > object->created_ns ? now : object->created_ns;
    note(p, index, true);
}

static void on_alloc(struct pass *p, const struct gm_event *e, int thread) {
    struct gm_objects *o = p->o;
    bool movable = is_movable(e), failed = e->action == GM_ACT_ALLOC_FAIL;
    uint32_t number = 0;
    struct gm_live_block old;
    if (!movable &&
        (failed || !gm_kind_is_on_device(e->kind) || !gm_call_allocates((enum gm_call)e->call, (enum gm_kind)e->kind)))
        return;
    if (o->count >> 31 || !grow((void **)&o->list, &o->room, o->count, sizeof *o->list)) {
        p->failed = true;
        return;
    }
    if (movable && !(number = gm_thread_number(&p->threads, thread)))
        p->failed = true;
    const struct gm_live_block block = {.key = gm_event_key(e), .created_ns = o->count, .context = e->context};
    if (!failed) {
        int replaced = gm_live_blocks_add(&p->live, &block, &old);
        p->failed |= replaced < 0;
        if (replaced > 0)
            destroy(p, &old, e->time_ns);
    }
    o->list[o->count] = (struct gm_object){
        .bytes = e->bytes,
        .created_ns = e->time_ns,
        .destroyed_ns = GM_NEVER,
        .stream = e->stream,
        .id = movable ? ++o->movable : 0,
        .site = e->site,
        .thread = number,
        .slack = e->slack,
        .device = e->device,
        .call = e->call,
        .kind = e->kind,
        .reason = e->reason,
        .verdict = e->verdict,
        .flags = e->flags,
        .failed = failed,
    };
    note(p, o->count++, false);
}

static void on_event(struct pass *p, const struct gm_event *e, int thread) {
    struct gm_live_block block;
    uint64_t end = e->time_ns + e->duration_ns;
    if (end > p->o->end_ns)
        p->o->end_ns = end;
    switch ((enum gm_action)e->action) {
    case GM_ACT_ALLOC:
    case GM_ACT_ALLOC_FAIL: on_alloc(p, e, thread); break;
    case GM_ACT_FREE:
    case GM_ACT_RELEASE:
        if (gm_live_blocks_take(&p->live, gm_event_key(e), &block))
            destroy(p, &block, e->time_ns);
        break;
    default: break;
    }
}

/* ---- call sites */

struct named_site {
    uint64_t chain;
    uint32_t index;
    UT_hash_handle hh;
};

void gm_site_name(struct gm_reader *reader, const struct gm_site *site, struct gm_site_keys *keys,
                  char text[GM_SITE_TEXT]) {
    size_t used = 0;
    gm_site_keys_begin(keys);
    if (text)
        text[0] = '\0';
    for (unsigned i = site->outside; i < site->native && (i == site->outside || i < GM_SITE_KEY_FRAMES); i++) {
        struct gm_module module;
        bool known = gm_reader_module(reader, site->addresses[i], &module);
        size_t length = known ? strlen(module.path) : 0;
        uint64_t offset = known ? site->addresses[i] - module.base : 0;
        if (known && gm_site_is_c_library(module.path, length))
            break;
        gm_site_keys_add(keys, known ? gm_site_module_key(module.path, length) : GM_SITE_NO_MODULE, offset);
        if (!text)
            continue;
        if (used)
            text[used++] = '<';
        used += gm_site_frame_text(text + used, GM_SITE_TEXT - used, known ? module.path : NULL, length, offset);
    }
}

struct naming {
    struct gm_reader *reader;
    struct gm_objects *o;
    uint32_t *indices; /* index of the site in the trace -> index in sites */
    struct named_site *names;
    bool failed;
};

static void add_site(const struct gm_site *site, void *arg) {
    struct naming *n = arg;
    struct gm_object_site *out = &n->o->sites[n->o->site_count];
    char text[GM_SITE_TEXT];
    struct named_site *name;
    if (n->failed)
        return;
    gm_site_name(n->reader, site, &out->keys, text);
    out->text = strdup(text);
    uint64_t chain = out->keys.chain;
    HASH_FIND(hh, n->names, &chain, sizeof chain, name);
    if (!name && out->text && chain) {
        name = calloc(1, sizeof *name);
        if (name) {
            *name = (struct named_site){.chain = chain, .index = (uint32_t)n->o->site_count++};
            HASH_ADD(hh, n->names, chain, sizeof chain, name);
            n->indices[site->index] = name->index;
            return;
        }
    }
    n->failed |= !out->text || (chain && !name);
    free(out->text);
    out->text = NULL;
    n->indices[site->index] = name ? name->index : 0;
}

static bool name_sites(struct gm_objects *o, struct gm_reader *reader) {
    struct naming n = {.reader = reader, .o = o};
    struct named_site *name, *next;
    struct gm_site site;
    size_t count = gm_reader_site_count(reader);
    o->sites = calloc(count + 2, sizeof *o->sites);
    n.indices = calloc(count + 1, sizeof *n.indices);
    o->site_count = 1;
    if (o->sites && n.indices && (o->sites[0].text = strdup(""))) {
        gm_reader_each_site(reader, add_site, &n);
        for (size_t i = 0; i < o->count; i++)
            o->list[i].site = gm_reader_site(reader, o->list[i].site, &site) ? n.indices[site.index] : 0;
    } else {
        n.failed = true;
    }
    HASH_ITER(hh, n.names, name, next) {
        HASH_DEL(n.names, name);
        free(name);
    }
    free(n.indices);
    return !n.failed;
}

/* ---- reading a trace */

struct gm_objects *gm_objects_read(struct gm_reader *reader) {
    struct pass p = {.o = calloc(1, sizeof *p.o)};
    struct gm_event event;
    struct gm_device device;
    int id;
    p.failed = !p.o;
    while (!p.failed && gm_reader_next(reader, &event, &id))
        on_event(&p, &event, id);
    p.failed = p.failed || !name_sites(p.o, reader);
    for (unsigned i = 0; !p.failed && gm_reader_device(reader, i, &device); i++)
        if (device.device >= 0 && device.device < 64)
            p.o->device_bytes[device.device] = device.total;
    gm_thread_numbers_free(&p.threads);
    gm_live_blocks_free(&p.live);
    if (p.failed) {
        gm_objects_free(p.o);
        return NULL;
    }
    return p.o;
}

void gm_objects_free(struct gm_objects *o) {
    if (!o)
        return;
    for (size_t i = 0; o->sites && i < o->site_count; i++)
        free(o->sites[i].text);
    free(o->sites);
    free(o->list);
    free(o->order);
    free(o);
}

struct gm_request gm_object_request(const struct gm_objects *o, const struct gm_object *object) {
    const struct gm_site_keys *where = &o->sites[object->site].keys;
    return (struct gm_request){
        .call = (enum gm_call)object->call,
        .size = object->bytes,
        .device = object->device,
        .capturing = (object->flags & GM_EVENT_CAPTURING) != 0,
        .per_thread = (object->flags & GM_EVENT_PER_THREAD) != 0,
        .stream = object->stream,
        .context = 1,
        .thread = object->thread,
        .object = object->id,
        .where = where->chain ? where : NULL,
    };
}
