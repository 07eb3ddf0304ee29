#include "tools/cli/job.h"

#include "tools/cli/foreign_file.h"
#include "tools/cli/shown.h"
#include "tools/cli/sort.h"
#include "tools/cli/trace_unpack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct gm_trace_job *gm_job_new(void) {
    return calloc(1, sizeof(struct gm_trace_job));
}

void gm_job_free(struct gm_trace_job *job) {
    if (!job)
        return;
    for (size_t i = 0; i < job->count; i++) {
        gm_analysis_free(job->traces[i].analysis);
        gm_reader_close(job->traces[i].reader);
        free(job->traces[i].path);
    }
    free(job->traces);
    free(job->devices);
    free(job);
}

/* ---- which traces */

static int out_of_memory(const char *path) {
    gm_complain("%s: out of memory", path);
    return 1;
}

static int add_file(struct gm_trace_job *job, const char *path) {
    char error[512];
    struct gm_job_trace *traces = realloc(job->traces, (job->count + 1) * sizeof *traces);
    if (!traces)
        return out_of_memory(path);
    job->traces = traces;
    struct gm_job_trace *t = &traces[job->count];
    *t = (struct gm_job_trace){.path = strdup(path)};
    if (!t->path)
        return out_of_memory(path);
    t->reader = gm_reader_open(path, error, sizeof error);
    if (!t->reader) {
        free(t->path);
        gm_complain("%s", error);
        return 1;
    }
    t->header = gm_reader_header(t->reader);
    job->count++;
    return 0;
}

static bool begins_as_trace(const char *path) {
    char begin[16] = "";
    const char *reason;
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return false;
    int fd = gm_foreign_open(path, O_RDONLY, &reason);
    if (fd < 0)
        return true; /* the reader reports the reason */
    ssize_t length = pread(fd, begin, sizeof begin, 0);
    if (length > 0 && gm_trace_is_packed(begin, (size_t)length)) {
        bool cut;
        int unpacked = gm_trace_unpack(fd, &cut, &reason);
        length = unpacked < 0 ? -1 : pread(unpacked, begin, sizeof begin, 0);
        close(fd);
        if (unpacked < 0)
            return true;
        fd = unpacked;
    }
    close(fd);
    return (length >= 8 && !memcmp(begin, GM_TRACE_MAGIC, 8)) ||
           (length == sizeof begin && !memcmp(begin, gm_trace_csv_header, sizeof begin));
}

static int add_folder(struct gm_trace_job *job, const char *path) {
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort), failed = 0;
    size_t before = job->count;
    if (count < 0) {
        gm_complain("%s: %s", path, strerror(errno));
        return 1;
    }
    for (int i = 0; i < count; i++) {
        char file[4096];
        int length = snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && length < (int)sizeof file && begins_as_trace(file))
            failed += add_file(job, file);
        free(entries[i]);
    }
    free(entries);
    if (job->count > before || failed)
        return failed;
    gm_complain("%s: no traces in this folder", path);
    return 1;
}

int gm_job_add(struct gm_trace_job *job, const char *path) {
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode) ? add_folder(job, path) : add_file(job, path);
}

static int by_rank(const void *x, const void *y) {
    const struct gm_trace_header *a = ((const struct gm_job_trace *)x)->header,
                                 *b = ((const struct gm_job_trace *)y)->header;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    int host = strcmp(a->host, b->host);
    if (host)
        return host;
    if (a->epoch_ns != b->epoch_ns)
        return a->epoch_ns < b->epoch_ns ? -1 : 1;
    return a->pid < b->pid ? -1 : a->pid > b->pid;
}

void gm_job_sort(struct gm_trace_job *job) { gm_sort(job->traces, job->count, sizeof *job->traces, by_rank); }

/* ---- reading */

struct open_trace {
    struct gm_observer observer;
    struct gm_trace_job *job;
    struct gm_job_trace *trace;
    struct gm_analysis_pass *pass;
    struct gm_event event;
    int thread;
    uint64_t epoch_ns; /* of the event; the heap's key */
    struct {
        size_t index; /* index in job->devices, plus 1 */
        uint64_t live;
        uint64_t summed; /* bytes of rows of a summary whose moment is not complete */
    } devices[256];      /* by ordinal + 128 */
};

