#include "tools/cli/reader.h"

#include "tools/cli/foreign_file.h"
#include "tools/cli/progress.h"
#include "tools/cli/reader_binary.h"
#include "tools/cli/reader_csv.h"
#include "tools/cli/shown.h"
#include "tools/cli/trace_input.h"
#include "tools/cli/trace_window.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Exactly one of `binary` and `csv` is set. */
struct gm_reader {
    struct gm_trace_input file;
    struct gm_binary_reader *binary;
    struct gm_csv_reader *csv;
    struct gm_trace_window *window; /* NULL = the whole trace */
    uint64_t events, counted;       /* events read; bytes of the file that the progress line counts */
    bool reading;
};

/* No program causes such an event, so its bytes were damaged: times count from the start of the trace, and no address
 * space is larger. */
static bool is_impossible(const struct gm_event *e) {
    return e->time_ns > INT64_MAX || (e->action == GM_ACT_ALLOC && e->bytes > UINT64_C(1) << 57);
}

static bool next_of_trace(void *reader, struct gm_event *event, int *thread);

static bool read_event(struct gm_reader *r, struct gm_event *event, int *thread) {
    return r->csv ? gm_csv_reader_next(r->csv, event, thread) : gm_binary_reader_next(r->binary, event, thread);
}

enum { PROGRESS_STEP = 1 << 16 }; /* events */

struct gm_reader *gm_reader_open(const char *path, char *error, size_t size) {
    const char *reason;
    int fd = gm_foreign_open(path, O_RDONLY, &reason);
    if (fd >= 0)
        return gm_reader_open_file(fd, path, error, size);
    snprintf(error, size, "%s: %s", *path ? path : "''", reason);
    return NULL;
}

struct gm_reader *gm_reader_open_file(int fd, const char *path, char *error, size_t size) {
    char words[160];
    bool csv = false;
    const char *reason = "out of memory";
    struct gm_reader *r = calloc(1, sizeof *r);
    if (!r) {
        close(fd);
        goto fail;
    }
    reason = gm_trace_input_open(&r->file, fd, path, &csv, words, sizeof words);
    if (reason)
        goto fail;
    if (csv)
        r->csv = gm_csv_reader_open(&r->file);
    else
        r->binary = gm_binary_reader_open(&r->file);
    reason = "out of memory";
    if (!r->csv && !r->binary)
        goto fail;
    if (!gm_window_is_part())
        return r;
    if (r->file.header.summary_ns) {
        reason = "a summary has no single blocks, which --from, --until and --min-bytes need";
        goto fail;
    }
    r->file.header.start_ns += gm_window.from_ns;
    r->file.header.epoch_ns += gm_window.from_ns;
    if ((r->window = gm_trace_window_new(next_of_trace, r)))
        return r;
fail:
    snprintf(error, size, "%s: %s", path, reason);
    gm_reader_close(r);
    return NULL;
}

bool gm_reader_has_blocks(const struct gm_reader *r, const char *what, char *error, size_t size) {
    if (!r->file.header.summary_ns)
        return true;
    snprintf(error, size, "%s: a summary has no single blocks, which %s needs", r->file.path, what);
    return false;
}

static void end_progress(struct gm_reader *r) {
    if (r->reading)
        gm_progress_end(r->file.size, r->counted);
    r->reading = false;
}

static void count_progress(struct gm_reader *r) {
    uint64_t at = r->csv ? gm_csv_reader_at(r->csv) : r->events * sizeof(struct gm_event);
    if (!r->reading && r->events == 1)
        gm_progress_begin(r->file.path, r->file.size);
    else if (r->reading)
        gm_progress_add(at - r->counted);
    r->counted = r->events == 1 ? 0 : at;
    r->reading = true;
}

void gm_reader_close(struct gm_reader *r) {
    if (!r)
        return;
    end_progress(r);
    gm_trace_window_free(r->window);
    gm_binary_reader_close(r->binary);
    gm_csv_reader_close(r->csv);
    gm_trace_input_close(&r->file);
    free(r);
}

const char *gm_reader_path(const struct gm_reader *r) { return r->file.path; }
const struct gm_trace_header *gm_reader_header(const struct gm_reader *r) { return &r->file.header; }
uint64_t gm_reader_damaged(const struct gm_reader *r) { return r->file.damaged; }

bool gm_reader_is_whole(const struct gm_reader *r) {
    uint64_t damaged = r->file.damaged, lost = r->file.header.dropped;
    if (damaged || lost)
        gm_complain("%s: %" PRIu64 " damaged or missing parts, %" PRIu64
                    " lost events: what was asked to be checked may "
                    "lie there",
                    r->file.path, damaged, lost);
    return !damaged && !lost;
}

void gm_reader_warn(const char *path, uint64_t damaged) {
    if (damaged)
        gm_complain("%s: %" PRIu64 " damaged or missing parts of the file were skipped", path, damaged);
}

static bool next_of_trace(void *arg, struct gm_event *event, int *thread) {
    struct gm_reader *r = arg;
    bool found;
    while ((found = read_event(r, event, thread)) && is_impossible(event))
        r->file.damaged++;
    if (!found)
        end_progress(r);
    else if (r->events++ % PROGRESS_STEP == 0)
        count_progress(r);
    return found;
}

bool gm_reader_next(struct gm_reader *r, struct gm_event *event, int *thread) {
    if (!r->window)
        return next_of_trace(r, event, thread);
    bool found = gm_trace_window_next(r->window, event, thread, r->csv);
    if (!found && gm_trace_window_is_cut(r->window) && r->file.header.finished == GM_TRACE_WHOLE)
        r->file.header.finished = GM_TRACE_STOPPED;
    return found;
}

void gm_reader_each_record(const struct gm_reader *r, void (*visit)(const struct gm_record *, void *), void *arg) {
    gm_definitions_each(r->file.definitions, visit, arg);
}

bool gm_reader_site(const struct gm_reader *r, uint32_t id, struct gm_site *site) {
    return gm_definitions_site(r->file.definitions, id, site);
}

size_t gm_reader_site_count(const struct gm_reader *r) { return gm_definitions_site_count(r->file.definitions); }

void gm_reader_each_site(const struct gm_reader *r, void (*visit)(const struct gm_site *site, void *arg), void *arg) {
    gm_definitions_each_site(r->file.definitions, visit, arg);
}

bool gm_reader_python(const struct gm_reader *r, uint64_t address, struct gm_python_frame *frame) {
    return gm_definitions_python(r->file.definitions, address, frame);
}

bool gm_reader_module(const struct gm_reader *r, uint64_t address, struct gm_module *module) {
    return gm_definitions_module(r->file.definitions, address, module);
}

bool gm_reader_device(const struct gm_reader *r, unsigned index, struct gm_device *device) {
    return gm_definitions_device(r->file.definitions, index, device);
}

const char *gm_reader_string(const struct gm_reader *r, uint32_t id) {
    return gm_definitions_string(r->file.definitions, id);
}

struct gm_reader *gm_reader_open_definitions(const char *path, char *error, size_t size) {
    struct gm_event event;
    int thread;
    struct gm_reader *r = gm_reader_open(path, error, size);
    while (r && r->csv && next_of_trace(r, &event, &thread))
        ;
    return r;
}
