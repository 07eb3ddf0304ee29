/* Another preloaded library with its own dlsym, an ordinary forwarder compiled without optimisation, as profilers
 * and recorders have. OTHER_LOG=FILE: at the end the number of look-ups that it saw is appended. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long seen;

__attribute__((visibility("default"))) void *dlsym(void *restrict handle, const char *restrict name) {
    static void *(*next)(void *, const char *);
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (size_t i = 0; !next && i < sizeof versions / sizeof *versions; i++)
        next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    __atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED);
    void *result = next(handle, name);
    return result;
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("OTHER_LOG");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
    if (file < 0)
        return;
    dprintf(file, "%ld\n", seen);
    close(file);
}
