/* Exports the pickle of torch.cuda.memory._snapshot(), which PyTorch's memory_viz shows: {"segments": [...],
 * "device_traces": [[...] for each device]}. Each block has a segment of its own with the same lifetime. memory_viz has
 * its own pickle reader, so the file uses only the opcodes of protocol 2 that it knows. It passes lists as arguments,
 * so lists are written in batches. Keys and stacks are written once, in an entry that no reader uses, and later refer
 * to their index in the memo. */
#include "tools/cli/export.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define DEVICES 64
#define BATCH   500

enum word {
    W_ACTION,
    W_ADDR,
    W_SIZE,
    W_STREAM,
    W_FRAMES,
    W_TIME,
    W_ALLOC,
    W_FREE_REQUESTED,
    W_FREE_COMPLETED,
    W_SEGMENT_ALLOC,
    W_SEGMENT_FREE,
    W_OOM,
    W_DEVICE_FREE,
    W_ADDRESS,
    W_TOTAL,
    W_ALLOCATED,
    W_ACTIVE,
    W_REQUESTED,
    W_SEGMENT_TYPE,
    W_LARGE,
    W_DEVICE,
    W_BLOCKS,
    W_STATE,
    W_ACTIVE_ALLOCATED,
    W_EXPANDABLE,
    W_POOL,
    WORDS
};
static const char *const words[WORDS] = {
    "action",        "addr",           "size",           "stream",         "frames",       "time_us",
    "alloc",         "free_requested", "free_completed", "segment_alloc",  "segment_free", "oom",
    "device_free",   "address",        "total_size",     "allocated_size", "active_size",  "requested_size",
    "segment_type",  "large",          "device",         "blocks",         "state",        "active_allocated",
    "is_expandable", "segment_pool_id"};
#define FRAMES_OF_NONE WORDS /* memo index of the empty list */
#define FRAMES_BASE    (WORDS + 1)

struct stack {
    uint32_t site, memo;
    UT_hash_handle hh;
};

struct list {
    FILE *file;
    unsigned in_batch;
};

struct torch {
    struct gm_observer observer;
    struct gm_export *x;
    struct stack *stacks;
    uint32_t memo; /* next free memo index */
    unsigned devices;
    struct list traces[DEVICES], segments;
    bool failed;
};

/* ---- opcodes: written at `p`, of which the end is returned */

static char *put_little(char *p, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        *p++ = (char)(value >> 8 * i & 255);
    return p;
}

static char *put_number(char *p, uint64_t value) {
    if (value < 256) {
        *p++ = 'K';
        return put_little(p, value, 1);
    }
    if (value <= INT32_MAX) {
        *p++ = 'J';
        return put_little(p, value, 4);
    }
    int bytes = 8 - __builtin_clzll(value) / 8; /* includes the sign bit */
    bytes += value >> (8 * bytes - 1) & 1;
    *p++ = (char)0x8a;
    *p++ = (char)bytes;
    p = put_little(p, value, bytes < 8 ? bytes : 8);
    if (bytes > 8)
        *p++ = 0;
    return p;
}

static char *put_memo(char *p, uint32_t memo) {
    *p++ = 'j';
    return put_little(p, memo, 4);
}

static char *put_pair(char *p, enum word key, uint64_t value) { return put_number(put_memo(p, key), value); }

static char *put_opcodes(char *p, const char *opcodes) {
    while (*opcodes)
        *p++ = *opcodes++;
    return p;
}

static void put_text(FILE *f, const char *text) {
    char length[5] = {'X'};
    put_little(length + 1, strlen(text), 4);
    fwrite(length, 1, sizeof length, f);
    for (; *text; text++)
        putc(*text & 0x80 ? '?' : *text, f);
}

static void remember(FILE *f, uint32_t memo) {
    char opcode[5] = {'r'};
    put_little(opcode + 1, memo, 4);
    fwrite(opcode, 1, sizeof opcode, f);
}

/* ---- lists
 * The pickle holds them one after the other, and a trace mixes the devices. The events of device 0, in most traces all,
 * go to the pickle at once; other lists grow in temporary files. */

static bool open_list(struct list *l) {
    if (l->file)
        return true;
    l->file = tmpfile();
    if (l->file)
        setvbuf(l->file, NULL, _IOFBF, 1 << 16);
    return l->file != NULL;
}

