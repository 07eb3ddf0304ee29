/* Does what its arguments say, one after the other, and prints "ok" when all is done:
 *
 *   NxSIZE   cudaMalloc of N blocks of SIZE bytes; SIZE may end with k or m. N! blocks may fail.
 *   a:NxSIZE the same by cudaMallocAsync
 *   -        frees all blocks
 *   ?        cudaMemGetInfo
 *   ~MS      sleeps so many milliseconds
 *   .        prints "ready" and waits for a line */
#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "program.h"

enum { MOST = 4096 };
static void *blocks[MOST];
static unsigned count;

static void allocate(const char *text) {
    bool async = text[0] == 'a';
    char *end;
    unsigned long number = strtoul(text + (async ? 2 : 0), &end, 10);
    bool may_fail = *end == '!';
    EXPECT(end[may_fail] == 'x');
    size_t size = strtoull(end + may_fail + 1, &end, 10);
    size <<= *end == 'm' ? 20 : *end == 'k' ? 10 : 0;
    for (; number; number--) {
        EXPECT(count < MOST);
        cudaError_t result = async ? cudaMallocAsync(&blocks[count], size, NULL) : cudaMalloc(&blocks[count], size);
        if (result == cudaSuccess)
            count++;
        else if (!may_fail)
            fail(text, __LINE__, (int)result);
    }
}

int main(int argc, char **argv) {
    size_t free_bytes, total;
    char line[16];
    for (int i = 1; i < argc; i++) {
        if (*argv[i] == '-') {
            while (count)
                MUST(cudaFree(blocks[--count]));
        } else if (*argv[i] == '?') {
            MUST(cudaMemGetInfo(&free_bytes, &total));
        } else if (*argv[i] == '~') {
            usleep((unsigned)atoi(argv[i] + 1) * 1000);
        } else if (*argv[i] == '.') {
            puts("ready");
            fflush(stdout);
            EXPECT(fgets(line, sizeof line, stdin));
        } else {
            allocate(argv[i]);
        }
    }
    puts("ok reserved");
    return 0;
}
