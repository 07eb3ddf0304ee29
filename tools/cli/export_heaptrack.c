/* Exports the text format of heaptrack, version 3, which heaptrack_print and heaptrack_gui read. All numbers are
 * hexadecimal, indices start at 1 (0 = none), allocation kinds at 0. Device memory takes the part of the heap. A
 * block's allocation kind is that of its size and stack. */
#include "tools/cli/export.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define FORMAT  3
#define VERSION 0x10400 /* of the first heaptrack that wrote format 3 */

struct text {
    uint32_t index;
    UT_hash_handle hh;
    char text[];
};

/* Tables: instruction pointers by source location, traces by pointer and parent, allocation kinds by size and site. */
struct pair {
    struct {
        uint64_t first, second;
    } key;
    uint32_t index;
    UT_hash_handle hh;
};

struct heaptrack {
    struct gm_observer observer;
    struct gm_export *x;
    struct text *strings, *locations;
    struct pair *traces, *allocations, *sites;
    uint64_t last_ms;
};

static bool number(struct text **table, const char *text, bool *fresh, uint32_t *index) {
    struct text *t;
    HASH_FIND_STR(*table, text, t);
    *fresh = !t;
    if (!t) {
        size_t bytes = strlen(text) + 1;
        t = malloc(sizeof *t + bytes);
        if (!t)
            return false;
        memcpy(t->text, text, bytes);
        t->index = HASH_COUNT(*table) + 1;
        HASH_ADD_STR(*table, text, t);
    }
    *index = t->index;
    return true;
}

static bool number_pair(struct pair **table, uint64_t first, uint64_t second, bool *fresh, struct pair **out) {
    struct pair *p, look = {.key = {first, second}};
    HASH_FIND(hh, *table, &look.key, sizeof look.key, p);
    *fresh = !p;
    if (!p) {
        p = malloc(sizeof *p);
        if (!p)
            return false;
        p->key = look.key;
        p->index = HASH_COUNT(*table) + 1;
        HASH_ADD(hh, *table, key, sizeof p->key, p);
    }
    *out = p;
    return true;
}

static bool put_string(struct heaptrack *h, const char *text, uint32_t *index) {
    bool fresh;
    *index = 0;
    if (!*text)
        return true;
    if (!number(&h->strings, text, &fresh, index))
        return false;
    if (fresh)
        fprintf(h->x->out, "s %zx %s\n", strlen(text), text);
    return true;
}

static bool put_location(struct heaptrack *h, const struct gm_frame_name *name, uint32_t *index) {
    char key[1200];
    bool fresh;
    uint32_t module, function, file;
    snprintf(key, sizeof key, "%s|%s|%s|%d", name->module, name->text, name->file, name->line);
    if (!number(&h->locations, key, &fresh, index))
        return false;
    if (!fresh)
        return true;
    if (!put_string(h, name->module, &module) ||
        !put_string(h, name->function[0] ? name->function : name->text, &function) || !put_string(h, name->file, &file))
        return false;
    fprintf(h->x->out, "i %" PRIx64 " %x %x", name->offset ? name->offset : *index, module, function);
    if (file)
        fprintf(h->x->out, " %x %x", file, (unsigned)name->line);
    putc('\n', h->x->out);
    return true;
}

/* Writes the site's stack as a chain of traces: each names an instruction pointer and its caller. */
static bool put_stack(struct heaptrack *h, uint32_t site, uint32_t *index) {
    unsigned count;
    bool fresh;
    struct pair *known, *trace;
    if (!number_pair(&h->sites, site, 0, &fresh, &known))
        return false;
    if (!fresh) {
        *index = known->index;
        return true;
    }
    const struct gm_frame_name *names = gm_export_stack(h->x, site, &count);
    uint32_t location, parent = 0;
    for (unsigned f = count; f-- > 0;) {
        if (!put_location(h, &names[f], &location) || !number_pair(&h->traces, location, parent, &fresh, &trace))
            return false;
        if (fresh)
            fprintf(h->x->out, "t %x %x\n", location, parent);
        parent = trace->index;
    }
    *index = known->index = parent;
    return true;
}

static void put_time(struct heaptrack *h, uint64_t ns) {
    if (ns / 1000000 <= h->last_ms)
        return;
    h->last_ms = ns / 1000000;
    fprintf(h->x->out, "c %" PRIx64 "\n", h->last_ms);
}

static bool put_block(struct heaptrack *h, const struct gm_step *step, char sign) {
    const struct gm_live_block *b = step->block;
    struct pair *kind;
    bool fresh;
    uint32_t trace;
    if (!gm_export_on_device(b))
        return true;
    if (!number_pair(&h->allocations, b->bytes, b->site, &fresh, &kind))
        return false;
    if (fresh) {
        if (!put_stack(h, b->site, &trace))
            return false;
        fprintf(h->x->out, "a %" PRIx64 " %x\n", b->bytes, trace);
    }
    put_time(h, step->time_ns);
    return fprintf(h->x->out, "%c %x\n", sign, kind->index - 1) > 0;
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    return put_block((struct heaptrack *)self, step, '+');
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    return put_block((struct heaptrack *)self, step, '-');
}

static struct gm_observer *begin(struct gm_export *x) {
    struct heaptrack *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->observer = (struct gm_observer){.created = created, .destroyed = destroyed};
    h->x = x;
    fprintf(x->out, "v %x %x\nX %s\nI 1000 0\n", VERSION, FORMAT,
            x->header->program[0] ? x->header->program : "unknown");
    return &h->observer;
}

static void free_texts(struct text *table) {
    struct text *t, *next;
    HASH_ITER(hh, table, t, next) {
        HASH_DEL(table, t);
        free(t);
    }
}

static void free_pairs(struct pair *table) {
    struct pair *p, *next;
    HASH_ITER(hh, table, p, next) {
        HASH_DEL(table, p);
        free(p);
    }
}

static bool end(struct gm_export *x, struct gm_observer *observer, const struct gm_analysis *a) {
    struct heaptrack *h = (struct heaptrack *)observer;
    if (a)
        put_time(h, a->end_ns);
    free_texts(h->strings);
    free_texts(h->locations);
    free_pairs(h->traces);
    free_pairs(h->allocations);
    free_pairs(h->sites);
    free(h);
    return true;
}

const struct gm_exporter gm_exporter_heaptrack = {"heaptrack", false, false, begin, end};
