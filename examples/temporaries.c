/* No kernel, so any C compiler builds it: sorts bytes into place by copies through a temporary that each round
 * allocates and frees. One buffer lasts as long as the program. */
#include "check.h"
#include <string.h>

int main(void) {
    const size_t part = 64 << 10;
    const int parts = 32;
    const size_t size = part * parts;
    unsigned char *host = malloc(size), *lasting;
    CHECK(cudaMalloc((void **)&lasting, size));
    for (int i = 0; i < parts; i++)
        CHECK(cudaMemset(lasting + i * part, parts - 1 - i, part));

    for (int i = 0; i < parts / 2; i++) {
        unsigned char *low = lasting + i * part, *high = lasting + (parts - 1 - i) * part, *temporary;
        CHECK(cudaMalloc((void **)&temporary, part));
        CHECK(cudaMemcpy(temporary, low, part, cudaMemcpyDeviceToDevice));
        CHECK(cudaMemcpy(low, high, part, cudaMemcpyDeviceToDevice));
        CHECK(cudaMemcpy(high, temporary, part, cudaMemcpyDeviceToDevice));
        CHECK(cudaFree(temporary));
    }

    CHECK(cudaMemcpy(host, lasting, size, cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (size_t i = 0; i < size; i++)
        wrong += host[i] != i / part;
    CHECK(cudaFree(lasting));
    free(host);
    printf("temporaries: %d swaps, %d bytes wrong\n", parts / 2, wrong);
    return wrong != 0;
}
