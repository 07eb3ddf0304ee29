/* Reaches the driver the way NVIDIA's runtime does - dlopen of libcuda.so.1, dlsym of the resolver, versioned
 * look-ups - and shows where each pointer leads: module and symbol.
 *
 *   probe lookup         every public name, version and flag, by both resolvers and by dlsym, and the odd requests
 *                        (unknown, empty, too new, NULL)
 *   probe requests FILE  the look-ups of the file's lines: ARGUMENTS NAME VERSION FLAGS, ARGUMENTS being 4 or 5
 *   probe calls FILE     looks up and calls each function of the file's lines: NAME VERSION FLAGS, or SYMBOL for dlsym.
 *                        Shows the arguments, and marks the line's number in STUB_LOG before. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int resolver4(const char *name, void **function, int version, uint64_t flags);
typedef int resolver5(const char *name, void **function, int version, uint64_t flags, int *status);
typedef int any_call(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *,
                     double, double);

struct variant {
    const char *name;
    int version;
    int per_thread;
};

static const char *const symbols[] = {
#define SYMBOL(name) #name,
#define VARIANT(name, version, per_thread, symbol)
#include "driver_names.inc"
#undef SYMBOL
#undef VARIANT
};

static const struct variant variants[] = {
#define SYMBOL(name)
#define VARIANT(name, version, per_thread, symbol) {name, version, per_thread},
#include "driver_names.inc"
};

/* Left in place by a call that must not write; no look-up can give it. */
static char untouched;
enum { STATUS_UNTOUCHED = -1 };

static void show_pointer(void *function) {
    Dl_info info;
    if (!function) {
        printf("null -\n");
    } else if (function == &untouched) {
        printf("untouched -\n");
    } else if (!dladdr(function, &info) || !info.dli_fname) {
        printf("unknown-module -\n");
    } else {
        const char *slash = strrchr(info.dli_fname, '/');
        printf("%s %s\n", slash ? slash + 1 : info.dli_fname, info.dli_sname ? info.dli_sname : "-");
    }
}

static const char *shown(const char *name) { return !name ? "(null)" : *name ? name : "(empty)"; }

static void show5(resolver5 *resolve, const char *label, const char *name, int version, uint64_t flags) {
    void *function = &untouched;
    int status = STATUS_UNTOUCHED;
    int result = resolve(name, &function, version, flags, &status);
    printf("%s %s %d %llu %d %d ", label, shown(name), version, (unsigned long long)flags, result, status);
    show_pointer(function);
}

static void show4(resolver4 *resolve, const char *label, const char *name, int version, uint64_t flags) {
    void *function = &untouched;
    int result = resolve(name, &function, version, flags);
    printf("%s %s %d %llu %d - ", label, shown(name), version, (unsigned long long)flags, result);
    show_pointer(function);
}

static void show_odd_requests(resolver5 *resolve5, resolver4 *resolve4) {
    static const char *const names[] = {"", "cuNoSuchFunction", "cuMemAlloc_v2", "cudaMalloc", "cuMemAlloc ", NULL};
    static const int versions[] = {-1, 0, 1000, 3020, 12000, 999990};
    static const uint64_t flags[] = {0, 1, 2, 3, 4, 1u << 31};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (size_t v = 0; v < sizeof versions / sizeof *versions; v++) {
            show5(resolve5, "odd5", names[n], versions[v], 0);
            show4(resolve4, "odd4", names[n], versions[v], 0);
        }
    for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
        for (size_t v = 0; v < sizeof versions / sizeof *versions; v++) {
            show5(resolve5, "flag5", "cuMemAllocAsync", versions[v], flags[f]);
            show4(resolve4, "flag4", "cuMemAllocAsync", versions[v], flags[f]);
        }
    int status = STATUS_UNTOUCHED;
    int result = resolve5("cuMemAlloc", NULL, 3020, 0, &status);
    printf("null-function5 %d %d\n", result, status);
    printf("null-function4 %d\n", resolve4("cuMemAlloc", NULL, 3020, 0));
    void *function = &untouched;
    printf("null-status known %d ", resolve5("cuMemAlloc", &function, 3020, 0, NULL));
    show_pointer(function);
    function = &untouched;
    printf("null-status unknown %d ", resolve5("cuNoSuchFunction", &function, 3020, 0, NULL));
    show_pointer(function);
}

