/* gpumem replay: predicts from a trace how other policies would have served the program. */
#include "tools/cli/replay.h"

#include "tools/cli/commands.h"
#include "tools/cli/flags.h"
#include "tools/cli/meant.h"
#include "tools/cli/number_text.h"
#include "tools/cli/reader.h"
#include "tools/cli/shown.h"

#include "shim/base/base.h"
#include "shim/base/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef GM_HAVE_JANSSON
#include "tools/cli/json.h"
#endif

enum { POLICIES = 32 };

struct options {
    const char *policies[POLICIES];
    unsigned count;
    uint64_t limit;
    bool json;
};

void gm_command_replay_help(void) {
    puts("usage: gpumem replay [option ...] TRACE\n\n"
         "Runs the allocations and frees of a trace through the policies and caches of libgpumem, without a GPU, and\n"
         "predicts whether they fit, the peaks, the reuse of freed blocks, and the waits for the device. Other options "
         "of\nthe library, such as GPUMEM_LIST_LENGTH, are read from the environment.\n");
    gm_flags_help("replay");
}

/* ---- options */

static int add_policy(struct options *options, const char *policy) {
    if (options->count == POLICIES)
        return gm_usage_error("replay: more than %d policies", POLICIES);
    options->policies[options->count++] = policy;
    return 0;
}

static int add_all(struct options *options) {
    int status = 0;
    for (int i = 0; gm_policies[i] && !status; i++)
        if (!gm_policies[i]->takes_argument)
            status = add_policy(options, gm_policies[i]->name);
    return status;
}

static int no_policy(const char *value) {
    struct gm_meant meant = gm_meant_begin(value, strcspn(value, ":"), "");
    for (int i = 0; gm_policies[i]; i++)
        gm_meant_try(&meant, gm_policies[i]->name, strlen(gm_policies[i]->name));
    return gm_usage_error("replay: there is no policy '%s'%s; libgpumem(7) lists them", value,
                          gm_meant_text(&meant).text);
}

static int take(void *arg, const char *name, const char *value) {
    struct options *options = arg;
    unsigned long long bytes;
    int status = 0;
    if (!strcmp(name, "policy")) {
        if (!strcmp(value, "all"))
            return add_all(options);
        if (!gm_policy_find(value))
            return no_policy(value);
        return add_policy(options, value);
    }
    if (!strcmp(name, "limit")) {
        status = gm_flag_bytes("replay", name, value, &bytes);
        if (!status && !bytes)
            return gm_usage_error("replay: --limit 0: nothing fits");
        options->limit = status ? 0 : bytes;
    } else {
        options->json = true;
    }
    return status;
}

static int read_options(int argc, char **argv, struct options *options, const char **trace) {
    int first, status = gm_flags_read(argc, argv, take, options, gm_command_replay_help, &first);
    if (status >= 0)
        return status;
    if (first + 1 != argc)
        return gm_usage_error("replay: one trace is needed; usage: gpumem replay [option ...] TRACE");
#ifndef GM_HAVE_JANSSON
    if (options->json)
        return gm_usage_error("replay: --json needs a gpumem that was built with jansson");
#endif
    *trace = argv[first];
    return options->count ? -1 : (status = add_all(options)) ? status : -1;
}

/* ---- text */

static void print_kinds(const struct gm_replay *r) {
    struct gm_text count, peak, hits;
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        if (r->allocs[kind])
            printf("    %-14s %14s allocations, peak %s, %s reused\n", gm_kind_name((enum gm_kind)kind),
                   gm_text_count(&count, r->allocs[kind]), gm_text_bytes(&peak, r->peak[kind]),
                   gm_text_percent(&hits, r->hits[kind], r->allocs[kind]));
}

static void print_head(void) {
    printf("%-14s %8s %12s %12s %12s %8s %12s %12s %10s\n", "policy", "failed", "moved", "peak live", "reserved",
           "reused", "allocated", "freed", "waits");
    printf("%-14s %8s %12s %12s %12s %8s %12s %12s %10s\n", "", "", "", "", "at most", "", "by driver", "by driver",
           "for GPU");
}

