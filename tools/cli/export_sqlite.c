/* Exports an SQLite database with the whole trace. gpumem(1) documents the schema. Times are nanoseconds since the
 * trace began, sizes are bytes, NULL means unknown. */
#include "tools/cli/export.h"
#include "tools/cli/phases.h"
#include "tools/cli/shown.h"

#ifdef GM_HAVE_SQLITE
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

static const char schema[] =
    "PRAGMA page_size=16384; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;"
    "PRAGMA cache_size=-131072; BEGIN;" /* 128 MiB: blocks are inserted when they end, not in the order of their numbers
                                         */
    "CREATE TABLE trace(pid INTEGER, parent INTEGER, rank INTEGER, host TEXT, program TEXT, policy TEXT,"
    " library TEXT, epoch_ns INTEGER, finished INTEGER, lost_events INTEGER);"
    "CREATE TABLE devices(device INTEGER, name TEXT, bytes INTEGER);"
    "CREATE TABLE frames(site INTEGER, depth INTEGER, text TEXT, function TEXT, file TEXT, line INTEGER,"
    " module TEXT, offset INTEGER, PRIMARY KEY(site, depth)) WITHOUT ROWID;"
    "CREATE TABLE blocks(number INTEGER PRIMARY KEY, address INTEGER, bytes INTEGER, bytes_got INTEGER,"
    " kind TEXT, call TEXT, device INTEGER, context INTEGER, stream INTEGER, thread INTEGER, site INTEGER,"
    " hit INTEGER, born_ns INTEGER, ended_ns INTEGER, ended_by TEXT);"
    "CREATE TABLE events(seq INTEGER, time_ns INTEGER, duration_ns INTEGER, action TEXT, call TEXT,"
    " address INTEGER, bytes INTEGER, kind TEXT, reason TEXT, device INTEGER, context INTEGER, stream "
    "INTEGER,"
    " thread INTEGER, site INTEGER, result INTEGER);"
    "CREATE TABLE memory(time_ns INTEGER, live INTEGER, kept INTEGER, reserved INTEGER, device INTEGER);"
    "CREATE TABLE phases(name TEXT, kind TEXT, thread INTEGER, depth INTEGER, begin_ns INTEGER, ended_ns "
    "INTEGER);";

/* SQLite sorts the index in pieces of the size of its cache. Small pieces fit the processor's caches. */
static const char finish[] = "PRAGMA cache_size=-4096; CREATE INDEX blocks_site ON blocks(site); COMMIT;";

enum { COLUMNS = 16 };

/* A statement that runs for each row of a large table. A column keeps its value until it gets another one. Most values
 * repeat those of the row before, and binding takes as long as storing. */
struct repeated {
    sqlite3_stmt *statement;
    enum { NOTHING, NUMBER, WORD, ABSENT } types[COLUMNS];
    uint64_t values[COLUMNS];
};

struct database {
    struct gm_observer observer;
    struct gm_export *x;
    sqlite3 *db;
    struct repeated block, event, memory;
    struct gm_export_amounts amounts;
    struct gm_amounts on[GM_DEVICES]; /* of each device, if the process used several */
    bool several;
    sqlite3_stmt *phase;
    struct gm_phases *phases;
    bool failed;
};

static void bind(sqlite3_stmt *s, int at, uint64_t value) { sqlite3_bind_int64(s, at, (sqlite3_int64)value); }

static void bind_text(sqlite3_stmt *s, int at, const char *text) {
    if (text && *text)
        sqlite3_bind_text(s, at, text, -1, SQLITE_TRANSIENT);
    else
        sqlite3_bind_null(s, at);
}

/* Binds a string that lives as long as the program. */
static void bind_word(sqlite3_stmt *s, int at, const char *text) { sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC); }

static bool is_bound(struct repeated *r, int at, int type, uint64_t value) {
    if ((int)r->types[at] == type && r->values[at] == value)
        return true;
    r->types[at] = type;
    r->values[at] = value;
    return false;
}

static void put(struct repeated *r, int at, uint64_t value) {
    if (!is_bound(r, at, NUMBER, value))
        bind(r->statement, at, value);
}

/* The word lives as long as the program; NULL is allowed. */
static void put_word(struct repeated *r, int at, const char *word) {
    if (is_bound(r, at, word ? WORD : ABSENT, (uintptr_t)word))
        return;
    if (word)
        bind_word(r->statement, at, word);
    else
        sqlite3_bind_null(r->statement, at);
}

static bool run(sqlite3_stmt *s) {
    int status = sqlite3_step(s);
    sqlite3_reset(s);
    return status == SQLITE_DONE;
}

static bool complain(struct database *d) {
    gm_complain("%s: %s", d->x->path, d->db ? sqlite3_errmsg(d->db) : "out of memory");
    return false;
}