/* A runtime hands the resolver it looked up on to its own callers: that one must lead to the same places. */
static void show_resolver_of_resolver(resolver5 *resolve5) {
    void *four = NULL;
    void *five = NULL;
    int result4 = resolve5("cuGetProcAddress", &four, 11030, 0, NULL);
    int result5 = resolve5("cuGetProcAddress", &five, 12000, 0, NULL);
    printf("resolver-of-resolver %d %d\n", result4, result5);
    if (!four || !five)
        return;
    static const char *const names[] = {"cuMemAlloc", "cuMemFree", "cuMemAllocAsync", "cuInit", "cuNoSuchFunction"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        show4((resolver4 *)four, "second4", names[n], 12000, 0);
        show5((resolver5 *)five, "second5", names[n], 12000, 0);
        show4((resolver4 *)four, "second4", names[n], 12000, 2);
        show5((resolver5 *)five, "second5", names[n], 12000, 2);
    }
}

static int show_all(void *driver, resolver5 *resolve5, resolver4 *resolve4) {
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++)
        for (uint64_t flags = 0; flags <= 2; flags++) {
            show5(resolve5, "lookup5", variants[v].name, variants[v].version, flags);
            show5(resolve5, "lookup5", variants[v].name, variants[v].version - 10, flags);
            show4(resolve4, "lookup4", variants[v].name, variants[v].version, flags);
        }
    for (size_t s = 0; s < sizeof symbols / sizeof *symbols; s++) {
        printf("dlsym %s ", symbols[s]);
        show_pointer(dlsym(driver, symbols[s]));
    }
    (void)dlerror();
    void *none = dlsym(driver, "cuNoSuchFunction");
    printf("dlsym cuNoSuchFunction %s %s\n", none ? "found" : "null", dlerror() ? "error" : "silent");
    show_odd_requests(resolve5, resolve4);
    show_resolver_of_resolver(resolve5);
    return 0;
}

/* Every argument is the address of a zeroed page of its own: valid as output, as structure, as number. */
static void call_pointer(void *function) {
    enum { ARGUMENTS = 12, PAGE = 4096 };
    static _Alignas(PAGE) char page[ARGUMENTS][PAGE];
    if (!function) {
        printf("not found\n");
        return;
    }
    memset(page, 0, sizeof page);
    int result = ((any_call *)function)(page[0], page[1], page[2], page[3], page[4], page[5], page[6], page[7], page[8],
                                        page[9], page[10], page[11], 1.25, -3);
    for (int i = 0; i < ARGUMENTS; i++)
        printf("%p ", (void *)page[i]);
    printf("1.25 -3 result %d ", result);
    show_pointer(function);
}

static void mark(int line) {
    const char *log = getenv("STUB_LOG");
    FILE *file = log ? fopen(log, "a") : NULL;
    if (!file)
        return;
    fprintf(file, "line %d\n", line);
    fclose(file);
}

/* For each line of the file. */
static int call_all(void *driver, resolver5 *resolve5, FILE *file) {
    char name[100], text[200];
    for (int line = 0; fgets(text, sizeof text, file); line++) {
        void *function = NULL;
        int version;
        unsigned long long flags;
        int words = sscanf(text, "%99s %d %llu", name, &version, &flags);
        if (words == 3)
            resolve5(name, &function, version, flags, NULL);
        else if (words == 1)
            function = dlsym(driver, name);
        mark(line);
        call_pointer(function);
    }
    return 0;
}

static int show_requests(resolver5 *resolve5, resolver4 *resolve4, FILE *file) {
    char name[100];
    int arguments, version;
    unsigned long long flags;
    while (fscanf(file, "%d %99s %d %llu", &arguments, name, &version, &flags) == 4) {
        if (arguments == 4)
            show4(resolve4, "lookup4", name, version, flags);
        else
            show5(resolve5, "lookup5", name, version, flags);
    }
    return 0;
}

int main(int count, char **argument) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) {
        fprintf(stderr, "probe: %s\n", dlerror());
        return 1;
    }
    resolver5 *resolve5 = (resolver5 *)dlsym(driver, "cuGetProcAddress_v2");
    resolver4 *resolve4 = (resolver4 *)dlsym(driver, "cuGetProcAddress");
    if (!resolve5 || !resolve4) {
        fprintf(stderr, "probe: the driver has no cuGetProcAddress\n");
        return 1;
    }
    if (count == 2 && strcmp(argument[1], "lookup") == 0)
        return show_all(driver, resolve5, resolve4);
    FILE *file = count == 3 ? fopen(argument[2], "r") : NULL;
    if (file && strcmp(argument[1], "requests") == 0)
        return show_requests(resolve5, resolve4, file);
    if (file && strcmp(argument[1], "calls") == 0)
        return call_all(driver, resolve5, file);
    fprintf(stderr, "usage: probe lookup | requests FILE | calls FILE\n");
    return 1;
}
