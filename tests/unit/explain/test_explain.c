/* The explanations of memory errors: what each states, that each cause is explained once, and what remains where the
 * kernel has no memory. Each test runs in a child, whose lines on stderr are collected. */
/* cmocka needs the four headers above first */
#include "tests/test.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/base/events.h"
#include "shim/base/file.h"
#include "shim/accounts/limit.h"
#include "shim/accounts/stats.h"
#include "shim/base/symbol.h"
#include "shim/explain/account.h"
#include "shim/explain/explain.h"
#include "shim/explain/freed.h"
#include "shim/resource/registry.h"
#include "shim/placement/router.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static char said[1 << 16];

/* Runs `test` in a child and collects its lines in `said`. */
static void in_child(void (*test)(void)) {
    FILE *file = tmpfile();
    int status;
    assert_non_null(file);
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        dup2(fileno(file), STDERR_FILENO);
        gm_standard_error_is_now();
        test();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    if (status || strstr(said, "Sanitizer") || strstr(said, "runtime error"))
        fail_msg("%s", said);
}

static unsigned times(const char *text) {
    unsigned count = 0;
    for (const char *at = said; (at = strstr(at, text)); at += strlen(text))
        count++;
    return count;
}

static void expect(const char *text) {
    if (times(text) != 1)
        fail_msg("\"%s\" stands %u times in:\n%s", text, times(text), said);
}

static struct gm_request request_of(enum gm_call call, uint64_t size, int device) {
    return (struct gm_request){.call = call, .size = size, .device = device, .context = 1};
}

/* Enters `count` blocks of `size` bytes into the registry. */
static void hold(unsigned count, size_t size, enum gm_kind kind, int device, uint32_t site) {
    static uint64_t address = UINT64_C(1) << 40;
    for (unsigned i = 0; i < count; i++, address += size + 4096) {
        struct gm_block block = {.address = address,
                                 .size = size,
                                 .reserved = size,
                                 .call = GM_CALL_ALLOC,
                                 .kind = (uint8_t)kind,
                                 .device = (int16_t)device,
                                 .site = site};
        gm_registry_add(gm_registry_shared(), &block, NULL);
        gm_stats_take(kind, device, size);
    }
}

static uint64_t own; /* what the card says of this process */

static bool card_of_100(int *device, bool asks_own, struct gm_card *card) {
    *device = *device < 0 ? 0 : *device;
    if (card)
        *card = (struct gm_card){.free = 10 * GIB, .total = 100 * GIB, .own = asks_own ? own : 0};
    return true;
}

static bool no_answer(int *device, bool asks_own, struct gm_card *card) { return false; }

/* ---- what an explanation states */

static void fail_on_card(void) {
    struct gm_request request = request_of(GM_CALL_ALLOC, 20 * GIB, 0);
    gm_events.card_asked = card_of_100;
    hold(2, 16 * GIB, GM_KIND_NATIVE, 0, 0);
    hold(3, 1 * GIB, GM_KIND_CACHE, 0, 0);
    hold(1, 4 * GIB, GM_KIND_ASYNC, 0, 0);
    hold(1, 5 * MIB, GM_KIND_NATIVE, 0, 0);
    hold(1, 6 * MIB, GM_KIND_NATIVE, 0, 0);
    hold(1, 7 * MIB, GM_KIND_NATIVE, 0, 0);
    hold(1, 50 * GIB, GM_KIND_NATIVE, 1, 0);  /* another device */
    hold(1, 50 * GIB, GM_KIND_HOST, 0, 0);    /* not on a device */
    gm_stats_take(GM_KIND_CACHE, 0, 1 * GIB); /* kept */
    own = 60 * GIB;
    gm_explain_failure(&request, GM_KIND_NATIVE, false);
}

