/* SIMCUDA_* options, scripted failures, hidden names, latencies and the call log. */
#include "sim.h"
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sim_options sim_opt;

struct failure {
    char pattern[96];
    uint64_t first, count, seen;
    int code;
};
#define MAX_SYMBOLS 1024
static struct failure failures[32];
static unsigned failure_count;
static struct need {
    char pattern[96];
    uint64_t bytes;
} needs[64];
static unsigned need_count;
static char hidden[2048];
static uint64_t calls[MAX_SYMBOLS], call_count, log_seq;
static float latency_us[MAX_SYMBOLS];
static int log_fd = -1;
#define MAX_VALUES 16
#define RING_SIZE  1024u
static struct record {
    uint64_t seq;
    unsigned index;
    CUresult result;
    uint32_t stars; /* bit per value that was read through its pointer */
    uint64_t values[MAX_VALUES];
} ring[RING_SIZE];

static const char *env(const char *name, const char *fallback) {
    const char *v = getenv(name);
    return v && *v ? v : fallback;
}

static void wrong(const char *name, const char *value, const char *accepted) {
    fprintf(stderr, "simulated CUDA: %s=%s is ignored; accepted: %s\n", name, value, accepted);
}

static uint64_t number(const char *name, uint64_t fallback, uint64_t most) {
    static const char units[] = "KMG";
    const char *text = env(name, ""), *unit;
    char *end, accepted[64];
    uint64_t value = strtoull(text, &end, 0), times = 1;
    if (*end && (unit = strchr(units, *end)) && !end[1]) {
        times = UINT64_C(1) << 10 * (unit - units + 1);
        end++;
    }
    if (!*text)
        return fallback;
    if (!*end && *text != '-' && value <= most / times)
        return value * times;
    snprintf(accepted, sizeof accepted, "0 to %" PRIu64 ", also with K, M or G", most);
    wrong(name, text, accepted);
    return fallback;
}

/* Position of the value in "a|b|c"; the first is the default. */
static unsigned choice(const char *name, const char *choices) {
    const char *text = env(name, ""), *at = choices;
    size_t length = strlen(text);
    for (unsigned i = 0; length && at; i++) {
        if (strcspn(at, "|") == length && !strncmp(at, text, length))
            return i;
        at = strchr(at, '|');
        at += at != NULL;
    }
    if (length)
        wrong(name, text, choices);
    return 0;
}

/* An option with a function of its own, which returns 0 when it accepts the text. */
static void script(const char *name, int (*set)(const char *text), const char *accepted) {
    const char *text = env(name, NULL);
    if (text && set(text))
        wrong(name, text, accepted);
}

static bool parse_failure(char *text) {
    struct failure f = {.first = 1, .count = 1, .code = CUDA_ERROR_OUT_OF_MEMORY};
    char *rest = NULL;
    char *name = strtok_r(text, ":", &rest);
    if (!name || strlen(name) >= sizeof f.pattern || failure_count == sizeof failures / sizeof failures[0])
        return false;
    strcpy(f.pattern, name);
    char *n = strtok_r(NULL, ":", &rest), *code = strtok_r(NULL, ":", &rest), *count = strtok_r(NULL, ":", &rest);
    if (!n || (f.first = strtoull(n, NULL, 10)) == 0)
        return false;
    if (code)
        f.code = atoi(code);
    if (count)
        f.count = strtoull(count, NULL, 10);
    failures[failure_count++] = f;
    return true;
}

int simcuda_set_failures(const char *script) {
    int result = 0;
    sim_lock();
    failure_count = 0;
    char *copy = strdup(script ? script : ""), *rest = NULL;
    for (char *one = strtok_r(copy, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        if (!parse_failure(one))
            result = -1;
    }
    free(copy);
    sim_unlock();
    return result;
}

CUresult sim_scripted_failure(unsigned index) {
    const struct sim_symbol *sym = &sim_symbols[index];
    calls[index]++;
    call_count++;
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < failure_count; i++) {
        struct failure *f = &failures[i];
        if (fnmatch(f->pattern, sym->name, 0) != 0 && fnmatch(f->pattern, sym->symbol, 0) != 0)
            continue;
        f->seen++;
        if (result == CUDA_SUCCESS && f->seen >= f->first && f->seen - f->first < f->count)
            result = (CUresult)f->code;
    }
    return result;
}

