/* gpumem plan: decides from a trace which memory each object of a program should have in later runs. */
#include "tools/cli/commands.h"
#include "tools/cli/export_file.h"
#include "tools/cli/flags.h"
#include "tools/cli/lifetime_oracle.h"
#include "tools/cli/number_text.h"
#include "tools/cli/shown.h"

#include "policy/plan_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *output;
    uint64_t lifetime_ns, fit, headroom;
    bool has_lifetime, rules, compare, force;
};

void gm_command_plan_help(void) {
    puts("usage: gpumem plan [option ...] -o PLAN TRACE\n\n"
         "Decides from the lifetimes in a trace which objects of a program are temporary (async) and which are "
         "lasting\n(managed). GPUMEM_POLICY=plan:PLAN applies the plan to later runs.\n");
    gm_flags_help("plan");
}

/* ---- options */

static int take(void *arg, const char *name, const char *value) {
    struct options *options = arg;
    unsigned long long bytes;
    int status = 0;
    if (!strcmp(name, "lifetime")) {
        options->has_lifetime = true;
        return gm_flag_time("plan", name, value, &options->lifetime_ns);
    } else if (!strcmp(name, "fit")) {
        status = gm_flag_bytes("plan", name, value, &bytes);
        if (!status && !bytes)
            return gm_usage_error("plan: --fit 0: nothing fits");
        options->fit = status ? 0 : bytes;
    } else if (!strcmp(name, "headroom")) {
        status = gm_flag_bytes("plan", name, value, &bytes);
        options->headroom = status ? 0 : bytes;
    } else if (!strcmp(name, "as-rules")) {
        options->rules = true;
    } else if (!strcmp(name, "compare")) {
        options->compare = true;
    } else if (!strcmp(name, "force")) {
        options->force = true;
    } else {
        options->output = value;
    }
    return status;
}

static int read_options(int argc, char **argv, struct options *options, const char **trace) {
    int first, status = gm_flags_read(argc, argv, take, options, gm_command_plan_help, &first);
    if (status >= 0)
        return status;
    if (options->has_lifetime && options->fit)
        return gm_usage_error("plan: --lifetime and --fit exclude each other");
    if (first + 1 != argc)
        return gm_usage_error("plan: one trace is needed; usage: gpumem plan [option ...] -o PLAN TRACE");
    if (!options->output && !options->compare)
        return gm_usage_error("plan: no output given; usage: gpumem plan [option ...] -o PLAN TRACE");
    *trace = argv[first];
    status = options->output ? gm_output_check("plan", *trace, options->output, options->force) : 0;
    return status ? status : -1;
}

/* ---- the plan as text */

static void write_plan(FILE *out, const struct gm_objects *o, const struct gm_oracle *oracle, const bool *beyond,
                       const char *trace) {
    struct gm_text time;
    fprintf(out, GM_PLAN_VERSION "\n# from %s; objects that live less than %s are async\n# id decision size site\n",
            GM_SHOWN(trace), gm_text_time(&time, oracle->lifetime_ns));
    for (size_t i = 1; i < o->site_count; i++)
        fprintf(out, "site %zu %s\n", i, o->sites[i].text);
    for (size_t i = 0; i < o->count; i++) {
        const struct gm_object *object = &o->list[i];
        if (!object->id)
            continue;
        fprintf(out, "%" PRIu32 " %s %" PRIu64 " ", object->id,
                gm_kind_name(gm_oracle_decide(object, oracle->lifetime_ns)), object->bytes);
        if (object->site)
            fprintf(out, "%" PRIu32, object->site);
        else
            fputc('-', out);
        fputs(beyond[i] ? " # beyond what fits\n" : "\n", out);
    }
}

/* ---- printing the plan */

/* Steps above the length of the run decide as the first of them does, so only the chosen one of those is printed. */
static void print_steps(FILE *out, const struct gm_oracle *steps, int chosen, uint64_t run_ns) {
    struct gm_text time, async, managed, count;
    fputs("lifetime N      async objects     async peak   managed peak\n", out);
    for (unsigned i = 0; i < GM_ORACLE_STEPS; i++) {
        if (i && steps[i - 1].lifetime_ns > run_ns && (int)i != chosen)
            continue;
        fprintf(out, "%-12s %16s %14s %14s%s\n", gm_text_time(&time, steps[i].lifetime_ns),
                gm_text_count(&count, steps[i].async_count), gm_text_bytes(&async, steps[i].async_peak),
                gm_text_bytes(&managed, steps[i].managed_peak),
                (int)i == chosen  ? "  <- chosen"
                : steps[i].beyond ? "  does not fit"
                                  : "");
    }
}

