/* Two runtimes in one process, each loaded separately: two_runtimes LIBRARY LIBRARY. They share the context. */
#include <dlfcn.h>

#include "program.h"

struct runtime {
    int (*alloc)(void **, size_t);
    int (*release)(void *);
    int (*set)(void *, int, size_t);
    int (*copy)(void *, const void *, size_t, int);
};

enum { SIZE = 123456, DEVICE_TO_HOST = 2 };

static struct runtime load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail(dlerror(), __LINE__, 0);
    struct runtime runtime;
    *(void **)&runtime.alloc = dlsym(library, "cudaMalloc");
    *(void **)&runtime.release = dlsym(library, "cudaFree");
    *(void **)&runtime.set = dlsym(library, "cudaMemset");
    *(void **)&runtime.copy = dlsym(library, "cudaMemcpy");
    EXPECT(runtime.alloc && runtime.release && runtime.set && runtime.copy);
    return runtime;
}

int main(int count, char **argument) {
    static unsigned char host[SIZE];
    EXPECT(count == 3);
    struct runtime runtimes[2] = {load(argument[1]), load(argument[2])};
    EXPECT(runtimes[0].alloc != runtimes[1].alloc);
    void *blocks[2];
    for (int i = 0; i < 2; i++) {
        MUST(runtimes[i].alloc(&blocks[i], SIZE));
        note_alloc("cuMemAlloc", SIZE, blocks[i]);
        MUST(runtimes[i].set(blocks[i], 0x40 + i, SIZE));
    }
    for (int i = 0; i < 2; i++) { /* crosswise: a block belongs to the process, not to the runtime that allocated it */
        MUST(runtimes[1 - i].copy(host, blocks[i], SIZE, DEVICE_TO_HOST));
        EXPECT(all_bytes_are(host, (unsigned char)(0x40 + i), SIZE));
        note_free("cuMemFree", blocks[i]);
        MUST(runtimes[1 - i].release(blocks[i]));
    }
    printf("ok two_runtimes\n");
    return 0;
}