static bool put_amounts(struct database *d, const struct gm_amounts *amounts) {
    struct repeated *r = &d->memory;
    put(r, 1, d->amounts.since_ns);
    put(r, 2, amounts->live);
    put(r, 3, amounts->kept);
    put(r, 4, amounts->reserved);
    return run(r->statement) || complain(d);
}

static bool put_devices_memory(struct database *d, const struct gm_analysis *now) {
    struct gm_device found;
    bool done = true;
    for (unsigned i = 0; done && gm_reader_device(d->x->reader, i, &found); i++) {
        unsigned device = gm_device_index(found.device);
        const struct gm_reserved_device *on = &now->reserved.on[device];
        struct gm_amounts amounts = {now->devices[device].live, on->kept, on->bytes};
        if (!memcmp(&amounts, &d->on[device], sizeof amounts))
            continue;
        d->on[device] = amounts;
        put(&d->memory, 5, device);
        done = put_amounts(d, &amounts);
    }
    put_word(&d->memory, 5, NULL);
    return done;
}

/* A row for the totals since the latest event, if they changed. `next`: the event after them, NULL at the end. */
static bool put_memory(struct database *d, const struct gm_analysis *now, const struct gm_event *next) {
    if (!gm_export_changed(&d->amounts, now, next))
        return true;
    return put_amounts(d, &d->amounts.amounts) && (!d->several || put_devices_memory(d, now));
}

static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct database *d = (struct database *)self;
    const struct gm_event *e = step->event;
    struct repeated *r = &d->event;
    if (d->x->only_blocks)
        return gm_phases_event(d->phases, e, step->thread) && !d->failed;
    if (!put_memory(d, step->now, e))
        return false;
    put(r, 1, e->seq);
    put(r, 2, e->time_ns);
    put(r, 3, e->duration_ns);
    put_word(r, 4, gm_action_name((enum gm_action)e->action));
    put_word(r, 5, gm_call_name((enum gm_call)e->call));
    put(r, 6, e->address);
    put(r, 7, e->bytes);
    put_word(r, 8, gm_kind_name((enum gm_kind)e->kind));
    put_word(r, 9, gm_reason_name((enum gm_reason)e->reason));
    put(r, 10, (uint64_t)(int64_t)e->device);
    put(r, 11, e->context);
    put(r, 12, e->stream);
    put(r, 13, (uint64_t)(int64_t)step->thread);
    put(r, 14, e->site);
    put(r, 15, e->result);
    return (run(r->statement) || complain(d)) && gm_phases_event(d->phases, e, step->thread) && !d->failed;
}

static void put_phase(const struct gm_phase *phase, uint64_t ended_ns, void *arg) {
    struct database *d = arg;
    bind_text(d->phase, 1, gm_reader_string(d->x->reader, phase->text));
    bind_word(d->phase, 2, gm_phase_kind_name(phase->kind));
    if (phase->kind == GM_PHASE_NESTED)
        bind(d->phase, 3, (uint64_t)(int64_t)phase->thread);
    else
        sqlite3_bind_null(d->phase, 3);
    bind(d->phase, 4, phase->depth);
    bind(d->phase, 5, phase->begin_ns);
    bind(d->phase, 6, ended_ns);
    d->failed |= !run(d->phase) && !complain(d);
}

static bool put_block(struct database *d, const struct gm_step *step, const char *ended_by) {
    const struct gm_live_block *b = step->block;
    struct repeated *r = &d->block;
    put(r, 1, b->number);
    put(r, 2, gm_live_block_address(b));
    put(r, 3, b->bytes);
    put(r, 4, b->bytes + b->slack);
    put_word(r, 5, gm_kind_name((enum gm_kind)b->kind));
    put_word(r, 6, gm_call_name((enum gm_call)b->call));
    put(r, 7, (uint64_t)(int64_t)b->device);
    put(r, 8, b->context);
    put(r, 9, gm_live_block_stream(b));
    put(r, 10, (uint64_t)(int64_t)b->thread);
    put(r, 11, b->site);
    put(r, 12, b->hit);
    put(r, 13, b->created_ns);
    if (ended_by)
        put(r, 14, step->time_ns);
    else
        put_word(r, 14, NULL);
    put_word(r, 15, ended_by);
    return run(r->statement) || complain(d);
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    enum gm_action action = (enum gm_action)step->event->action;
    return put_block((struct database *)self, step,
                     action == GM_ACT_FREE    ? "free"
                     : action == GM_ACT_ALLOC ? "replaced"
                                              : "release");
}

static bool alive_at_end(struct gm_observer *self, const struct gm_step *step) {
    return put_block((struct database *)self, step, NULL);
}