/* Writes one item, a finished piece of the pickle. */
static bool put_item(struct list *l, const char *item, const char *end) {
    if (l->in_batch == BATCH) {
        putc('e', l->file);
        l->in_batch = 0;
    }
    if (!l->in_batch++)
        putc('(', l->file);
    return fwrite(item, 1, (size_t)(end - item), l->file) == (size_t)(end - item);
}

static void end_batch(struct list *l) {
    if (l->in_batch)
        putc('e', l->file);
    l->in_batch = 0;
}

static bool copy_list(FILE *out, struct list *l) {
    char buffer[65536];
    size_t bytes;
    putc(']', out);
    if (!l->file)
        return true;
    end_batch(l);
    if (fflush(l->file) || ferror(l->file))
        return false;
    rewind(l->file);
    while ((bytes = fread(buffer, 1, sizeof buffer, l->file)) > 0)
        fwrite(buffer, 1, bytes, out);
    return !ferror(l->file);
}

/* ---- stacks */

static uint32_t frames_of(const struct torch *t, uint32_t site) {
    struct stack *s;
    HASH_FIND(hh, t->stacks, &site, sizeof site, s);
    return s ? s->memo : FRAMES_OF_NONE;
}

static void put_frames(struct torch *t, uint32_t site) {
    FILE *f = t->x->out;
    unsigned count;
    struct stack *s = malloc(sizeof *s);
    if (!s) {
        t->failed = true;
        return;
    }
    const struct gm_frame_name *names = gm_export_stack(t->x, site, &count);
    *s = (struct stack){.site = site, .memo = t->memo++};
    HASH_ADD(hh, t->stacks, site, sizeof site, s);
    putc(']', f);
    remember(f, s->memo);
    putc('(', f);
    for (unsigned i = 0; i < count; i++) {
        fputs("}(", f);
        put_text(f, "name");
        put_text(f, names[i].function[0] ? names[i].function : names[i].text);
        put_text(f, "filename");
        put_text(f, names[i].file[0] ? names[i].file : names[i].module);
        put_text(f, "line");
        char line[16];
        fwrite(line, 1, (size_t)(put_number(line, (uint64_t)names[i].line) - line), f);
        putc('u', f);
    }
    putc('e', f);
}

static void put_site(const struct gm_site *site, void *arg) { put_frames(arg, site->id); }

/* ---- events */

static struct list *trace_of(struct torch *t, int device) {
    unsigned at = device < 0 ? 0 : device < DEVICES ? (unsigned)device : DEVICES - 1;
    if (at >= t->devices)
        t->devices = at + 1;
    return open_list(&t->traces[at]) ? &t->traces[at] : NULL;
}

struct entry {
    enum word action;
    uint64_t address, bytes, stream, time_ns;
    uint32_t frames;
};

enum { ITEM = 256 }; /* room for one event or segment */

static bool put_event(struct torch *t, int device, const struct entry *e) {
    struct list *list = trace_of(t, device);
    char item[ITEM], *p = item;
    if (!list)
        return false;
    p = put_opcodes(p, "}(");
    p = put_memo(put_memo(p, W_ACTION), e->action);
    p = put_pair(p, e->action == W_OOM ? W_DEVICE_FREE : W_ADDR, e->address);
    p = put_pair(p, W_SIZE, e->bytes);
    p = put_pair(p, W_STREAM, e->stream);
    p = put_pair(p, W_TIME, (t->x->header->epoch_ns + e->time_ns) / 1000);
    p = put_memo(put_memo(p, W_FRAMES), e->frames);
    return put_item(list, item, put_opcodes(p, "u"));
}

static bool put_events(struct torch *t, const struct gm_step *step, const enum word *actions, int count) {
    const struct gm_live_block *b = step->block;
    struct entry e = {W_ALLOC,       gm_live_block_address(b), b->bytes, gm_live_block_stream(b),
                      step->time_ns, frames_of(t, b->site)};
    if (!gm_export_on_device(b))
        return true;
    for (int i = 0; i < count; i++) {
        bool segment = actions[i] == W_SEGMENT_ALLOC || actions[i] == W_SEGMENT_FREE;
        e.action = actions[i];
        e.bytes = segment ? b->bytes + b->slack : b->bytes;
        if (!put_event(t, b->device, &e))
            return false;
    }
    return true;
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    static const enum word actions[] = {W_SEGMENT_ALLOC, W_ALLOC};
    return put_events((struct torch *)self, step, actions, 2);
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    static const enum word actions[] = {W_FREE_REQUESTED, W_FREE_COMPLETED, W_SEGMENT_FREE};
    return put_events((struct torch *)self, step, actions, 3);
}