TEST(test_card) {
    in_child(fail_on_card);
    expect("gpumem: out of memory: cuMemAlloc of 20.00 GiB on device 0\n");
    expect("gpumem:   card          100.00 GiB, when the request failed:\n"
           "gpumem:     live        39.02 GiB in 9 blocks\n"
           "gpumem:     rounding    2.00 MiB\n" /* pages of the blocks of 5 and 7 MiB */
           "gpumem:     kept        1.00 GiB\n"
           "gpumem:     contexts    19.98 GiB: contexts, modules, graphs, and what else the process has beyond gpumem\n"
           "gpumem:     others      30.00 GiB: other processes, and the driver itself\n"
           "gpumem:     free        10.00 GiB\n"
           "gpumem:   why           other processes\n");
    expect("gpumem:   held by       32.00 GiB in 2 blocks of 16.00 GiB, native\n"
           "gpumem:                 4.00 GiB in 1 block of 4.00 GiB, async\n"
           "gpumem:                 3.00 GiB in 3 blocks of 1.00 GiB, cache\n"
           "gpumem:                 7.00 MiB in 1 block of 7.00 MiB, native\n"
           "gpumem:                 6.00 MiB in 1 block of 6.00 MiB, native\n");
    assert_int_equal(times("5.00 MiB"), 0);
    expect("gpumem:   largest       11.00 GiB at most can still be mapped in one piece\n");
    expect("gpumem:   try           gpumem run --oom=trim,host,fail in place of trim: host memory");
    assert_int_equal(times("limit "), 0);
}

static void fail_beyond_limit(void) {
    struct gm_oom_chain all;
    char error[100];
    struct gm_request request = request_of(GM_CALL_ARRAY, 3 * GIB, 0);
    gm_limit_bytes = 8 * GIB;
    gm_limit_force(0, 8 * GIB - 11 * MIB / 2);
    gm_events.card_asked = card_of_100;
    gm_explain_failure(&request, GM_KIND_ARRAY, true);
    gm_oom_parse("trim,host,managed", &all, error, sizeof error);
    gm_router_set_steps(&all);
    request = request_of(GM_CALL_ALLOC, 3 * GIB, 1);
    gm_explain_failure(&request, GM_KIND_NATIVE, true);
}

TEST(test_limit) {
    in_child(fail_beyond_limit);
    expect(" of 3.00 GiB on device 0 exceeds GPUMEM_LIMIT=8.00 GiB\n");
    expect("gpumem:   limit         8.00 GiB, of which 7.99 GiB are in use\n");
    expect("gpumem:   largest       4.00 MiB at most"); /* whole granules */
    expect("a higher GPUMEM_LIMIT, or to free some of the above; GPUMEM_OOM=trim does not move a ");
    expect("on device 1 exceeds GPUMEM_LIMIT=8.00 GiB\n"); /* another device: explained anew */
    expect(
        "a higher GPUMEM_LIMIT, or to free some of the above: no step of GPUMEM_OOM=trim,host,managed could serve\n");
}

static void fail_elsewhere(void) {
    struct gm_request request = request_of(GM_CALL_ALLOC_ASYNC, GIB, 0);
    gm_events.card_asked = no_answer;
    request.capturing = true;
    gm_explain_failure(&request, GM_KIND_NATIVE, false);
    request = request_of(GM_CALL_HOST_ALLOC, 2 * GIB, 0);
    hold(1, 40 * MIB, GM_KIND_HOST, 0, 0);
    hold(1, 50 * MIB, GM_KIND_NATIVE, 0, 0);
    gm_explain_failure(&request, GM_KIND_HOST, false);
}

TEST(test_capture_and_host) {
    in_child(fail_elsewhere);
    expect("1.00 GiB on device 0, in a capture, where no step of GPUMEM_OOM is possible\n");
    expect("card          not known: ");
    expect("try           to allocate before the capture begins\n");
    expect("2.00 GiB of host memory\n");
    expect("live          40.00 MiB in 1 block\n");
    assert_int_equal(times("largest"), 0);
}

/* ---- once */

static void *fail_often(void *device) {
    struct gm_request request = request_of(GM_CALL_ALLOC, GIB, *(int *)device);
    for (int i = 0; i < 1000; i++)
        gm_explain_failure(&request, GM_KIND_NATIVE, false);
    return NULL;
}

static void fail_in_threads(void) {
    pthread_t threads[8];
    int devices[2] = {0, 1};
    gm_events.card_asked = card_of_100;
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, fail_often, &devices[i % 2]);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    gm_explain_finish();
}