static bool prepare(struct database *d, const char *sql, sqlite3_stmt **out) {
    return sqlite3_prepare_v2(d->db, sql, -1, out, NULL) == SQLITE_OK;
}

static void close_database(struct database *d) {
    sqlite3_finalize(d->block.statement);
    sqlite3_finalize(d->event.statement);
    sqlite3_finalize(d->memory.statement);
    sqlite3_finalize(d->phase);
    sqlite3_close(d->db);
    gm_phases_free(d->phases);
    free(d);
}

static struct gm_observer *begin(struct gm_export *x) {
    struct database *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->observer = (struct gm_observer){event, NULL, destroyed, alive_at_end};
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD); /* else each call takes a lock */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    d->x = x;
    d->several = gm_reader_device(x->reader, 1, &(struct gm_device){0});
    if (!(d->phases = gm_phases_new(put_phase, d))) {
        free(d);
        return NULL;
    }
    if (sqlite3_open_v2(x->path, &d->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) == SQLITE_OK &&
        sqlite3_exec(d->db, schema, NULL, NULL, NULL) == SQLITE_OK &&
        prepare(d, "INSERT INTO blocks VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", &d->block.statement) &&
        prepare(d, "INSERT INTO events VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", &d->event.statement) &&
        prepare(d, "INSERT INTO memory VALUES(?,?,?,?,?)", &d->memory.statement) &&
        prepare(d, "INSERT INTO phases VALUES(?,?,?,?,?,?)", &d->phase))
        return &d->observer;
    complain(d);
    close_database(d);
    return NULL;
}

static bool put_trace(struct database *d, const struct gm_trace_header *h) {
    sqlite3_stmt *s = NULL;
    if (!prepare(d, "INSERT INTO trace VALUES(?,?,?,?,?,?,?,?,?,?)", &s))
        return false;
    bind(s, 1, (uint64_t)(int64_t)h->pid);
    bind(s, 2, (uint64_t)(int64_t)h->parent);
    if (h->rank >= 0)
        bind(s, 3, (uint64_t)h->rank);
    bind_text(s, 4, h->host);
    bind_text(s, 5, h->program);
    bind_text(s, 6, h->policy);
    bind_text(s, 7, h->library);
    bind(s, 8, h->epoch_ns);
    bind(s, 9, h->finished);
    bind(s, 10, h->dropped);
    bool done = run(s);
    sqlite3_finalize(s);
    return done;
}

static bool put_devices(struct database *d) {
    sqlite3_stmt *s = NULL;
    struct gm_device device;
    bool done = prepare(d, "INSERT INTO devices VALUES(?,?,?)", &s);
    for (unsigned i = 0; done && gm_reader_device(d->x->reader, i, &device); i++) {
        bind(s, 1, (uint64_t)(int64_t)device.device);
        bind_text(s, 2, device.name);
        bind(s, 3, device.total);
        done = run(s);
    }
    sqlite3_finalize(s);
    return done;
}

static bool put_frames(struct database *d, const struct gm_analysis *a) {
    sqlite3_stmt *s = NULL;
    bool done = prepare(d, "INSERT INTO frames VALUES(?,?,?,?,?,?,?,?)", &s);
    for (size_t i = 0; done && i < a->site_count; i++) {
        unsigned count;
        if (a->sites[i].other) /* on another device */
            continue;
        const struct gm_frame_name *names = gm_export_stack(d->x, a->sites[i].id, &count);
        for (unsigned f = 0; done && f < count; f++) {
            bind(s, 1, a->sites[i].id);
            bind(s, 2, f);
            bind_text(s, 3, names[f].text);
            bind_text(s, 4, names[f].function);
            bind_text(s, 5, names[f].file);
            if (names[f].line)
                bind(s, 6, (uint64_t)names[f].line);
            else
                sqlite3_bind_null(s, 6);
            bind_text(s, 7, names[f].module);
            bind(s, 8, names[f].offset);
            done = run(s);
        }
    }
    sqlite3_finalize(s);
    return done;
}

static bool end(struct gm_export *x, struct gm_observer *observer, const struct gm_analysis *a) {
    struct database *d = (struct database *)observer;
    if (a)
        gm_phases_end(d->phases, a->end_ns);
    bool done = a && !d->failed && (d->x->only_blocks || put_memory(d, a, NULL)) && put_trace(d, x->header) &&
                put_devices(d) && put_frames(d, a) && sqlite3_exec(d->db, finish, NULL, NULL, NULL) == SQLITE_OK;
    if (a && !done)
        complain(d);
    close_database(d);
    return done;
}

const struct gm_exporter gm_exporter_sqlite = {"sqlite", true, false, begin, end};
#else
const struct gm_exporter gm_exporter_sqlite = {.name = "sqlite"};
#endif
