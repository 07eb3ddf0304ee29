/* Packed events: whatever an event holds is read back, and damage ends within the bytes. */

#include "tests/test.h"

#include "shim/trace/pack.h"

enum { EVENTS = 2000 };

static struct gm_event events[EVENTS], read_back[EVENTS];
static unsigned char bytes[EVENTS * GM_PACKED_MOST];

static uint64_t next_random(void) {
    static uint64_t state = 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static size_t pack_all(int count) {
    struct gm_packing packing = {0};
    unsigned char *end = bytes;
    for (int i = 0; i < count; i++) {
        unsigned char *next = gm_pack(&packing, end, &events[i]);
        assert_in_range(next - end, 2, GM_PACKED_MOST);
        end = next;
    }
    return (size_t)(end - bytes);
}

/* Returns how many events it read. */
static int unpack_all(size_t length) {
    struct gm_packing packing = {0};
    const unsigned char *p = bytes, *end = bytes + length;
    int count = 0;
    while (count < EVENTS && p < end && (p = gm_unpack(&packing, p, end, &read_back[count])))
        count++;
    return count;
}

static void check_all(int count) {
    assert_int_equal(unpack_all(pack_all(count)), count);
    assert_memory_equal(events, read_back, (size_t)count * sizeof *events);
}

TEST(any_words_are_read_back) {
    for (int i = 0; i < EVENTS; i++) {
        uint64_t words[GM_PACKED_WORDS];
        for (unsigned k = 0; k < GM_PACKED_WORDS; k++)
            words[k] = next_random() % 3 ? next_random() >> next_random() % 64 : i ? UINT64_MAX : 0;
        memcpy(&events[i], words, sizeof words);
    }
    check_all(EVENTS);
}

TEST(each_difference_of_one_word_is_read_back) {
    static const uint64_t values[] = {0,   1,   UINT64_MAX, 1u << 31, UINT64_C(1) << 32, UINT64_C(1) << 63,
                                      127, 128, UINT32_MAX};
    enum { VALUES = sizeof values / sizeof *values };
    int count = 0;
    memset(events, 0, sizeof events);
    for (unsigned word = 0; word < GM_PACKED_WORDS; word++)
        for (unsigned from = 0; from < VALUES; from++)
            for (unsigned to = 0; to < VALUES; to++, count += 2) {
                memcpy((char *)&events[count] + 8 * word, &values[from], 8);
                memcpy((char *)&events[count + 1] + 8 * word, &values[to], 8);
            }
    assert_in_range(count, 1, EVENTS);
    check_all(count);
}

TEST(pairs_of_a_call_site_take_a_few_bytes) {
    memset(events, 0, sizeof events);
    for (int i = 0; i < EVENTS; i++)
        events[i] = (struct gm_event){.seq = 1000 + (uint64_t)i,
                                      .time_ns = 5000000000u + 700 * (uint64_t)i + (uint64_t)(i % 5),
                                      .address = 0x7f0000000000 + 512 * (uint64_t)(i / 2 % 8),
                                      .bytes = 4000,
                                      .slack = 96,
                                      .duration_ns = 200 + (uint32_t)(i % 7),
                                      .site = i % 2 ? 70000 : 80000,
                                      .call = i % 2 ? GM_CALL_FREE : GM_CALL_ALLOC,
                                      .action = i % 2 ? GM_ACT_FREE : GM_ACT_ALLOC};
    assert_in_range(pack_all(EVENTS), EVENTS, 8 * EVENTS);
    check_all(EVENTS);
}

/* gm_unpack reads no byte behind the end: the copy ends where its memory ends, which sanitizers see. */
TEST(damaged_bytes_end_the_chunk) {
    size_t length = pack_all(40);
    for (size_t cut = 0; cut < length; cut++) {
        struct gm_packing packing = {0};
        struct gm_event event;
        unsigned char *copy = malloc(cut + 1);
        memcpy(copy, bytes, cut);
        int count = 0;
        for (const unsigned char *p = copy; p && p < copy + cut; count++)
            p = gm_unpack(&packing, p, copy + cut, &event);
        assert_in_range(count, 0, 40);
        free(copy);
    }
    memset(bytes, 0xff, 200);
    assert_int_equal(unpack_all(200), 0);
}

int main(void) { return run_all(NULL, NULL); }