static void fail_once(void) {
    struct gm_request request = request_of(GM_CALL_ALLOC, GIB, 0);
    gm_explain_failure(&request, GM_KIND_NATIVE, false);
    gm_explain_finish();
}

TEST(test_each_cause_once) {
    in_child(fail_in_threads);
    expect("on device 0\n");
    expect("on device 1\n");
    expect("gpumem: out of memory: 8000 in all (card full 8000); the first of each cause is explained above\n");
    in_child(fail_once);
    expect("on device 0\n");
    assert_int_equal(times("in all"), 0);
}

static void move_often(void) {
    struct gm_request request = request_of(GM_CALL_ALLOC, GIB, 0);
    const struct gm_block blocks[] = {
        {.kind = GM_KIND_HOST_NUMA},
        {.kind = GM_KIND_MANAGED},
        {.kind = GM_KIND_SPLIT, .size = GIB, .reserved = GIB, .on_device = GIB / 4},
    };
    for (int i = 0; i < 5; i++)
        for (size_t kind = 0; kind < sizeof blocks / sizeof *blocks; kind++)
            gm_explain_move(&request, &blocks[kind], false);
}

TEST(test_moves) {
    in_child(move_often);
    expect("device 0 has no room: cuMemAlloc of 1.00 GiB, and what follows it, is served from host memory, many times "
           "slower than "
           "the card's (GPUMEM_OOM=trim)\n");
    expect("managed memory, slow where it does not fit the card");
    expect("device 0 has no room: cuMemAlloc of 1.00 GiB is split: its first 256.00 MiB are on the card, the rest of "
           "768.00 MiB is in host memory, many times slower than the card's");
    assert_int_equal(times("is split"), 1);
}

/* ---- wrong frees */

static void free_wrongly(void) {
    struct gm_request request = request_of(GM_CALL_FREE, 0, 0);
    struct gm_block freed = {.address = 0x7000000, .size = 3 * MIB};
    gm_freed_note(&freed, 0);
    hold(1, MIB, GM_KIND_NATIVE, 0, 0); /* at 1 << 40 */
    for (int i = 0; i < 3; i++)
        gm_explain_wrong_free(&request, 0x7000000);
    for (int i = 0; i < 40; i++)
        gm_explain_wrong_free(&request, 0x7000000 + (1u << 30) + (unsigned)i);
    gm_explain_wrong_free(&request, (UINT64_C(1) << 40) + 256);
    gm_explain_finish();
}

static void free_inside(void) {
    struct gm_request request = request_of(GM_CALL_FREE, 0, 0);
    hold(1, MIB, GM_KIND_NATIVE, 0, 0);
    gm_explain_wrong_free(&request, (UINT64_C(1) << 40) + 256);
    gm_explain_wrong_free(&request, (UINT64_C(1) << 40) + MIB); /* right behind it */
}

TEST(test_wrong_frees) {
    in_child(free_wrongly);
    expect("cuMemFree of 0x7000000, which was freed before: a block of 3.00 MiB\n");
    expect("where no block is or was\n");
    expect("wrong frees: 44 in all (freed twice 3, no block there 41); the first of each cause is explained above\n");
    in_child(free_inside);
    expect("which lies 256 bytes inside a live block of 1.00 MiB\n");
    expect("where no block is or was\n");
}

static void *free_in_thread(void *first) {
    struct gm_request request = request_of(GM_CALL_FREE, 0, 0);
    struct gm_freed found;
    for (uint64_t i = 0; i < 4000; i++) { /* all threads free at the same addresses */
        struct gm_block block = {.address = (i % 500 + 1) << 20, .size = (i % 500 + 1) << 20, .site = 7};
        gm_freed_note(&block, 7);
        if (gm_freed_find(block.address, &found) && (found.size != block.size || found.freed_at != 7))
            return first; /* a mixture of two notes */
        gm_explain_wrong_free(&request, block.address);
    }
    return NULL;
}

static void free_in_threads(void) {
    pthread_t threads[4];
    void *mixed = NULL, *answer;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, free_in_thread, threads);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &answer);
        mixed = answer ? answer : mixed;
    }
    gm_explain_finish();
    if (mixed)
        _exit(1);
}

