/* many_events FILE EVENTS [LIVE]: writes a binary trace of that many events of four threads, with LIVE blocks alive at
 * a time, for tests of speed and memory. Independent of the writer: only the published format. */
#include "shim/trace/event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define SITES   200
#define FILLED  ((GM_TRACE_CHUNK - sizeof(struct gm_trace_chunk)) / sizeof(struct gm_event))

struct thread {
    struct gm_event *events;
    size_t count;
};

static struct thread threads[THREADS];
static FILE *out;

static void put(const void *data, size_t bytes) {
    if (fwrite(data, bytes, 1, out) != 1) {
        perror("many_events");
        exit(1);
    }
}

static void put_chunk(uint16_t type, int thread, const void *payload, size_t used) {
    static const char zeros[GM_TRACE_HEADER];
    size_t whole = sizeof(struct gm_trace_chunk) + used;
    size_t bytes = (whole + GM_TRACE_HEADER - 1) / GM_TRACE_HEADER * GM_TRACE_HEADER;
    struct gm_trace_chunk chunk = {.magic = GM_TRACE_CHUNK_MAGIC,
                                   .type = type,
                                   .thread = 100 + thread,
                                   .used = (uint32_t)used,
                                   .bytes = (uint32_t)bytes};
    put(&chunk, sizeof chunk);
    put(payload, used);
    if (bytes > whole)
        put(zeros, bytes - whole);
}

static void add(int thread, const struct gm_event *event) {
    struct thread *t = &threads[thread];
    t->events[t->count++] = *event;
    if (t->count == FILLED) {
        put_chunk(GM_CHUNK_EVENTS, thread, t->events, t->count * sizeof *t->events);
        t->count = 0;
    }
}

static void put_sites(void) {
    struct {
        struct gm_record_site site;
        uint64_t frames[2];
    } records[SITES];
    for (uint32_t i = 0; i < SITES; i++) {
        records[i].site = (struct gm_record_site){{sizeof records[i], GM_RECORD_SITE, 0}, i + 1, 2, 0};
        records[i].frames[0] = 0x400000 + 16 * i;
        records[i].frames[1] = 0x500000;
    }
    put_chunk(GM_CHUNK_RECORDS, 0, records, sizeof records);
}

int main(int argc, char **argv) {
    if (argc < 3 || !(out = fopen(argv[1], "wb"))) {
        fputs("usage: many_events FILE EVENTS [LIVE]\n", stderr);
        return 2;
    }
    size_t events = strtoull(argv[2], NULL, 10), live = argc > 3 ? strtoull(argv[3], NULL, 10) : 10000;
    union {
        struct gm_trace_header header;
        char page[GM_TRACE_HEADER];
    } begin = {.header = {GM_TRACE_MAGIC, GM_TRACE_VERSION, GM_TRACE_HEADER, GM_TRACE_CHUNK, sizeof(struct gm_event), 1,
                          1, 7, 1, -1, 1, 0, "node", "/bin/many", "observe", GM_VERSION}};
    struct gm_event *alive = calloc(live, sizeof *alive);
    put(&begin, sizeof begin);
    put_sites();
    for (int i = 0; i < THREADS; i++)
        threads[i].events = malloc(FILLED * sizeof(struct gm_event));
    uint64_t random = 88172645463325252u, seq = 0, next = 1;
    while (seq < events) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        struct gm_event *slot = &alive[random % live];
        int thread = (int)(seq / 64 % THREADS);
        seq++;
        if (slot->address) {
            struct gm_event free_event = *slot;
            free_event.seq = seq;
            free_event.time_ns = seq * 1000;
            free_event.call = GM_CALL_FREE;
            free_event.action = GM_ACT_FREE;
            add(thread, &free_event);
            slot->address = 0;
            continue;
        }
        *slot = (struct gm_event){.seq = seq,
                                  .time_ns = seq * 1000,
                                  .address = 0x700000000000 + 512 * next++,
                                  .bytes = (random >> 32 & 1023) * 512 + 1,
                                  .slack = 511,
                                  .duration_ns = 300,
                                  .site = (uint32_t)(random >> 20) % SITES + 1,
                                  .context = 1,
                                  .call = GM_CALL_ALLOC,
                                  .action = GM_ACT_ALLOC,
                                  .reason = GM_REASON_POLICY};
        add(thread, slot);
    }
    for (int i = 0; i < THREADS; i++) {
        if (threads[i].count)
            put_chunk(GM_CHUNK_EVENTS, i, threads[i].events, threads[i].count * sizeof(struct gm_event));
        free(threads[i].events);
    }
    free(alive);
    return fclose(out) != 0;
}
