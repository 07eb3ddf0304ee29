// The end of a program that freed all it had. With STRESS_HOLD set it says so and waits for a line, so that whoever
// started it can read gpumem's counters: nothing may be alive or kept then.
#ifndef GPU_SETTLE_H
#define GPU_SETTLE_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

static inline void settle() {
    int (*trim)(size_t, size_t *) = (int (*)(size_t, size_t *))dlsym(RTLD_DEFAULT, "gpumem_trim");
    if (trim)
        trim(SIZE_MAX, nullptr);
    if (std::getenv("STRESS_HOLD")) {
        std::puts("settled");
        std::fflush(stdout);
        std::getchar();
    }
}

#endif
