#include "tools/cli/reader_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool gm_event_is_sane(const struct gm_event *e) {
    return e->seq && e->action < GM_ACT_COUNT && e->call < GM_CALL_COUNT && e->kind < GM_KIND_COUNT &&
           e->reason < GM_REASON_COUNT && e->verdict < GM_KIND_COUNT;
}

/* Null when the header can be read, else what is wrong with it. */
static const char *check_header(const struct gm_trace_header *h, char *words, size_t size) {
    if (h->version > GM_TRACE_VERSION) {
        snprintf(words, size, "trace version %u is newer than this gpumem, which reads up to %u", h->version,
                 GM_TRACE_VERSION);
        return words;
    }
    if (h->version == 0)
        return "damaged header: version 0";
    if (h->event_bytes != sizeof(struct gm_event)) {
        snprintf(words, size, "damaged header: events of %u bytes, expected %zu", h->event_bytes,
                 sizeof(struct gm_event));
        return words;
    }
    if (h->header_bytes < GM_TRACE_HEADER || h->header_bytes % GM_TRACE_HEADER || h->header_bytes > (1u << 20)) {
        snprintf(words, size, "damaged header: it claims to be %u bytes long", h->header_bytes);
        return words;
    }
    if (h->chunk_bytes < GM_TRACE_HEADER || h->chunk_bytes > (1u << 26)) {
        snprintf(words, size, "damaged header: chunks of %u bytes", h->chunk_bytes);
        return words;
    }
    return NULL;
}

/* Tells the format and checks the header; NULL when usable. */
static const char *examine(struct gm_reader *r, bool *csv, char *words, size_t size) {
    struct stat st;
    union {
        struct gm_trace_header header;
        char text[sizeof(struct gm_trace_header)];
    } begin;
    r->fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0 || fstat(r->fd, &st))
        return strerror(errno);
    if (S_ISDIR(st.st_mode))
        return "is a directory";
    if (!S_ISREG(st.st_mode))
        return "is not a plain file";
    r->size = (uint64_t)st.st_size;
    if (!r->size)
        return "the file is empty";
    ssize_t length = pread(r->fd, &begin, sizeof begin, 0);
    if (length < 0)
        return strerror(errno);
    size_t line = strlen(gm_trace_csv_header);
    if ((size_t)length >= line && !memcmp(begin.text, gm_trace_csv_header, line)) {
        *csv = true;
        return NULL;
    }
    size_t magic = sizeof begin.header.magic;
    if (memcmp(begin.text, GM_TRACE_MAGIC, (size_t)length < magic ? (size_t)length : magic))
        return "not a gpumem trace";
    if ((size_t)length < sizeof begin) {
        snprintf(words, size, "truncated header: %llu bytes of %u", (unsigned long long)r->size, GM_TRACE_HEADER);
        return words;
    }
    r->header = begin.header;
    r->header.host[sizeof r->header.host - 1] = 0;
    r->header.program[sizeof r->header.program - 1] = 0;
    r->header.policy[sizeof r->header.policy - 1] = 0;
    r->header.library[sizeof r->header.library - 1] = 0;
    const char *wrong = check_header(&r->header, words, size);
    if (!wrong && r->size < r->header.header_bytes) {
        snprintf(words, size, "truncated header: %llu bytes of %u", (unsigned long long)r->size,
                 r->header.header_bytes);
        return words;
    }
    return wrong;
}

struct gm_reader *gm_reader_open(const char *path, char *error, size_t size) {
    char words[160];
    bool csv = false;
    const char *wrong = "out of memory";
    struct gm_reader *r = calloc(1, sizeof *r);
    if (!r)
        goto fail;
    r->fd = -1;
    r->path = strdup(path);
    r->definitions = gm_definitions_new();
    if (!r->path || !r->definitions)
        goto fail;
    wrong = examine(r, &csv, words, sizeof words);
    if (wrong)
        goto fail;
    if (!(csv ? gm_csv_open(r) : gm_merge_open(r))) {
        wrong = "out of memory";
        goto fail;
    }
    return r;
fail:
    snprintf(error, size, "%s: %s", path, wrong);
    gm_reader_close(r);
    return NULL;
}

void gm_reader_close(struct gm_reader *r) {
    if (!r)
        return;
    gm_merge_close(r->merge);
    gm_csv_close(r->csv);
    gm_definitions_free(r->definitions);
    if (r->fd >= 0)
        close(r->fd);
    free(r->path);
    free(r);
}

const struct gm_trace_header *gm_reader_header(const struct gm_reader *r) { return &r->header; }
uint64_t gm_reader_damaged(const struct gm_reader *r) { return r->damaged; }

bool gm_reader_next(struct gm_reader *r, struct gm_event *event, int *thread) {
    return r->csv ? gm_csv_next(r, event, thread) : gm_merge_next(r, event, thread);
}

bool gm_reader_site(const struct gm_reader *r, uint32_t id, struct gm_site *site) {
    return gm_definitions_site(r->definitions, id, site);
}

void gm_reader_each_site(const struct gm_reader *r, void (*visit)(const struct gm_site *site, void *arg), void *arg) {
    gm_definitions_each_site(r->definitions, visit, arg);
}

bool gm_reader_module(const struct gm_reader *r, uint64_t address, struct gm_module *module) {
    return gm_definitions_module(r->definitions, address, module);
}

bool gm_reader_device(const struct gm_reader *r, unsigned index, struct gm_device *device) {
    return gm_definitions_device(r->definitions, index, device);
}

const char *gm_reader_string(const struct gm_reader *r, uint32_t id) {
    return gm_definitions_string(r->definitions, id);
}

void gm_reader_each_module(const struct gm_reader *r, void (*visit)(const struct gm_module *, void *), void *arg) {
    gm_definitions_each_module(r->definitions, visit, arg);
}

void gm_reader_each_context(const struct gm_reader *r, void (*visit)(const struct gm_traced_context *, void *),
                            void *arg) {
    gm_definitions_each_context(r->definitions, visit, arg);
}

void gm_reader_each_string(const struct gm_reader *r, void (*visit)(uint32_t, const char *, void *), void *arg) {
    gm_definitions_each_string(r->definitions, visit, arg);
}

struct gm_reader *gm_reader_open_definitions(const char *path, char *error, size_t size) {
    struct gm_event event;
    int thread;
    struct gm_reader *r = gm_reader_open(path, error, size);
    while (r && r->csv && gm_reader_next(r, &event, &thread))
        ;
    return r;
}
