#include "tools/cli/analysis_pass.h"

#include <stdlib.h>

struct gm_site_totals *gm_pass_site(struct gm_analysis_pass *p, uint32_t id, int device_or_none) {
    if (id >= SITE_IDS)
        id = 0;
    struct gm_analysis *a = p->a;
    int device = (int)gm_device_index(device_or_none);
    uint32_t at = p->recent_site;
    if (at && a->sites[at - 1].id == id && a->sites[at - 1].device == device)
        return &a->sites[at - 1];
    at = p->site_index[id];
    while (at && a->sites[at - 1].device != device)
        at = a->sites[at - 1].other;
    if (!at) {
        if (a->site_count == p->site_room) {
            size_t room = p->site_room ? 2 * p->site_room : 256;
            struct gm_site_totals *sites = realloc(a->sites, room * sizeof *sites);
            if (!sites) {
                p->failed = true;
                return NULL;
            }
            a->sites = sites;
            p->site_room = room;
        }
        a->sites[a->site_count] = (struct gm_site_totals){.id = id, .device = device, .other = p->site_index[id]};
        p->site_index[id] = at = (uint32_t)++a->site_count;
    }
    p->recent_site = at;
    return &a->sites[at - 1];
}

void gm_pass_size(struct gm_analysis_pass *p, uint64_t size) {
    struct size_entry **recent = &p->recent_sizes[(size * UINT64_C(0x9e3779b97f4a7c15)) >> 54], *s = *recent;
    if (!s || s->totals.size != size)
        HASH_FIND(hh, p->sizes, &size, sizeof size, s);
    if (!s) {
        if (HASH_COUNT(p->sizes) >= SIZES_MAX) {
            p->a->sizes_cut = true;
            return;
        }
        s = calloc(1, sizeof *s);
        if (!s) {
            p->failed = true;
            return;
        }
        s->totals.size = size;
        HASH_ADD(hh, p->sizes, totals.size, sizeof size, s);
    }
    s->totals.count++;
    *recent = s;
}

struct thread_entry *gm_pass_thread(struct gm_analysis_pass *p, int id) {
    struct thread_entry *t = p->last_thread;
    if (t && t->id == id)
        return t;
    HASH_FIND_INT(p->threads, &id, t);
    if (!t) {
        t = calloc(1, sizeof *t);
        if (!t) {
            p->failed = true;
            return NULL;
        }
        t->id = id;
        HASH_ADD_INT(p->threads, id, t);
    }
    return p->last_thread = t;
}
