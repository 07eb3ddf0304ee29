#include "tools/cli/trace_input.h"

#include "shim/base/foreign.h"
#include "tools/cli/trace_unpack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool gm_event_is_valid(const struct gm_event *e) {
    return e->seq && e->action < GM_ACT_COUNT && e->call < GM_CALL_COUNT && e->kind < GM_KIND_COUNT &&
           e->reason < GM_REASON_COUNT && e->verdict < GM_KIND_COUNT;
}

/* Returns NULL if this version can read the header, else the reason. */
static const char *check_header(const struct gm_trace_header *h, char *reason, size_t size) {
    if (h->version > GM_TRACE_VERSION) {
        snprintf(reason, size, "trace version %u is newer than this gpumem, which reads up to %u", h->version,
                 GM_TRACE_VERSION);
        return reason;
    }
    if (h->version == 0)
        return "damaged header: version 0";
    if (h->version == 2)
        return "trace version 2 was written by an older gpumem; this one reads the versions 1 and 3";
    if (h->event_bytes != sizeof(struct gm_event)) {
        snprintf(reason, size, "damaged header: events of %u bytes, expected %zu", h->event_bytes,
                 sizeof(struct gm_event));
        return reason;
    }
    if (h->header_bytes < GM_TRACE_HEADER || h->header_bytes % GM_TRACE_HEADER || h->header_bytes > (1u << 20)) {
        snprintf(reason, size, "damaged header: its length is %u bytes", h->header_bytes);
        return reason;
    }
    if (h->chunk_bytes < GM_TRACE_HEADER || h->chunk_bytes > (1u << 26)) {
        snprintf(reason, size, "damaged header: chunks of %u bytes", h->chunk_bytes);
        return reason;
    }
    return NULL;
}

/* Puts the unpacked file in the place of a compressed one. Returns NULL or a reason. */
static const char *unpack(struct gm_trace_input *f) {
    struct stat st;
    const char *reason;
    bool cut;
    int fd = gm_trace_unpack(f->fd, &cut, &reason);
    if (fd < 0)
        return reason;
    close(f->fd);
    f->fd = fd;
    if (fstat(f->fd, &st))
        return strerror(errno);
    f->size = (uint64_t)st.st_size;
    f->damaged += cut;
    return f->size ? NULL : "nothing can be unpacked";
}

/* Detects the format and checks the header. Returns NULL, or the reason why the file is not usable. */
static const char *examine(struct gm_trace_input *f, bool *csv, char *reason, size_t size) {
    struct stat st;
    union {
        struct gm_trace_header header;
        char text[sizeof(struct gm_trace_header)];
    } begin;
    if (fstat(f->fd, &st))
        return strerror(errno);
    f->size = (uint64_t)st.st_size;
    if (!f->size)
        return "the file is empty";
    ssize_t length = pread(f->fd, &begin, sizeof begin, 0);
    if (length < 0)
        return strerror(errno);
    if (gm_trace_is_packed(&begin, (size_t)length)) {
        const char *wrong = unpack(f);
        if (wrong)
            return wrong;
        if ((length = pread(f->fd, &begin, sizeof begin, 0)) < 0)
            return strerror(errno);
    }
    size_t line = strlen(gm_trace_csv_header);
    if ((size_t)length >= line && !memcmp(begin.text, gm_trace_csv_header, line)) {
        *csv = true;
        return NULL;
    }
    size_t magic = sizeof begin.header.magic;
    if (memcmp(begin.text, GM_TRACE_MAGIC, (size_t)length < magic ? (size_t)length : magic))
        return "not a gpumem trace";
    if ((size_t)length < sizeof begin) {
        snprintf(reason, size, "truncated header: %llu bytes of %u", (unsigned long long)f->size, GM_TRACE_HEADER);
        return reason;
    }
    f->header = begin.header;
    const struct gm_trace_header *h = &begin.header;
    gm_foreign_text(f->header.host, sizeof f->header.host, h->host, sizeof h->host);
    gm_foreign_text(f->header.program, sizeof f->header.program, h->program, sizeof h->program);
    gm_foreign_text(f->header.policy, sizeof f->header.policy, h->policy, sizeof h->policy);
    gm_foreign_text(f->header.library, sizeof f->header.library, h->library, sizeof h->library);
    const char *wrong = check_header(&f->header, reason, size);
    if (!wrong && f->size < f->header.header_bytes) {
        snprintf(reason, size, "truncated header: %llu bytes of %u", (unsigned long long)f->size,
                 f->header.header_bytes);
        return reason;
    }
    return wrong;
}

const char *gm_trace_input_open(struct gm_trace_input *f, int fd, const char *path, bool *csv, char *reason,
                                size_t size) {
    *f = (struct gm_trace_input){.fd = fd, .path = strdup(path), .definitions = gm_definitions_new()};
    return f->path && f->definitions ? examine(f, csv, reason, size) : "out of memory";
}

uint64_t gm_trace_input_data(const struct gm_trace_input *f, uint64_t offset) {
    off_t at = lseek(f->fd, (off_t)offset, SEEK_DATA);
    if (at < 0) /* ENXIO: nothing follows */
        return errno == ENXIO && f->size > offset ? f->size : offset;
    return (uint64_t)at;
}

uint64_t gm_trace_input_hole(const struct gm_trace_input *f, uint64_t offset) {
    off_t at = lseek(f->fd, (off_t)offset, SEEK_HOLE);
    return at < 0 ? f->size : (uint64_t)at;
}

void gm_trace_input_close(struct gm_trace_input *f) {
    gm_definitions_free(f->definitions);
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
}