/* One row; the policy that stands alone is described below it. */
static void print_one(const char *policy, const struct gm_replay *r, bool alone) {
    const struct gm_replay_counts *c = &r->counts;
    struct gm_text t[8];
    printf("%-14s %8s %12s %12s %12s %8s %12s %12s %10s\n", policy, gm_text_count(&t[0], c->failed),
           gm_text_count(&t[1], c->moved), gm_text_bytes(&t[2], c->peak_live), gm_text_bytes(&t[3], c->peak_reserved),
           gm_text_percent(&t[4], c->hits, c->allocs), gm_text_count(&t[5], c->driver_allocs),
           gm_text_count(&t[6], c->driver_frees), gm_text_count(&t[7], c->waits));
    if (c->failed)
        printf("  does not fit: %s failed (%s), the first after %s for %s on device %d\n",
               gm_text_count(&t[0], c->failed), gm_text_bytes(&t[1], c->failed_bytes),
               gm_text_time(&t[2], r->first.time_ns), gm_text_bytes(&t[3], r->first.bytes), r->first.device);
    if (!alone)
        return;
    printf("  allocations    %s, frees %s\n", gm_text_count(&t[0], c->allocs), gm_text_count(&t[1], c->frees));
    print_kinds(r);
    printf("  not requested  %s of the reserved memory (cached or rounded up)\n",
           gm_text_percent(&t[0], c->peak_reserved - c->live_at_reserved, c->peak_reserved));
    if (c->given_back)
        printf("  given back     %s of cached memory\n", gm_text_bytes(&t[0], c->given_back));
    if (r->policy_line[0])
        printf("  %s\n", r->policy_line);
}

/* ---- JSON */

#ifdef GM_HAVE_JANSSON
static json_t *number(uint64_t value) { return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value); }

static json_t *kinds_of(const struct gm_replay *r) {
    json_t *kinds = json_object();
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        if (r->allocs[kind])
            json_object_set_new(kinds, gm_kind_name((enum gm_kind)kind),
                                json_pack("{s:o, s:o, s:o}", "allocations", number(r->allocs[kind]), "hits",
                                          number(r->hits[kind]), "peak_bytes", number(r->peak[kind])));
    return kinds;
}

static json_t *json_of(const char *policy, const struct gm_replay *r) {
    const struct gm_replay_counts *c = &r->counts;
    json_t *first = c->failed ? json_pack("{s:o, s:o, s:i}", "time_ns", number(r->first.time_ns), "bytes",
                                          number(r->first.bytes), "device", r->first.device)
                              : json_null();
    json_t *object =
        json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "policy", gm_json_string(policy), "fits", c->failed == 0,
                  "failed", number(c->failed), "failed_bytes", number(c->failed_bytes), "first_failure", first,
                  "allocations", number(c->allocs), "frees", number(c->frees), "moved", number(c->moved));
    json_t *more = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "hits", number(c->hits),
                             "peak_live_bytes", number(c->peak_live), "peak_reserved_bytes", number(c->peak_reserved),
                             "live_at_peak_reserved_bytes", number(c->live_at_reserved), "waits", number(c->waits),
                             "driver_allocations", number(c->driver_allocs), "driver_frees", number(c->driver_frees),
                             "given_back_bytes", number(c->given_back), "by_kind", kinds_of(r));
    json_object_update(object, more);
    json_decref(more);
    json_object_set_new(object, "said", gm_json_text(r->policy_line));
    return object;
}

static bool print_json(json_t *document) {
    bool done = document && !json_dumpf(document, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(document);
    return done;
}
#endif

/* ---- the command */

static void load_library_options(void) {
    gm_options_load(environ);
    gm_log_set(gm_option_is_set(GM_OPT_LOG) ? (enum gm_log_level)gm_option_number(GM_OPT_LOG) : GM_LOG_ERROR);
}

static bool can_replay(const char *trace) {
    char error[512];
    struct gm_reader *reader = gm_reader_open(trace, error, sizeof error);
    bool blocks = reader && gm_reader_has_blocks(reader, "replay", error, sizeof error);
    if (!blocks)
        gm_complain("%s", error);
    gm_reader_close(reader);
    return blocks;
}

int gm_command_replay(int argc, char **argv) {
    struct options options = {0};
    bool done = true;
    uint64_t damaged = 0;
    unsigned shown = 0;
    const char *trace = NULL;
    int status = read_options(argc, argv, &options, &trace);
    if (status >= 0)
        return status;
    if (!can_replay(trace))
        return 1;
    load_library_options();
#ifdef GM_HAVE_JANSSON
    json_t *policies = json_array();
#endif
    for (unsigned i = 0; i < options.count; i++) {
        struct gm_replay replay;
        gm_replay_policy(trace, options.policies[i], options.limit, &replay);
        if (replay.error[0]) {
            gm_complain("%s", replay.error);
            done = false;
            continue;
        }
        damaged = replay.damaged;
#ifdef GM_HAVE_JANSSON
        if (options.json) {
            json_array_append_new(policies, json_of(options.policies[i], &replay));
            continue;
        }
#endif
        if (!shown++)
            print_head();
        print_one(options.policies[i], &replay, options.count == 1);
    }
#ifdef GM_HAVE_JANSSON
    json_t *document = options.json ? json_pack("{s:i, s:s, s:o, s:O}", "format", 1, "gpumem", GM_VERSION, "trace",
                                                gm_json_string(trace), "policies", policies)
                                    : NULL;
    json_decref(policies);
    if (options.json)
        done = print_json(document) && done;
#endif
    gm_reader_warn(trace, damaged);
    return !done;
}
