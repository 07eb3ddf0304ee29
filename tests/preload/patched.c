/* A library that watches memory writes a jump over the first bytes of the driver's functions, as UCX's bistro does. All
 * calls of such a function pass its hook, however their caller found the function, and the hook reaches the function.
 * Argument: "own" for a patcher of this program, which knows as few instructions as UCX of those at the begin of
 * gpumem's entries; "ucx" for that of libucm.so.0. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <sys/mman.h>

#include "program.h"

enum { PATCH = 13, PAGE = 4096 };

/* ---- the patchers: write a jump to `hook` over the function and return where the function can be called */

static void put(unsigned char **to, const void *bytes, size_t size) {
    memcpy(*to, bytes, size);
    *to += size;
}
#define PUT(to, ...)                                \
    do {                                            \
        const unsigned char put_[] = {__VA_ARGS__}; \
        put(to, put_, sizeof put_);                 \
    } while (0)

/* mov imm32, eax; cmpl imm32, disp32(rip). Returns its length. */
static size_t move_one(unsigned char **to, const unsigned char *from) {
    if (from[0] == 0xb8) {
        put(to, from, 5);
        return 5;
    }
    EXPECT(from[0] == 0x81 && from[1] == 0x3d);
    int32_t distance;
    memcpy(&distance, from + 2, sizeof distance);
    const unsigned char *compared = from + 10 + distance;
    PUT(to, 0x50, 0x48, 0xb8); /* push rax; mov compared, rax; cmpl imm32, (rax); pop rax */
    put(to, &compared, sizeof compared);
    PUT(to, 0x81, 0x38);
    put(to, from + 6, 4);
    PUT(to, 0x58);
    return 10;
}

static void *patch_own(void *function, void *hook) {
    unsigned char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *to = code, *at = function, *page = at - (uintptr_t)at % PAGE;
    size_t moved = 0;
    EXPECT(code != MAP_FAILED);
    while (moved < PATCH)
        moved += move_one(&to, at + moved);
    const unsigned char *rest = at + moved;
    PUT(&to, 0xff, 0x25, 0, 0, 0, 0); /* jmp to the rest */
    put(&to, &rest, sizeof rest);
    EXPECT(mprotect(page, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    PUT(&at, 0x49, 0xbb); /* mov hook, r11; jmp r11 */
    put(&at, &hook, sizeof hook);
    PUT(&at, 0x41, 0xff, 0xe3);
    EXPECT(mprotect(page, 2 * PAGE, PROT_READ | PROT_EXEC) == 0);
    return code;
}

static void *patch_by_ucx(void *function, void *hook, const char *name) {
    typedef int patcher(void *function, void *hook, const char *symbol, void **original, void **restore);
    void *needed = dlopen("libucs.so.0", RTLD_NOW | RTLD_GLOBAL); /* libucm itself does not say so */
    void *library = needed ? dlopen("libucm.so.0", RTLD_NOW) : NULL, *original = NULL, *restore = NULL;
    patcher *patch = library ? (patcher *)dlsym(library, "ucm_bistro_patch") : NULL;
    if (!patch) {
        fprintf(stderr, "no libucm.so.0 with ucm_bistro_patch\n");
        exit(77);
    }
    EXPECT(patch(function, hook, name, &original, &restore) == 0 && original != NULL);
    return original;
}

/* ---- a hooked allocation, a hooked free, and a call that only passes gpumem */

static CUresult (*alloc)(CUdeviceptr *, size_t);
static CUresult (*release)(CUdeviceptr);
static CUresult (*fill)(CUdeviceptr, unsigned char, size_t);
static int allocs, frees, fills;

static CUresult watch_alloc(CUdeviceptr *address, size_t size) { return allocs++, alloc(address, size); }
static CUresult watch_free(CUdeviceptr address) { return frees++, release(address); }
static CUresult watch_fill(CUdeviceptr address, unsigned char value, size_t size) {
    return fills++, fill(address, value, size);
}

static void *found(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    EXPECT(function != NULL);
    return function;
}

static void use(void *by_alloc, void *by_fill, void *by_free) {
    CUdeviceptr address;
    int before = allocs;
    MUST(((CUresult(*)(CUdeviceptr *, size_t))by_alloc)(&address, 4096));
    MUST(((CUresult(*)(CUdeviceptr, unsigned char, size_t))by_fill)(address, 7, 4096));
    MUST(((CUresult(*)(CUdeviceptr))by_free)(address));
    EXPECT(allocs == before + 1 && fills == allocs && frees == allocs);
}

static void *resolved(const char *name) {
    void *function = NULL;
    MUST(cuGetProcAddress_v2(name, &function, 12000, 0, NULL));
    EXPECT(function != NULL);
    return function;
}

int main(int count, char **words) {
    int own = count > 1 && strcmp(words[1], "own") == 0;
    start_driver();
    void *early[] = {resolved("cuMemAlloc"), resolved("cuMemsetD8"), resolved("cuMemFree")};
    void *functions[] = {found("cuMemAlloc_v2"), found("cuMemsetD8_v2"), found("cuMemFree_v2")};
    void *hooks[] = {(void *)watch_alloc, (void *)watch_fill, (void *)watch_free}, *originals[3];
    for (int i = 0; i < 3; i++)
        originals[i] = own ? patch_own(functions[i], hooks[i]) : patch_by_ucx(functions[i], hooks[i], "a function");
    *(void **)&alloc = originals[0];
    *(void **)&fill = originals[1];
    *(void **)&release = originals[2];
    for (int i = 0; i < 100; i++) {
        use(early[0], early[1], early[2]);
        use(functions[0], functions[1], functions[2]);
        use((void *)cuMemAlloc_v2, (void *)cuMemsetD8_v2, (void *)cuMemFree_v2);
        use(resolved("cuMemAlloc"), resolved("cuMemsetD8"), resolved("cuMemFree"));
    }
    printf("ok patched\n");
    return 0;
}
