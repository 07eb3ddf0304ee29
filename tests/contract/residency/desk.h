/* Common setup of the residency tests: the region tests' context, three streams, a kernel that combines objects, and
 * short forms of the calls. */
#ifndef RESIDENCY_DESK_H
#define RESIDENCY_DESK_H

#include "../region/bench.h"
#include "shim/gpumem_residency.h"

#define KIB      ((size_t)1 << 10)
#define OK(call) assert_int_equal((call), GPUMEM_OK)
/* The call fails so, and the text of gpumem_last_error() has these words. */
#define FAILS(call, status, words)                                   \
    do {                                                             \
        assert_int_equal((call), (status));                          \
        if (!strstr(gpumem_last_error(), (words)))                   \
            fail_msg("\"%s\" in: %s", (words), gpumem_last_error()); \
    } while (0)

enum { STREAMS = 3 };
extern CUstream streams[STREAMS];

int desk_open(void **state);
int desk_close(void **state);

struct gpumem_residency *residency_of(const char *eviction, size_t budget, uint64_t flags);
uint64_t host_object(struct gpumem_residency *residency, void *address, size_t bytes);
uint64_t gpu_object(struct gpumem_residency *residency, size_t bytes);
struct gpumem_residency_stats stats_of(struct gpumem_residency *residency);

/* One use; the address is that of the copy. */
void *begin(struct gpumem_residency *residency, uint64_t object, uint64_t access, CUstream stream);
void end(struct gpumem_residency *residency, uint64_t object, CUstream stream, uint64_t flags);
/* The use that end() would end, which it then does not know any more. */
struct gpumem_use begun(struct gpumem_residency *residency, uint64_t object);
/* A use that does nothing, or writes each word. */
void touch(struct gpumem_residency *residency, uint64_t object, CUstream stream);
void write_words(struct gpumem_residency *residency, uint64_t object, size_t bytes, uint32_t word, CUstream stream);

/* Submits a kernel: out[i] = 31 a[i mod |a|] + b[i mod |b|] + salt. Counts are words. The driver's answer. */
struct words {
    void *address;
    uint64_t count;
};
CUresult combine(CUstream stream, struct words out, struct words a, struct words b, uint32_t salt);
/* The same on the host. */
void combine_here(uint32_t *out, size_t out_count, const uint32_t *a, size_t a_count, const uint32_t *b, size_t b_count,
                  uint32_t salt);

/* Host memory with every word set. */
uint32_t *pageable(size_t bytes, uint32_t word);
uint32_t *pinned(size_t bytes, uint32_t word);
/* Words that differ. */
size_t differing(const uint32_t *words, size_t bytes, uint32_t word);

#endif
