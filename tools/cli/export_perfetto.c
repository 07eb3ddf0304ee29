/* Exports a trace of Perfetto, as protobuf messages (protos/perfetto/trace of google/perfetto has the fields). Each
 * device has counters of live, kept and reserved bytes. Blocks are slices.
 * Slices of one track must not overlap, so a block takes a free track of its kind. Failed requests, trims, suspends
 * and resumes are instants. Times are ns. */
#include "tools/cli/export.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* ---- messages */

enum { ROOM = 2048 }; /* bytes of a message; names are cut to fit */

struct message {
    unsigned char bytes[ROOM];
    size_t used;
};

static void put_varint(struct message *m, uint64_t value) {
    if (m->used + 10 > ROOM)
        return;
    for (; value > 127; value >>= 7)
        m->bytes[m->used++] = (unsigned char)(value | 128);
    m->bytes[m->used++] = (unsigned char)value;
}

static void put_number(struct message *m, unsigned field, uint64_t value) {
    put_varint(m, field << 3);
    put_varint(m, value);
}

static void put_bytes(struct message *m, unsigned field, const void *bytes, size_t size) {
    if (m->used + size + 20 > ROOM)
        return;
    put_varint(m, field << 3 | 2);
    put_varint(m, size);
    memcpy(m->bytes + m->used, bytes, size);
    m->used += size;
}

static void put_text(struct message *m, unsigned field, const char *text) {
    size_t size = strlen(text);
    put_bytes(m, field, text, size < ROOM / 4 ? size : ROOM / 4);
}

static void put_message(struct message *m, unsigned field, const struct message *inner) {
    put_bytes(m, field, inner->bytes, inner->used);
}

