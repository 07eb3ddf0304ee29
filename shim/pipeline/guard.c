/* Chooses the requests that are guarded (guard.h). */
#include "shim/pipeline/guard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/events.h"
#include "shim/accounts/limit.h"
#include "shim/base/room.h"
#include "shim/accounts/stats.h"
#include "shim/driver/transports.h"

enum { PAUSE = 16, MOST_PAUSE = 4096, ONE = 65536 };

uint64_t gm_guard_every;

/* ---- the option */

static gm_status refuse_word(const char *word, size_t length, char *error, size_t error_size) {
    gm_format(error, error_size,
              "\"%.*s\" is not accepted: write off, all or 1/N, then begin, blocking, noraces or align=1, 4, 16 or 512 "
              "after commas",
              length > 40 ? 40 : (int)length, word);
    return GM_INVALID_VALUE;
}

static bool parse_share(const char *word, size_t length, uint64_t *every) {
    if (length == 3 && !memcmp(word, "off", 3))
        *every = 0;
    else if (length == 3 && !memcmp(word, "all", 3))
        *every = 1;
    else if (length < 3 || length > 12 || memcmp(word, "1/", 2))
        return false;
    else
        for (size_t i = 2, value = *every = 0; i < length; i++) {
            if (word[i] < '0' || word[i] > '9')
                return false;
            *every = value = value * 10 + (size_t)(word[i] - '0');
        }
    return *every || word[0] == 'o';
}