static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct torch *t = (struct torch *)self;
    const struct gm_event *e = step->event;
    struct gm_device device;
    uint64_t total = 0;
    if (e->action != GM_ACT_ALLOC_FAIL || e->result != GM_OUT_OF_MEMORY)
        return true;
    for (unsigned i = 0; gm_reader_device(t->x->reader, i, &device); i++)
        if (device.device == e->device)
            total = device.total;
    uint64_t rest = total > step->now->reserved.bytes ? total - step->now->reserved.bytes : 0;
    struct entry entry = {W_OOM, rest, e->bytes, e->stream, e->time_ns, frames_of(t, e->site)};
    return put_event(t, e->device, &entry);
}

/* Writes a block that is alive at the end as a segment with one block. */
static bool alive_at_end(struct gm_observer *self, const struct gm_step *step) {
    struct torch *t = (struct torch *)self;
    const struct gm_live_block *b = step->block;
    if (!gm_export_on_device(b))
        return true;
    if (!open_list(&t->segments) || !trace_of(t, b->device))
        return false;
    uint64_t address = gm_live_block_address(b), got = b->bytes + b->slack;
    uint32_t frames = frames_of(t, b->site);
    const struct {
        enum word key;
        uint64_t value;
    } numbers[] = {{W_DEVICE, b->device < 0 ? 0 : (uint64_t)b->device},
                   {W_ADDRESS, address},
                   {W_TOTAL, got},
                   {W_ALLOCATED, got},
                   {W_ACTIVE, got},
                   {W_REQUESTED, b->bytes},
                   {W_STREAM, gm_live_block_stream(b)}};
    char item[ITEM], *p = put_opcodes(item, "}(");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        p = put_pair(p, numbers[i].key, numbers[i].value);
    p = put_memo(put_memo(p, W_SEGMENT_TYPE), W_LARGE);
    p = put_opcodes(put_memo(p, W_EXPANDABLE), "\x89");
    p = put_number(put_number(put_memo(p, W_POOL), 0), 0);
    p = put_opcodes(p, "\x86");
    p = put_memo(put_memo(p, W_FRAMES), frames);
    p = put_opcodes(put_memo(p, W_BLOCKS), "](}(");
    p = put_pair(p, W_ADDRESS, address);
    p = put_pair(p, W_SIZE, got);
    p = put_pair(p, W_REQUESTED, b->bytes);
    p = put_memo(put_memo(p, W_STATE), W_ACTIVE_ALLOCATED);
    p = put_memo(put_memo(p, W_FRAMES), frames);
    return put_item(&t->segments, item, put_opcodes(p, "ueu"));
}

/* ---- begin and end */

static struct gm_observer *begin(struct gm_export *x) {
    struct torch *t = calloc(1, sizeof *t);
    FILE *f = x->out;
    if (!t)
        return NULL;
    t->observer = (struct gm_observer){event, created, destroyed, alive_at_end};
    t->x = x;
    t->memo = FRAMES_BASE;
    putc(0x80, f);
    putc(2, f);
    fputs("}(", f);
    put_text(f, "gpumem");
    fputs("](", f);
    for (uint32_t i = 0; i < WORDS; i++) {
        put_text(f, words[i]);
        remember(f, i);
    }
    putc(']', f);
    remember(f, FRAMES_OF_NONE);
    putc('e', f);
    putc('(', f);
    gm_reader_each_site(x->reader, put_site, t);
    putc('e', f);
    put_text(f, "device_traces");
    fputs("](]", f);
    t->traces[0].file = f;
    return &t->observer;
}

static bool end(struct gm_export *x, struct gm_observer *observer, const struct gm_analysis *a) {
    struct torch *t = (struct torch *)observer;
    FILE *f = x->out;
    struct stack *s, *next;
    bool done = a && !t->failed;
    end_batch(&t->traces[0]);
    for (unsigned i = 1; i < t->devices; i++)
        done = done && copy_list(f, &t->traces[i]);
    putc('e', f);
    put_text(f, "segments");
    done = done && copy_list(f, &t->segments);
    fputs("u.", f);
    for (unsigned i = 1; i < t->devices; i++)
        if (t->traces[i].file)
            fclose(t->traces[i].file);
    if (t->segments.file)
        fclose(t->segments.file);
    HASH_ITER(hh, t->stacks, s, next) {
        HASH_DEL(t->stacks, s);
        free(s);
    }
    free(t);
    return done;
}

const struct gm_exporter gm_exporter_torch = {"torch", false, false, begin, end};