int simcuda_set_needs(const char *script) {
    int result = 0;
    sim_lock();
    need_count = 0;
    char *copy = strdup(script ? script : ""), *rest = NULL;
    for (char *one = strtok_r(copy, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        struct need *n = &needs[need_count];
        if (need_count < sizeof needs / sizeof needs[0] && sscanf(one, "%95[^:]:%" SCNu64, n->pattern, &n->bytes) == 2)
            need_count++;
        else
            result = -1;
    }
    free(copy);
    sim_unlock();
    return result;
}

uint64_t sim_needs(unsigned index) {
    const struct sim_symbol *sym = &sim_symbols[index];
    uint64_t bytes = 0;
    for (unsigned i = 0; i < need_count; i++) {
        if (fnmatch(needs[i].pattern, sym->symbol, 0) == 0 && needs[i].bytes > bytes)
            bytes = needs[i].bytes;
    }
    return bytes;
}

static struct {
    char symbol[96];
    void (*then)(void);
} after;

void simcuda_set_after(const char *symbol, void (*then)(void)) {
    sim_lock();
    snprintf(after.symbol, sizeof after.symbol, "%s", symbol ? symbol : "");
    after.then = then;
    sim_unlock();
}

void (*sim_after(unsigned index))(void) {
    return after.symbol[0] && strcmp(after.symbol, sim_symbols[index].symbol) == 0 ? after.then : NULL;
}

void simcuda_set_hidden(const char *names) {
    sim_lock();
    snprintf(hidden, sizeof hidden, ",%s,", names ? names : "");
    sim_unlock();
}

static bool in_hidden(const char *name) {
    size_t n = strlen(name);
    for (const char *p = strstr(hidden, name); p; p = strstr(p + 1, name)) {
        if (p[-1] == ',' && p[n] == ',')
            return true;
    }
    return false;
}

bool sim_hidden(const char *symbol, const char *name) {
    return hidden[1] != ',' && (in_hidden(symbol) || in_hidden(name));
}

int simcuda_set_streams(const char *mode) {
    int result = 0;
    sim_lock();
    if (strcmp(mode, "immediate") == 0) {
        sim_opt.mode = SIM_IMMEDIATE;
    } else if (strcmp(mode, "manual") == 0) {
        sim_opt.mode = SIM_MANUAL;
    } else if (strncmp(mode, "random:", 7) == 0) {
        sim_opt.mode = SIM_RANDOM;
        sim_opt.seed = strtoull(mode + 7, NULL, 10) * 2654435761u + 88172645463325252ull;
    } else {
        result = -1;
    }
    sim_unlock();
    return result;
}

int simcuda_set_peers(const char *which) {
    bool none = strcmp(which, "none") == 0;
    if (!none && strcmp(which, "all") != 0)
        return -1;
    sim_lock();
    sim_opt.no_peers = none;
    sim_unlock();
    return 0;
}

/* Medians measured on one H200 (driver 580), idle device, small sizes; microseconds. */
static void set_latencies(void) {
    static const struct {
        const char *pattern;
        float us;
    } rows[] = {
        {"cuMemAlloc_v2", 31},
        {"cuMemAllocPitch_v2", 31},
        {"cuMemFree_v2", 25},
        {"cuMemAllocAsync*", .28f},
        {"cuMemAllocFromPoolAsync*", .28f},
        {"cuMemFreeAsync*", .37f},
        {"cuMemAllocManaged", 7},
        {"cuEventQuery", .19f},
        {"cuEventRecord*", .18f},
        {"cuCtxRecordEvent", .19f},
        {"cuCtxWaitEvent", .19f},
        {"cuStreamWaitEvent*", .14f},
        {"cuCtxSynchronize*", .56f},
        {"cuMemCreate", 8},
        {"cuMemMap", .7f},
        {"cuMemSetAccess", 22},
        {"cuMemUnmap", 17},
        {"cuMemRelease", 4},
        {"cuMemAddressReserve", 1.8f},
        {"cuMemAddressFree", 1.7f},
    };
    for (unsigned i = 0; i < sim_symbol_count && i < MAX_SYMBOLS; i++) {
        for (unsigned k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            if (fnmatch(rows[k].pattern, sim_symbols[i].symbol, 0) == 0)
                latency_us[i] = rows[k].us;
        }
    }
}

void sim_latency(unsigned index) {
    if (!sim_opt.latency || latency_us[index] == 0)
        return;
    uint64_t until = sim_now() + (uint64_t)(latency_us[index] * 1000);
    while (sim_now() < until)
        ;
}

void sim_options_read(void) {
    sim_opt.devices = (int)number("SIMCUDA_DEVICES", 1, SIM_MAX_DEVICES);
    sim_card_share(getenv("SIMCUDA_CARD"));
    sim_opt.memory = number("SIMCUDA_MEMORY", UINT64_C(4) << 30, UINT64_C(1) << 46);
    sim_opt.beyond = number("SIMCUDA_BEYOND", 0, UINT64_C(1) << 34);
    sim_opt.version = (int)number("SIMCUDA_VERSION", 13000, 99999);
    sim_opt.strict = number("SIMCUDA_STRICT", 0, 1);
    sim_opt.noop_kernels = number("SIMCUDA_NOOP_KERNELS", 0, 1);
    unsigned waits = choice("SIMCUDA_FREE", "context|device|locked");
    sim_opt.free_waits_for_device = waits == 1;
    sim_opt.free_locks = waits == 2;
    sim_opt.latency = choice("SIMCUDA_LATENCY", "none|h200");
    sim_opt.answer_ns = number("SIMCUDA_ANSWER", 0, UINT64_C(1000000000000));
    sim_opt.whole_segments = choice("SIMCUDA_POOL_RANGE", "block|segment");
    sim_opt.blind_fence = choice("SIMCUDA_FENCE", "true|blind");
    script("SIMCUDA_PEERS", simcuda_set_peers, "all|none");
    script("SIMCUDA_STREAMS", simcuda_set_streams, "immediate|manual|random:SEED");
    simcuda_set_hidden(env("SIMCUDA_HIDE", ""));
    script("SIMCUDA_FAIL", simcuda_set_failures, "NAME:N[:CODE[:COUNT]],...");
    script("SIMCUDA_NEEDS", simcuda_set_needs, "NAME:BYTES,...");
    if (sim_opt.latency)
        set_latencies();
    const char *path = getenv("SIMCUDA_LOG");
    if (path && *path)
        log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (path && *path && log_fd < 0)
        wrong("SIMCUDA_LOG", path, "a file that can be written");
}

static size_t format_record(char *out, size_t size, const struct record *r) {
    const struct sim_symbol *sym = &sim_symbols[r->index];
    size_t n = (size_t)snprintf(out, size, "%llu %s %d", (unsigned long long)r->seq, sym->symbol, (int)r->result);
    const char *p = sym->params;
    for (unsigned i = 0; *p && i < MAX_VALUES && n + 120 < size; i++) {
        size_t len = strcspn(p + 1, " ");
        if (*p != 's')
            n += (size_t)snprintf(out + n, size - n, *p == 'u' ? " %.*s=%s%llu" : " %.*s=%s0x%llx", (int)len, p + 1,
                                  r->stars >> i & 1 ? "*" : "", (unsigned long long)r->values[i]);
        p += 1 + len;
        p += *p == ' ';
    }
    out[n++] = '\n';
    return n;
}

/* Text is made only when somebody reads it: benches measure calls through this. */
void sim_log_call(unsigned index, CUresult result, const uint64_t *values) {
    struct record *r = &ring[log_seq++ % RING_SIZE];
    *r = (struct record){.seq = log_seq, .index = index, .result = result};
    const char *p = sim_symbols[index].params;
    for (unsigned i = 0; *p && i < MAX_VALUES; i++) {
        bool out = *p == 'o' && result == CUDA_SUCCESS && values[i];
        r->values[i] = out ? *(uint64_t *)(uintptr_t)values[i] : values[i];
        r->stars |= (uint32_t)out << i;
        p += strcspn(p, " ");
        p += *p == ' ';
    }
    if (log_fd >= 0) {
        char line[1024];
        if (write(log_fd, line, format_record(line, sizeof line, r)) < 0)
            log_fd = -1;
    }
}

size_t simcuda_log_tail(char *text, size_t size) {
    char line[1024];
    size_t n = 0;
    sim_lock();
    uint64_t first = log_seq, room = size - 1;
    while (first > 0 && log_seq - first < RING_SIZE) {
        size_t len = format_record(line, sizeof line, &ring[(first - 1) % RING_SIZE]);
        if (len > room)
            break;
        room -= len;
        first--;
    }
    for (; first < log_seq; first++) {
        size_t len = format_record(line, sizeof line, &ring[first % RING_SIZE]);
        memcpy(text + n, line, len);
        n += len;
    }
    text[n] = 0;
    sim_unlock();
    return n;
}

uint64_t simcuda_calls(const char *symbol) {
    uint64_t n = 0;
    sim_lock();
    for (unsigned i = 0; i < sim_symbol_count; i++) {
        if (!symbol || strcmp(symbol, sim_symbols[i].symbol) == 0)
            n += calls[i];
    }
    sim_unlock();
    return n;
}

void sim_reset_calls(void) { memset(calls, 0, sizeof calls); }

void simcuda_set_version(int version) {
    sim_lock();
    sim_opt.version = version;
    sim_unlock();
}