static struct gm_job_device *device_of(struct open_trace *s, int device) {
    struct gm_trace_job *job = s->job;
    size_t *known = &s->devices[device + 128].index;
    if (*known)
        return &job->devices[*known - 1];
    size_t at = 0;
    while (at < job->device_count &&
           (job->devices[at].device != device || strcmp(job->devices[at].host, s->trace->header->host)))
        at++;
    if (at == job->device_count) {
        struct gm_job_device *devices = realloc(job->devices, (at + 1) * sizeof *devices);
        if (!devices)
            return NULL;
        devices[at] = (struct gm_job_device){.host = s->trace->header->host, .device = device};
        job->devices = devices;
        job->device_count++;
    }
    job->devices[at].processes++;
    *known = at + 1;
    return &job->devices[at];
}

static bool add_live(struct open_trace *s, int device, uint64_t bytes) {
    struct gm_job_device *d = device_of(s, device);
    if (!d)
        return false;
    d->live += bytes;
    s->devices[device + 128].live += bytes;
    if (d->live > d->peak) {
        d->peak = d->live;
        d->peak_epoch_ns = s->epoch_ns;
    }
    return true;
}

static bool change(struct open_trace *s, const struct gm_live_block *b, bool up) {
    uint64_t bytes = gm_live_block_on_device(b);
    return !bytes || add_live(s, b->device, up ? bytes : 0 - bytes);
}

static bool summed(struct gm_observer *self, const struct gm_sum_step *step) {
    struct open_trace *s = (struct open_trace *)self;
    if (gm_kind_is_on_device((enum gm_kind)step->sum->kind))
        s->devices[step->sum->device + 128].summed += step->sum->live - step->before;
    return true;
}

static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct open_trace *s = (struct open_trace *)self;
    bool complete = step->event->action == GM_ACT_PEAK || step->event->action == GM_ACT_TOTAL, done = true;
    for (int i = 0; i < 256 && complete && done; i++) {
        done = !s->devices[i].summed || add_live(s, i - 128, s->devices[i].summed);
        s->devices[i].summed = 0;
    }
    return done;
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    return change((struct open_trace *)self, step->block, true);
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    return change((struct open_trace *)self, step->block, false);
}

/* Subtracts what the process still held: its end releases all memory, leaked or not. */
static void subtract_live(struct open_trace *s) {
    for (size_t i = 0; i < 256; i++)
        if (s->devices[i].index)
            s->job->devices[s->devices[i].index - 1].live -= s->devices[i].live;
}

static bool next_event(struct open_trace *s) {
    if (!gm_reader_next(s->trace->reader, &s->event, &s->thread))
        return false;
    s->epoch_ns = s->trace->header->epoch_ns + s->event.time_ns;
    return true;
}

static void sift_down(struct open_trace **heap, size_t count, size_t at) {
    struct open_trace *moved = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && heap[child + 1]->epoch_ns < heap[child]->epoch_ns)
            child++;
        if (moved->epoch_ns <= heap[child]->epoch_ns)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static struct open_trace *begin_trace(struct gm_trace_job *job, struct gm_job_trace *t) {
    struct open_trace *s = calloc(1, sizeof *s);
    unsigned observers = 0;
    if (!s)
        return NULL;
    while (t->observers[observers])
        observers++;
    s->observer = (struct gm_observer){.event = event, .created = created, .destroyed = destroyed, .summed = summed};
    s->job = job;
    s->trace = t;
    t->observers[observers] = &s->observer;
    s->pass = gm_analysis_begin(t->observers);
    if (!s->pass) {
        free(s);
        return NULL;
    }
    return s;
}

/* Ends the analysis of a trace. False = no memory. */
static bool end_trace(struct open_trace *s) {
    subtract_live(s);
    s->trace->analysis = gm_analysis_end(s->pass);
    bool done = s->trace->analysis != NULL;
    free(s);
    return done;
}

static int by_host(const void *x, const void *y) {
    const struct gm_job_device *a = x, *b = y;
    int host = strcmp(a->host, b->host);
    return host ? host : a->device - b->device;
}

bool gm_job_read(struct gm_trace_job *job) {
    struct open_trace **heap = calloc(job->count + 1, sizeof(struct open_trace *));
    size_t count = 0;
    bool done = heap != NULL;
    for (size_t i = 0; done && i < job->count; i++) {
        heap[count] = begin_trace(job, &job->traces[i]);
        done = heap[count] != NULL;
        if (done && next_event(heap[count]))
            count++;
        else if (done)
            done = end_trace(heap[count]);
    }
    for (size_t at = count / 2; at-- > 0;)
        sift_down(heap, count, at);
    while (done && count) {
        struct open_trace *s = heap[0];
        done = gm_analysis_event(s->pass, &s->event, s->thread);
        if (done && next_event(s)) {
            sift_down(heap, count, 0);
            continue;
        }
        heap[0] = heap[--count];
        done = end_trace(s) && done;
        if (count)
            sift_down(heap, count, 0);
    }
    while (heap && count)
        end_trace(heap[--count]);
    free(heap);
    gm_sort(job->devices, job->device_count, sizeof *job->devices, by_host);
    return done;
}

