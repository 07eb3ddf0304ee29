/* The results as JSON, for programs. Bytes and counts are integers, times are in ms, efficiencies are 0 to 1. */
#include "spgemm/outcome.h"

#ifdef GM_HAVE_JANSSON
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define FORMAT 1

/* A file name may hold any bytes; JSON accepts only UTF-8. */
static json_t *text(const char *bytes) {
    json_t *value = bytes ? json_string(bytes) : json_null();
    return value ? value : json_string("?");
}

static json_t *shape(const char *name, const struct spg_shape *s) {
    return json_pack("{s:o, s:i, s:i, s:I, s:I}", "name", text(name), "rows", (int)s->rows, "columns", (int)s->columns,
                     "nonzeros", (json_int_t)s->nonzeros, "stored", (json_int_t)s->stored);
}

static json_t *model(const struct spg_outcome *o) {
    json_int_t slot_size = (json_int_t)spg_slot_size(o->settings->precision);
    json_t *sizes = json_array();
    for (int i = 0; i < o->rounds_count; i++)
        json_array_append_new(sizes, json_pack("{s:i, s:f, s:i, s:I}", "size_per_row", (int)o->rounds[i].size_per_row,
                                               "efficiency", o->rounds[i].efficiency, "rounds",
                                               (int)o->rounds[i].rounds, "entries", (json_int_t)o->rounds[i].entries));
    return json_pack("{s:I, s:I, s:i, s:I, s:I, s:f, s:f, s:o}", "nnz_c", (json_int_t)o->nnz_c, "bytes",
                     (json_int_t)o->nnz_c * slot_size, "longest_row", (int)o->longest, "upper_bound",
                     (json_int_t)o->bound, "upper_bound_bytes", (json_int_t)o->bound * slot_size, "sampled_nnz_c",
                     o->sampled, "cohen_nnz_c", o->cohen, "sizes", sizes);
}

/* null for a product of one device */
static json_t *shares(const struct spg_outcome *o) {
    json_t *list = o->shares_count ? json_array() : json_null();
    for (int i = 0; i < o->shares_count; i++) {
        const struct spg_share *s = &o->shares[i];
        json_array_append_new(list, json_pack("{s:i, s:I, s:I, s:I, s:I, s:s}", "device", s->device, "rows",
                                              (json_int_t)s->rows, "products", (json_int_t)s->products, "nnz_c",
                                              (json_int_t)s->stored, "peak_bytes", (json_int_t)s->peak, "b", s->b));
    }
    return list;
}

static json_t *product(const struct spg_outcome *o) {
    const struct spg_settings *s = o->settings;
    json_t *runs = json_array();
    for (unsigned i = 0; i < o->runs_count; i++)
        json_array_append_new(runs, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:i, s:I, s:I, s:I, s:f}",
                                              "ms", o->runs[i].ms, "distribute_ms", o->runs[i].distribute_ms,
                                              "estimate_ms", o->runs[i].estimate_ms, "grow_ms", o->runs[i].grow_ms,
                                              "compact_ms", o->runs[i].compact_ms, "trim_ms", o->runs[i].trim_ms,
                                              "peak_bytes", (json_int_t)o->runs[i].peak, "nnz_c",
                                              (json_int_t)o->runs[i].stored, "entries", (json_int_t)o->runs[i].entries,
                                              "rounds", (int)o->runs[i].rounds, "slabs", (json_int_t)o->runs[i].slabs,
                                              "sent_bytes", (json_int_t)o->runs[i].sent, "received_bytes",
                                              (json_int_t)o->runs[i].received, "bus_ms", o->runs[i].bus_ms));
    json_t *check = s->check ? json_pack("{s:f}", "worst_of_bound", o->check.worst) : json_null();
    json_t *estimates = json_null();
    if (o->estimated)
        estimates =
            json_pack("{s:f, s:f, s:f, s:f}", "sampled_nnz_c", o->estimates.sampled, "sampled_ms",
                      o->estimates.sampled_ms, "cohen_nnz_c", o->estimates.cohen, "cohen_ms", o->estimates.cohen_ms);
    return json_pack("{s:s, s:s, s:i, s:s, s:b, s:I, s:i, s:o, s:o, s:o, s:i, s:o}", "mode", s->mode_text, "vector",
                     s->vector == SPG_VECTOR_COPY ? "copy" : "vmm", "size_per_row",
                     (int)o->runs[o->runs_count - 1].size_per_row, "kernel",
                     s->kernel == SPG_KERNEL_THESIS ? "thesis" : "hash", "persistent", (int)s->persistent, "limit",
                     (json_int_t)s->limit, "warmup", (int)o->warmup, "runs", runs, "estimates", estimates, "check",
                     check, "processes", o->processes, "devices", shares(o));
}

bool spg_outcome_json(const struct spg_outcome *o, struct spg_error *error) {
    const struct spg_settings *s = o->settings;
    json_t *document =
        json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "format", FORMAT, "gpumem", GM_VERSION, "precision",
                  s->precision == SPG_FLOAT ? "float" : "double", "layout", s->columns ? "csc" : "csr", "a",
                  shape(s->matrix, &o->a), "b", s->b ? shape(s->b, &o->b) : json_null(), "model",
                  s->model ? model(o) : json_null(), "product", o->runs ? product(o) : json_null());
    if (!document)
        return spg_fail(error, "out of memory for the report");
    bool to_stdout = !strcmp(s->json, "-");
    FILE *file = to_stdout ? stdout : fopen(s->json, "w");
    bool written = file && !json_dumpf(document, file, JSON_INDENT(2)) && fputc('\n', file) != EOF && !fflush(file);
    int reason = errno;
    if (file && !to_stdout && fclose(file) && written) {
        reason = errno;
        written = false;
    }
    json_decref(document);
    return written || spg_fail(error, "%.300s: %s", s->json, strerror(reason));
}
#else
bool spg_outcome_json(const struct spg_outcome *o, struct spg_error *error) {
    return spg_fail(error, "--json needs jansson, which this build lacks");
}
#endif