/* Fields of the messages. */
enum { TRACE_PACKET = 1 };
enum {
    PACKET_TIME = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_TRACK = 60
};
enum { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_PARENT = 5, TRACK_COUNTER = 8 };
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { COUNTER_UNIT = 3, UNIT_BYTES = 3 };
enum { EVENT_NOTE = 4, EVENT_TYPE = 9, EVENT_NAME_ID = 10, EVENT_TRACK = 11, EVENT_NAME = 23, EVENT_VALUE = 30 };
enum { SLICE_BEGIN = 1, SLICE_END, INSTANT, COUNTER };
enum { INTERNED_NAME = 2, INTERNED_NOTE = 3, INTERNED_ID = 1, INTERNED_TEXT = 2 };
enum { NOTE_ID = 1, NOTE_NUMBER = 3, NOTE_POINTER = 7 };
enum { FLAG_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum note { NOTE_BYTES = 1, NOTE_ADDRESS, NOTE_DEVICE, NOTE_RESULT, NOTES };

/* ---- tracks: the process has number 1 */

enum amount { LIVE, KEPT, RESERVED, AMOUNTS };
static const char *const amount_names[AMOUNTS] = {"live", "kept", "reserved"};

struct site_name {
    uint32_t site;
    UT_hash_handle hh;
};

struct open_block {
    uint64_t number;
    uint64_t track;
    UT_hash_handle hh;
};

struct tracks { /* of the blocks of one kind */
    uint64_t parent;
    uint64_t *free; /* array: tracks without a block now, the last one first */
    size_t free_count, room;
};

struct perfetto {
    struct gm_observer observer;
    struct gm_export *x;
    uint64_t last_track;
    struct site_name *names;
    struct open_block *open;
    struct tracks of[GM_KIND_COUNT];
    uint64_t device_counter[GM_DEVICES][AMOUNTS];
    uint64_t shown[GM_DEVICES][AMOUNTS];
    uint64_t event_ns; /* end of the latest event: the totals are so from then on */
};

static bool write_packet(struct perfetto *p, const struct message *packet) {
    struct message head;
    head.used = 0;
    put_varint(&head, TRACE_PACKET << 3 | 2);
    put_varint(&head, packet->used);
    return fwrite(head.bytes, 1, head.used, p->x->out) == head.used &&
           fwrite(packet->bytes, 1, packet->used, p->x->out) == packet->used;
}

static void begin_packet(struct message *packet) {
    packet->used = 0;
    put_number(packet, PACKET_SEQUENCE, 1);
    put_number(packet, PACKET_FLAGS, FLAG_NEEDS_STATE);
}

/* Describes a track below `parent`. Returns its number, 0 = not written. */
static uint64_t new_track(struct perfetto *p, uint64_t parent, const char *name, bool counter) {
    struct message packet, track, unit;
    track.used = 0;
    unit.used = 0;
    begin_packet(&packet);
    put_number(&track, TRACK_UUID, ++p->last_track);
    put_number(&track, TRACK_PARENT, parent);
    put_text(&track, TRACK_NAME, name);
    put_number(&unit, COUNTER_UNIT, UNIT_BYTES);
    if (counter)
        put_message(&track, TRACK_COUNTER, &unit);
    put_message(&packet, PACKET_TRACK, &track);
    return write_packet(p, &packet) ? p->last_track : 0;
}

/* A free track for a block, 0 = no memory. */
static uint64_t take_track(struct perfetto *p, enum gm_kind kind) {
    struct tracks *t = &p->of[kind];
    char name[64];
    snprintf(name, sizeof name, "blocks, %s", gm_kind_name(kind));
    if (!t->parent)
        t->parent = new_track(p, 1, name, false);
    return t->free_count ? t->free[--t->free_count] : new_track(p, t->parent, name, false);
}

static bool give_track(struct perfetto *p, enum gm_kind kind, uint64_t track) {
    struct tracks *t = &p->of[kind];
    if (t->free_count == t->room) {
        size_t room = t->room ? 2 * t->room : 64;
        uint64_t *grown = realloc(t->free, room * sizeof *grown);
        if (!grown)
            return false;
        t->free = grown;
        t->room = room;
    }
    t->free[t->free_count++] = track;
    return true;
}

/* ---- events */

static void put_note(struct message *event, enum note name, unsigned field, uint64_t value) {
    struct message note;
    note.used = 0;
    put_number(&note, NOTE_ID, name);
    put_number(&note, field, value);
    put_message(event, EVENT_NOTE, &note);
}

static bool put_counter(struct perfetto *p, uint64_t time_ns, uint64_t track, uint64_t value) {
    struct message packet, event;
    event.used = 0;
    begin_packet(&packet);
    put_number(&packet, PACKET_TIME, time_ns);
    put_number(&event, EVENT_TYPE, COUNTER);
    put_number(&event, EVENT_TRACK, track);
    put_number(&event, EVENT_VALUE, value);
    put_message(&packet, PACKET_EVENT, &event);
    return track && write_packet(p, &packet);
}

/* Adds the name of the site to the packet if it is the first one with it. */
static bool intern(struct perfetto *p, struct message *packet, uint32_t site) {
    struct gm_frame_name frame;
    struct site_name *name;
    HASH_FIND(hh, p->names, &site, sizeof site, name);
    if (name)
        return true;
    if (!(name = malloc(sizeof *name)))
        return false;
    name->site = site;
    HASH_ADD(hh, p->names, site, sizeof site, name);
    gm_symbols_site(p->x->symbols, site, &frame);
    struct message interned, entry;
    interned.used = 0;
    entry.used = 0;
    put_number(&entry, INTERNED_ID, site + 1ull);
    put_text(&entry, INTERNED_TEXT, frame.text);
    put_message(&interned, INTERNED_NAME, &entry);
    put_message(packet, PACKET_INTERNED, &interned);
    return true;
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    struct perfetto *p = (struct perfetto *)self;
    const struct gm_live_block *b = step->block;
    struct open_block *open = malloc(sizeof *open);
    struct message packet, event;
    event.used = 0;
    if (!open)
        return false;
    *open = (struct open_block){.number = b->number, .track = take_track(p, (enum gm_kind)b->kind)};
    HASH_ADD(hh, p->open, number, sizeof open->number, open);
    begin_packet(&packet);
    put_number(&packet, PACKET_TIME, step->time_ns);
    if (!open->track || !intern(p, &packet, b->site))
        return false;
    put_number(&event, EVENT_TYPE, SLICE_BEGIN);
    put_number(&event, EVENT_TRACK, open->track);
    put_number(&event, EVENT_NAME_ID, b->site + 1ull);
    put_note(&event, NOTE_BYTES, NOTE_NUMBER, b->bytes);
    put_note(&event, NOTE_ADDRESS, NOTE_POINTER, gm_live_block_address(b));
    put_note(&event, NOTE_DEVICE, NOTE_NUMBER, gm_device_index(b->device));
    put_message(&packet, PACKET_EVENT, &event);
    return write_packet(p, &packet);
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    struct perfetto *p = (struct perfetto *)self;
    struct open_block *open;
    struct message packet, event;
    event.used = 0;
    HASH_FIND(hh, p->open, &step->block->number, sizeof open->number, open);
    if (!open)
        return true;
    begin_packet(&packet);
    put_number(&packet, PACKET_TIME, step->time_ns);
    put_number(&event, EVENT_TYPE, SLICE_END);
    put_number(&event, EVENT_TRACK, open->track);
    put_message(&packet, PACKET_EVENT, &event);
    bool done = write_packet(p, &packet) && give_track(p, (enum gm_kind)step->block->kind, open->track);
    HASH_DEL(p->open, open);
    free(open);
    return done;
}

/* Writes the amounts that changed since the latest event. */
static bool put_amounts(struct perfetto *p, const struct gm_analysis *now) {
    bool done = true;
    for (unsigned device = 0; device < GM_DEVICES && done; device++) {
        if (!gm_analysis_has_device(now, device))
            continue;
        struct gm_amounts a = gm_analysis_amounts_on(now, device);
        const uint64_t values[AMOUNTS] = {a.live, a.kept, a.reserved};
        for (int i = 0; i < AMOUNTS && done; i++) {
            if (values[i] == p->shown[device][i])
                continue;
            char name[48];
            snprintf(name, sizeof name, "device %u, %s", device, amount_names[i]);
            if (!p->device_counter[device][i])
                p->device_counter[device][i] = new_track(p, 1, name, true);
            done = put_counter(p, p->event_ns, p->device_counter[device][i], values[i]);
            p->shown[device][i] = values[i];
        }
    }
    return done;
}

static bool moves(const struct gm_event *e) { return e->action == GM_ACT_SUSPEND || e->action == GM_ACT_RESUME; }

static bool put_instant(struct perfetto *p, const struct gm_event *e) {
    struct message packet, event;
    event.used = 0;
    char name[96];
    snprintf(name, sizeof name, "%s%s%s", moves(e) ? "" : gm_call_name((enum gm_call)e->call), moves(e) ? "" : " ",
             gm_action_name((enum gm_action)e->action));
    begin_packet(&packet);
    put_number(&packet, PACKET_TIME, e->time_ns);
    put_number(&event, EVENT_TYPE, INSTANT);
    put_number(&event, EVENT_TRACK, 1);
    put_text(&event, EVENT_NAME, name);
    put_note(&event, NOTE_BYTES, NOTE_NUMBER, e->bytes);
    put_note(&event, NOTE_DEVICE, NOTE_NUMBER, gm_device_index(e->device));
    put_note(&event, NOTE_RESULT, NOTE_NUMBER, e->result);
    put_message(&packet, PACKET_EVENT, &event);
    return write_packet(p, &packet);
}

static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct perfetto *p = (struct perfetto *)self;
    const struct gm_event *e = step->event;
    bool done = put_amounts(p, step->now);
    uint64_t end_ns = e->time_ns + (e->action == GM_ACT_ALLOC ? e->duration_ns : 0);
    p->event_ns = end_ns > p->event_ns ? end_ns : p->event_ns;
    if (e->action == GM_ACT_ALLOC_FAIL || e->action == GM_ACT_FREE_FAIL || gm_event_is_own_trim(e) || moves(e))
        done = done && put_instant(p, e);
    return done;
}