static bool parse_alignment(const char *word, size_t length, unsigned *align) {
    static const struct {
        const char *word;
        unsigned align;
    } all[] = {{"align=1", 1}, {"align=4", 4}, {"align=16", 16}, {"align=512", 512}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (length == strlen(all[i].word) && !memcmp(word, all[i].word, length)) {
            *align = all[i].align;
            return true;
        }
    return false;
}

gm_status gm_guard_parse(const char *text, struct gm_guard_choice *choice, char *error, size_t error_size) {
    struct gm_guard_choice read = {0};
    size_t length = strcspn(text, ",");
    if (!parse_share(text, length, &read.every))
        return refuse_word(text, length, error, error_size);
    for (const char *word = text + length; *word; word += length) {
        length = strcspn(++word, ",");
        if (length == 5 && !memcmp(word, "begin", 5))
            read.begin = true;
        else if (length == 8 && !memcmp(word, "blocking", 8))
            read.blocking = true;
        else if (length == 7 && !memcmp(word, "noraces", 7))
            read.noraces = true;
        else if (!parse_alignment(word, length, &read.align))
            return refuse_word(word, length, error, error_size);
    }
    *choice = read;
    return GM_OK;
}

/* ---- one of N */

/* Of a thread. */
struct samples {
    uint64_t due; /* the count of allocations from which on a request is taken; 0 = not chosen yet */
    uint64_t random;
};
GM_ROOM_FITS(struct samples, samples);

enum { MOST_DISTANCE = 46 }; /* times N */

/* At least 1, N on average, and exponential: each request is as likely to be taken, whatever was taken before. The
 * logarithm of base 2 is the exponent and a parabola. */
static uint64_t next_distance(struct samples *mine) {
    if (!mine->random)
        mine->random = (uint64_t)gm_thread_id() * 0x9e3779b97f4a7c15ull ^ gm_ticks() ^ 1;
    mine->random ^= mine->random << 13;
    mine->random ^= mine->random >> 7;
    mine->random ^= mine->random << 17;
    int zeros = __builtin_clzll(mine->random);
    double fraction = (double)(mine->random << zeros << 1) / 0x1p64;
    double logarithm = zeros + 1 - fraction * (1.343 - 0.343 * fraction);
    return 1 + (uint64_t)(logarithm * M_LN2 * (double)(gm_guard_every - 1) + 0.5);
}

bool gm_guard_is_due(void) {
    if (gm_guard_every <= 1)
        return gm_guard_every;
    struct samples *mine = gm_room_part(GM_ROOM_SAMPLES);
    if (!mine)
        return false;
    uint64_t count = gm_stats_allocations(gm_stats_mine());
    if (GM_UNLIKELY(!mine->due) ||
        GM_UNLIKELY(mine->due > count + MOST_DISTANCE * gm_guard_every)) /* a shard of another thread */
        mine->due = count + next_distance(mine);
    return count + 1 >= mine->due;
}

void gm_guard_look(void) {
    if (gm_guard_every > 1 && gm_mine.shard && gm_guard_is_due())
        gm_mine.shard = NULL;
}

/* ---- the bound */

static uint32_t turns;       /* sums the part that is taken */
static uint32_t rest, pause; /* requests not to take; how many after the next that found no memory */

static bool takes_turn(uint64_t left, uint64_t half) {
    uint32_t part = (uint32_t)(left * ONE / half);
    uint32_t before = __atomic_fetch_add(&turns, part, __ATOMIC_RELAXED);
    return (before / ONE) != ((before + part) / ONE);
}

static bool is_resting(void) {
    uint32_t left = __atomic_load_n(&rest, __ATOMIC_RELAXED);
    if (GM_LIKELY(!left))
        return false;
    __atomic_compare_exchange_n(&rest, &left, left - 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return true;
}

/* A quarter of the device's memory is the most that guarding may take. */
static uint64_t most_extra(int device) {
    static uint64_t known[GM_STATS_DEVICES];
    if (!GM_SUBSCRIBER(device_total) || device < 0 || device >= GM_STATS_DEVICES)
        return UINT64_MAX / ONE;
    uint64_t total = __atomic_load_n(&known[device], __ATOMIC_RELAXED);
    if (!total)
        __atomic_store_n(&known[device], total = GM_ASK(device_total, device), __ATOMIC_RELAXED);
    return total / 4;
}

static bool has_room(const struct gm_request *request) {
    const uint64_t granule = (uint64_t)2 << 20;
    uint64_t most = most_extra(request->device), extra = granule - 1 - (request->size - 1) % granule;
    uint64_t used = __atomic_load_n(&gm_stats->slack_bytes[GM_KIND_GUARD], __ATOMIC_RELAXED);
    uint64_t limit = gm_limit_on() ? gm_limit_now(request->device) : UINT64_MAX;
    if (gm_limit_on() && limit / 4 < most)
        most = limit / 4;
    if (gm_limit_on() && gm_limit_live(request->device) + request->size + extra > limit)
        return false;
    if (used + extra > most)
        return false;
    uint64_t half = most / 2;
    return used <= half || takes_turn(most - used, half);
}

/* ---- memory that the program exports */

static bool spares; /* samples spare memory of cudaMalloc */

void gm_guard_spare(const char *call) {
    static const char consequence[] = "which guarded memory cannot serve: no more samples of cudaMalloc";
    if (gm_guard_every <= 1 || __atomic_exchange_n(&spares, true, __ATOMIC_RELAXED))
        return;
    if (call)
        gm_log(GM_LOG_WARN, "GPUMEM_GUARD=1/%lu: the program calls %s, %s", (unsigned long)gm_guard_every, call,
               consequence);
    else
        gm_log(GM_LOG_WARN, "GPUMEM_GUARD=1/%lu: MPI, UCX or a similar library is loaded and may export memory, %s",
               (unsigned long)gm_guard_every, consequence);
}

#ifdef GM_HAVE_CUDA
/* Natively memory in stream order has no handle either. */
static bool is_spared(const struct gm_request *request) {
    if (gm_guard_every == 1 || request->call == GM_CALL_ALLOC_ASYNC)
        return false;
    if (!__atomic_load_n(&spares, __ATOMIC_RELAXED) && gm_buffers_in_process())
        gm_guard_spare(NULL);
    return __atomic_load_n(&spares, __ATOMIC_RELAXED);
}

/* ---- a cache of the program's between tensors and blocks */

static bool uses_pytorch_cache(void) {
    const char *options = getenv("PYTORCH_CUDA_ALLOC_CONF"), *newer = getenv("PYTORCH_ALLOC_CONF");
    return !getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") && !(options && strstr(options, "cudaMallocAsync")) &&
           !(newer && strstr(newer, "cudaMallocAsync"));
}

/* PyTorch is often loaded after the first block. */
static void hint(void) {
    static int done;
    if (__atomic_load_n(&done, __ATOMIC_RELAXED) || !gm_pytorch_in_process())
        return;
    if (!__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED) && uses_pytorch_cache())
        gm_log(GM_LOG_WARN,
               "GPUMEM_GUARD: PyTorch cuts tensors from blocks of its cache, so errors between tensors are not "
               "found; set PYTORCH_NO_CUDA_MEMORY_CACHING=1");
}
#else
static bool is_spared(const struct gm_request *request) { return false; }
static void hint(void) {}
#endif

bool gm_guard_takes(const struct gm_request *request) {
    if (request->capturing || !request->context || !gm_guard_is_due())
        return false;
    struct samples *mine = gm_room_part_known(GM_ROOM_SAMPLES);
    if (mine)
        mine->due = 0;
    hint();
    if (is_spared(request))
        return false;
    if (!is_resting() && has_room(request))
        return true;
    __atomic_add_fetch(&gm_stats->guard_refused, 1, __ATOMIC_RELAXED);
    return false;
}

void gm_guard_served(bool served) {
    uint32_t now = __atomic_load_n(&pause, __ATOMIC_RELAXED);
    if (served) {
        if (now)
            __atomic_store_n(&pause, 0, __ATOMIC_RELAXED);
        return;
    }
    if (!now)
        now = PAUSE;
    __atomic_store_n(&rest, now, __ATOMIC_RELAXED);
    __atomic_store_n(&pause, now < MOST_PAUSE ? 2 * now : now, __ATOMIC_RELAXED);
    __atomic_add_fetch(&gm_stats->guard_refused, 1, __ATOMIC_RELAXED);
}