TEST(test_frees_in_threads) {
    in_child(free_in_threads);
    assert_int_equal(times("which was freed before"), 1);
    assert_int_equal(times("wrong frees: 16000 in all"), 1);
}

TEST(test_freed_blocks) {
    struct gm_block block = {.address = 0x5000000, .size = 77, .site = 3};
    struct gm_freed freed;
    assert_false(gm_freed_find(0x5000000, &freed));
    gm_freed_note(&block, 9);
    assert_true(gm_freed_find(0x5000000, &freed));
    assert_true(freed.size == 77 && freed.allocated_at == 3 && freed.freed_at == 9);
    gm_freed_after_fork();
    assert_false(gm_freed_find(0x5000000, &freed));
}

/* ---- no memory */

static void fail_without_pages(void) {
    struct rlimit none = {0, 0};
    struct gm_request request = request_of(GM_CALL_ALLOC, 1000, 0);
    struct gm_block freed = {.address = 0x7000000, .size = 1};
    gm_registry_shared();
    setrlimit(RLIMIT_AS, &none);
    gm_freed_note(&freed, 0);
    gm_explain_failure(&request, GM_KIND_NATIVE, false);
    gm_explain_failure(&request, GM_KIND_NATIVE, false);
    gm_explain_wrong_free(&request, 0x7000000);
}

TEST(test_no_memory_for_words) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* a sanitizer needs memory of its own */
#endif
    in_child(fail_without_pages);
    assert_string_equal(said, "gpumem: out of memory: cuMemAlloc of 1000 bytes, and no memory to say more\n");
}

/* ---- parts */

TEST(test_sizes) {
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {{0, "0 B"},
                {1023, "1023 B"},
                {1024, "1.00 KiB"},
                {1536, "1.50 KiB"},
                {MIB - 1, "1.00 MiB"}, /* rounded, as the tools do */
                {MIB, "1.00 MiB"},
                {9 * GIB / 8, "1.12 GiB"},
                {3000 * MIB, "2.93 GiB"},
                {17 * GIB / 2, "8.50 GiB"},
                {UINT64_MAX, "16.00 EiB"}};
    struct gm_size_text room;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(gm_size_text(&room, rows[i].bytes), rows[i].text);
}

TEST(test_steps_as_text) {
    static const char *const texts[] = {"trim", "trim,host,managed,fail", "managed,host"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct gm_oom_chain chain;
        char error[100];
        assert_int_equal(gm_oom_parse(texts[i], &chain, error, sizeof error), GM_OK);
        assert_string_equal(gm_oom_text(&chain).text, texts[i]);
        assert_true(gm_oom_has(&chain, GM_OOM_HOST) == (strstr(texts[i], "host") != NULL));
    }
}

TEST(test_lines_without_room) {
    char text[32];
    struct gm_log_lines lines = {text, sizeof text, 0};
    gm_log_add(&lines, "%s", "twelve bytes");
    assert_int_equal(lines.length, 21);
    gm_log_add(&lines, "%s", "no room for this");
    gm_log_add(&lines, "ab");
    assert_int_equal(lines.length, sizeof text);
    assert_memory_equal(text, "gpumem: twelve bytes\ngpumem: ab\n", sizeof text);
    gm_log_add(&lines, "%s", "");
    assert_int_equal(lines.length, sizeof text);
}

static char *image; /* start of this program in memory */

TEST(test_symbols) {
    char name[64] = "", path[] = "/tmp/gpumem-symbols-XXXXXX";
    uint64_t at = (uint64_t)((char *)(uintptr_t)&fail_once - image);
    assert_true(gm_symbol_find("/proc/self/exe", at + 1, name, sizeof name));
    assert_string_equal(name, "fail_once");
    assert_true(gm_symbol_find("/proc/self/exe", at, name, 5));
    assert_string_equal(name, "fail");
    assert_false(gm_symbol_find("/proc/self/exe", 1, name, sizeof name));
    assert_false(gm_symbol_find("/nowhere", at, name, sizeof name));
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "\177ELF and then nothing of it", 27), 27);
    assert_false(gm_symbol_find(path, at, name, sizeof name));
    close(fd);
    unlink(path);
}

int main(void) {
    extern char __executable_start;
    image = &__executable_start;
    return run_all(NULL, NULL);
}