/* ---- the trace */

static bool put_process(struct perfetto *p) {
    static const char *const notes[NOTES] = {
        [NOTE_BYTES] = "bytes", [NOTE_ADDRESS] = "address", [NOTE_DEVICE] = "device", [NOTE_RESULT] = "result"};
    struct message packet, track, process, interned;
    packet.used = 0;
    track.used = 0;
    process.used = 0;
    interned.used = 0;
    put_number(&packet, PACKET_SEQUENCE, 1);
    put_number(&packet, PACKET_FLAGS, FLAG_CLEARED | FLAG_NEEDS_STATE);
    for (unsigned i = 1; i < NOTES; i++) {
        struct message entry;
        entry.used = 0;
        put_number(&entry, INTERNED_ID, i);
        put_text(&entry, INTERNED_TEXT, notes[i]);
        put_message(&interned, INTERNED_NOTE, &entry);
    }
    put_message(&packet, PACKET_INTERNED, &interned);
    put_number(&process, PROCESS_PID, (uint64_t)p->x->header->pid);
    put_text(&process, PROCESS_NAME, p->x->header->program);
    put_number(&track, TRACK_UUID, ++p->last_track);
    put_message(&track, TRACK_PROCESS, &process);
    put_message(&packet, PACKET_TRACK, &track);
    return write_packet(p, &packet);
}

static void free_all(struct perfetto *p) {
    struct site_name *name, *next_name;
    struct open_block *open, *next_open;
    HASH_ITER(hh, p->names, name, next_name) {
        HASH_DEL(p->names, name);
        free(name);
    }
    HASH_ITER(hh, p->open, open, next_open) {
        HASH_DEL(p->open, open);
        free(open);
    }
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        free(p->of[kind].free);
    free(p);
}

static struct gm_observer *begin(struct gm_export *x) {
    struct perfetto *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->observer = (struct gm_observer){event, created, destroyed, NULL};
    p->x = x;
    if (put_process(p))
        return &p->observer;
    free_all(p);
    return NULL;
}

static bool end(struct gm_export *x, struct gm_observer *observer, const struct gm_analysis *a) {
    struct perfetto *p = (struct perfetto *)observer;
    bool done = !a || put_amounts(p, a);
    free_all(p);
    return done;
}

const struct gm_exporter gm_exporter_perfetto = {"perfetto", false, false, begin, end};