static void print_plan(FILE *out, const struct gm_oracle *oracle) {
    struct gm_text time, bytes, count;
    fprintf(out, "objects %s, lifetime N %s\n",
            gm_text_count(&count, (uint64_t)oracle->async_count + oracle->managed_count + oracle->native_count),
            gm_text_time(&time, oracle->lifetime_ns));
    fprintf(out, "  async    %s", gm_text_count(&count, oracle->async_count));
    fprintf(out, ", peak %s\n", gm_text_bytes(&bytes, oracle->async_peak));
    fprintf(out, "  managed  %s", gm_text_count(&count, oracle->managed_count));
    fprintf(out, ", peak %s\n", gm_text_bytes(&bytes, oracle->managed_peak));
    if (oracle->native_count)
        fprintf(out, "  native   %s, requested during stream capture\n", gm_text_count(&count, oracle->native_count));
    if (oracle->beyond)
        fprintf(out, "  %s async objects do not fit when they are created; the plan marks them\n",
                gm_text_count(&count, oracle->beyond));
}

static bool capacity_is_known(const struct gm_async_capacity *capacity, const struct gm_objects *o) {
    for (size_t i = 0; i < o->count; i++)
        if (capacity->bytes[gm_object_device(&o->list[i])] == UINT64_MAX)
            return false;
    return true;
}

/* Sets *lifetime_ns to the requested N, or to the largest N that fits. False: the device's memory is unknown. */
static bool choose(const struct gm_objects *o, const struct options *options, const struct gm_async_capacity *capacity,
                   uint64_t *lifetime_ns, FILE *say) {
    struct gm_oracle steps[GM_ORACLE_STEPS];
    if (options->has_lifetime) {
        *lifetime_ns = options->lifetime_ns;
        return true;
    }
    if (!capacity_is_known(capacity, o)) {
        fputs("gpumem: the trace does not have the device's memory; give --fit BYTES or --lifetime N\n", stderr);
        return false;
    }
    int best = gm_oracle_fit(o, capacity, steps);
    print_steps(say, steps, best < 0 ? 0 : best, o->end_ns);
    *lifetime_ns = gm_oracle_step(best < 0 ? 0 : (unsigned)best);
    return true;
}

static bool write_output(const struct gm_objects *o, const struct options *options, const struct gm_oracle *oracle,
                         const bool *beyond, const char *trace, FILE *say) {
    struct gm_output output;
    if (!gm_output_begin(&output, options->output, true, false))
        return false;
    FILE *out = output.file;
    bool made = true;
    if (options->rules) {
        unsigned rules = 0;
        uint64_t same = gm_oracle_rules(out, o, oracle->lifetime_ns, &rules);
        struct gm_text part;
        made = same != UINT64_MAX;
        if (made)
            fprintf(say, "rules %u, which decide %s of the objects as the plan does\n", rules,
                    gm_text_percent(&part, same, o->movable));
    } else {
        write_plan(out, o, oracle, beyond, trace);
    }
    if (!made)
        gm_complain("%s: out of memory", trace);
    return gm_output_end(&output, made);
}

static bool make_plan(const struct gm_objects *o, const struct options *options, const char *trace) {
    FILE *say = options->output && !strcmp(options->output, "-") ? stderr : stdout;
    struct gm_async_capacity capacity = gm_oracle_capacity(o, options->fit, options->headroom);
    bool *beyond = calloc(o->count + 1, sizeof *beyond), done = true;
    uint64_t lifetime_ns;
    if (!beyond) {
        gm_complain("%s: out of memory", trace);
        return false;
    }
    if (!choose(o, options, &capacity, &lifetime_ns, say)) {
        free(beyond);
        return false;
    }
    struct gm_oracle oracle = gm_oracle_try(o, lifetime_ns, &capacity, beyond);
    print_plan(say, &oracle);
    if (options->output)
        done = write_output(o, options, &oracle, beyond, trace, say);
    if (done && options->compare && !gm_oracle_compare(say, o, lifetime_ns)) {
        gm_complain("%s: out of memory", trace);
        done = false;
    }
    free(beyond);
    return done;
}

int gm_command_plan(int argc, char **argv) {
    struct options options = {.headroom = UINT64_C(512) << 20};
    char error[512];
    const char *trace = NULL;
    int status = read_options(argc, argv, &options, &trace);
    if (status >= 0)
        return status;
    struct gm_reader *reader = gm_reader_open(trace, error, sizeof error);
    if (!reader) {
        gm_complain("%s", error);
        return 1;
    }
    if (!gm_reader_has_blocks(reader, "plan", error, sizeof error)) {
        gm_complain("%s", error);
        gm_reader_close(reader);
        return 1;
    }
    struct gm_objects *objects = gm_objects_read(reader);
    gm_reader_warn(trace, gm_reader_damaged(reader));
    if (!objects)
        gm_complain("%s: out of memory", trace);
    else if (!objects->movable)
        gm_complain("%s: no allocation that a policy may move", trace);
    bool done = objects && objects->movable && make_plan(objects, &options, trace);
    gm_objects_free(objects);
    gm_reader_close(reader);
    return !done;
}