/* ---- printing */

static void print_processes(const struct gm_trace_job *job, uint64_t begin, struct gm_out *out) {
    static const struct gm_column columns[] = {{"rank", "rank", GM_CELL_NUMBER},
                                               {"host", "host", GM_CELL_TEXT},
                                               {"pid", "pid", GM_CELL_NUMBER},
                                               {"device", "device", GM_CELL_NUMBER},
                                               {"begin_ns", "begin", GM_CELL_TIME},
                                               {"duration_ns", "lasted", GM_CELL_TIME},
                                               {"allocations", "allocations", GM_CELL_COUNT},
                                               {"failed", "failed", GM_CELL_COUNT},
                                               {"peak_live_bytes", "peak live", GM_CELL_BYTES},
                                               {"peak_reserved_bytes", "reserved", GM_CELL_BYTES},
                                               {"leaked_bytes", "alive at end", GM_CELL_BYTES},
                                               {"call_ns", "in calls", GM_CELL_TIME},
                                               {"file", " file", GM_CELL_TEXT}};
    gm_out_table(out, "processes", columns, sizeof columns / sizeof *columns);
    out->all = true;
    for (size_t i = 0; i < job->count; i++) {
        const struct gm_job_trace *t = &job->traces[i];
        const struct gm_trace_header *h = t->header;
        const struct gm_analysis *a = t->analysis;
        bool used = false;
        for (unsigned device = 0; a && device < GM_DEVICES; device++) {
            const struct gm_device_totals *d = &a->devices[device];
            bool one = gm_analysis_device_count(a) < 2;
            if (!gm_analysis_has_device(a, device) && (used || device + 1 < GM_DEVICES))
                continue;
            gm_out_row(out,
                       (struct gm_value[]){GM_N(h->rank < 0 ? GM_UNKNOWN : (uint64_t)h->rank),
                                           GM_T(h->host[0] ? h->host : NULL), GM_N((uint64_t)(int64_t)h->pid),
                                           GM_N(gm_analysis_has_device(a, device) ? device : GM_UNKNOWN),
                                           GM_N(h->epoch_ns - begin), GM_N(a->end_ns), GM_N(d->allocs),
                                           GM_N(one ? a->failed_allocs : d->failed_allocs), GM_N(d->peak),
                                           GM_N(one             ? a->peak_reserved
                                                : h->summary_ns ? GM_UNKNOWN
                                                                : d->peak_reserved),
                                           GM_N(d->leaked_bytes), GM_N(used ? GM_UNKNOWN : a->time_ns), GM_T(t->path)},
                       NULL);
            used = true;
        }
    }
    gm_out_table_end(out);
}

void gm_job_print(const struct gm_trace_job *job, struct gm_out *out) {
    static const struct gm_column columns[] = {{"host", "host", GM_CELL_TEXT},
                                               {"device", "device", GM_CELL_NUMBER},
                                               {"processes", "processes", GM_CELL_COUNT},
                                               {"peak_live_bytes", "peak live", GM_CELL_BYTES},
                                               {"peak_ns", "at", GM_CELL_TIME}};
    uint64_t begin = UINT64_MAX;
    for (size_t i = 0; i < job->count; i++)
        if (job->traces[i].header->epoch_ns < begin)
            begin = job->traces[i].header->epoch_ns;
    gm_out_section(out, "job", "PROCESSES OF THE JOB");
    print_processes(job, begin, out);
    gm_out_note(out, "all processes together, by device; the memory of a process that ended does not count:");
    gm_out_table(out, "devices", columns, sizeof columns / sizeof *columns);
    out->all = true;
    for (size_t i = 0; i < job->device_count; i++) {
        const struct gm_job_device *d = &job->devices[i];
        gm_out_row(out,
                   (struct gm_value[]){GM_T(d->host[0] ? d->host : NULL), GM_N((uint64_t)(int64_t)d->device),
                                       GM_N(d->processes), GM_N(d->peak), GM_N(d->peak_epoch_ns - begin)},
                   NULL);
    }
    gm_out_table_end(out);
}
