/* Kernel launches: host twins, their parameters, the ready-made pattern kernels. */
#include "sim_graph.h"
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_TWINS 256
static struct {
    char *name;
    struct simcuda_twin twin;
} twins[MAX_TWINS];
static unsigned twin_count;
static uint64_t mismatches, check_runs;

/* ---- finding twins ---- */

struct search {
    const char *name;
    void *found;
};

static uintptr_t absolute(const struct dl_phdr_info *info, uintptr_t p) {
    return p < info->dlpi_addr ? p + info->dlpi_addr : p;
}

static uint32_t gnu_hash(const char *name) {
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h;
}

static const ElfW(Sym) *
    hash_lookup(const uint32_t *table, const ElfW(Sym) * symbols, const char *strings, const char *name) {
    uint32_t buckets = table[0], first = table[1], bloom = table[2], h = gnu_hash(name);
    const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(table + 4) + bloom), *chain = bucket + buckets;
    uint32_t i = buckets ? bucket[h % buckets] : 0;
    if (i < first)
        return NULL;
    for (;; i++) {
        uint32_t have = chain[i - first];
        if ((have | 1) == (h | 1) && strcmp(strings + symbols[i].st_name, name) == 0)
            return &symbols[i];
        if (have & 1)
            return NULL;
    }
}

static int search_object(struct dl_phdr_info *info, size_t size, void *arg) {
    struct search *s = arg;
    const ElfW(Dyn) *dyn = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dyn = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    const uint32_t *hash = NULL;
    for (; dyn && dyn->d_tag != DT_NULL; dyn++) {
        uintptr_t p = absolute(info, dyn->d_un.d_ptr);
        if (dyn->d_tag == DT_SYMTAB)
            symbols = (const ElfW(Sym) *)p;
        else if (dyn->d_tag == DT_STRTAB)
            strings = (const char *)p;
        else if (dyn->d_tag == DT_GNU_HASH)
            hash = (const uint32_t *)p;
    }
    if (!symbols || !strings || !hash)
        return 0;
    const ElfW(Sym) *sym = hash_lookup(hash, symbols, strings, s->name);
    if (!sym || sym->st_shndx == SHN_UNDEF)
        return 0;
    s->found = (void *)(info->dlpi_addr + sym->st_value);
    return 1;
}

void *sim_find_symbol(const char *name) {
    struct search s = {.name = name};
    dl_iterate_phdr(search_object, &s);
    return s.found;
}

const struct simcuda_twin *sim_twin_find(const char *name) {
    for (unsigned i = 0; i < twin_count; i++) {
        if (strcmp(twins[i].name, name) == 0)
            return &twins[i].twin;
    }
    char symbol[1024];
    if ((size_t)snprintf(symbol, sizeof symbol, "simtwin_%s", name) >= sizeof symbol)
        return NULL;
    const struct simcuda_twin *found = sim_find_symbol(symbol);
    if (found)
        simcuda_register_kernel(name, found->params, found->run);
    return found;
}

int simcuda_register_kernel(const char *name, const char *params, void (*run)(const struct simcuda_launch *)) {
    sim_lock();
    unsigned i = 0;
    while (i < twin_count && strcmp(twins[i].name, name) != 0)
        i++;
    if (i < MAX_TWINS) {
        if (i == twin_count) {
            twins[i].name = strdup(name);
            twin_count++;
        } else {
            free((char *)twins[i].twin.params);
        }
        twins[i].twin = (struct simcuda_twin){strdup(params), run};
    }
    sim_unlock();
    return i < MAX_TWINS ? 0 : -1;
}

/* ---- parameters ---- */

static bool layout(struct sim_launch *l, const char *params) {
    unsigned at = 0;
    for (const char *p = params; *p; p++) {
        unsigned size = *p == 'p' || *p == 'q' ? 8 : (unsigned)(*p - '0'), align;
        char pointer = *p == 'p' ? 'p' : 0;
        if (*p == '[') {
            size = (unsigned)strtoul(p + 1, (char **)&p, 10);
            align = 8;
        } else if (*p == ' ') {
            continue;
        } else {
            align = size;
        }
        if (size == 0 || size > 4096 || l->count == sizeof l->sizes / sizeof l->sizes[0])
            return false;
        at = SIM_ROUND(at, align);
        l->offsets[l->count] = at;
        l->sizes[l->count] = size;
        l->pointers[l->count++] = pointer;
        at += size;
    }
    l->args_size = at;
    return true;
}

static CUresult fill_args(struct sim_launch *l, void **kernelParams, void **extra) {
    l->args = calloc(1, l->args_size ? l->args_size : 1);
    if (kernelParams) {
        for (unsigned i = 0; i < l->count; i++)
            memcpy(l->args + l->offsets[i], kernelParams[i], l->sizes[i]);
        return CUDA_SUCCESS;
    }
    const void *buffer = NULL;
    size_t size = 0;
    for (void **e = extra; e && e[0] != CU_LAUNCH_PARAM_END; e += 2) {
        if (e[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = e[1];
        else if (e[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(size_t *)e[1];
    }
    if (l->count && (!buffer || size < l->args_size))
        return CUDA_ERROR_INVALID_VALUE;
    if (buffer)
        memcpy(l->args, buffer, l->args_size);
    return CUDA_SUCCESS;
}

static void name_pointers(struct sim_op *op) {
    struct sim_launch *l = &op->u.launch;
    for (unsigned i = 0; i < l->count; i++) {
        uintptr_t p;
        memcpy(&p, l->args + l->offsets[i], sizeof p * (l->pointers[i] == 'p'));
        if (l->pointers[i] == 'p' && p)
            sim_op_range(op, p, 1);
    }
}

CUresult sim_cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *size) {
    static struct sim_launch l; /* every call holds the driver's lock */
    const struct simcuda_twin *twin;
    if (!sim_function_valid(f))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!(twin = sim_twin_find(f->name)))
        return CUDA_ERROR_NOT_SUPPORTED;
    l = (struct sim_launch){0};
    if (!offset || !layout(&l, twin->params) || index >= l.count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = l.offsets[index];
    if (size)
        *size = l.sizes[index];
    return CUDA_SUCCESS;
}
CUresult sim_cuKernelGetParamInfo(CUkernel k, size_t index, size_t *offset, size_t *size) {
    return sim_cuFuncGetParamInfo((CUfunction)k, index, offset, size);
}

/* ---- kernels without a twin */

/* As the program's source has it where the program has a demangler; NULL: mangled. The caller frees it. */
static char *source_name(const char *name) {
    int status = -1;
    char *(*demangle)(const char *, char *, size_t *, int *) = sim_find_symbol("__cxa_demangle");
    return demangle ? demangle(name, NULL, NULL, &status) : NULL;
}

static void say_not_run(const char *name) {
    char line[512], *source = source_name(name);
    int length = snprintf(line, sizeof line,
                          "simulated CUDA: kernel '%.300s' does not run here, it needs a GPU: its launches fail with "
                          "CUDA_ERROR_NOT_SUPPORTED (SIMCUDA_NOOP_KERNELS=1: they do nothing)\n",
                          source ? source : name);
    free(source);
    if (write(STDERR_FILENO, line, (size_t)length) < 0)
        return; /* nobody reads it */
}

/* Says it once for each name, however many modules and devices have it. */
static void refuse(const char *name) {
    static char **said;
    static size_t count;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(said[i], name) == 0)
            return;
    }
    said = realloc(said, (count + 1) * sizeof *said);
    said[count++] = strdup(name);
    say_not_run(name);
}

struct sim_op *sim_launch_op(CUfunction f, const unsigned grid[3], const unsigned block[3], unsigned shared,
                             void **kernelParams, void **extra, CUresult *result) {
    const struct simcuda_twin *twin = sim_twin_find(f->name);
    *result = CUDA_ERROR_NOT_SUPPORTED;
    if (!twin && !sim_opt.noop_kernels) {
        refuse(f->name);
        return NULL;
    }
    struct sim_op *op = sim_op_new(OP_KERNEL);
    struct sim_launch *l = &op->u.launch;
    l->function = f;
    memcpy(l->grid, grid, sizeof l->grid);
    memcpy(l->block, block, sizeof l->block);
    l->shared = shared;
    *result = CUDA_SUCCESS;
    if (twin && !layout(l, twin->params))
        *result = CUDA_ERROR_INVALID_VALUE;
    else if (twin)
        *result = fill_args(l, kernelParams, extra);
    if (*result != CUDA_SUCCESS) {
        sim_op_free(op);
        return NULL;
    }
    if (twin)
        name_pointers(op);
    return op;
}

static CUresult launch(CUfunction f, const unsigned grid[3], const unsigned block[3], unsigned shared, CUstream stream,
                       void **kernelParams, void **extra, bool programmatic) {
    struct sim_stream *s;
    CUresult r;
    SIM_TRY(sim_stream_get(stream, &s));
    if (!sim_function_valid(f))
        return CUDA_ERROR_INVALID_HANDLE;
    size_t threads = (size_t)block[0] * block[1] * block[2];
    if (!grid[0] || !grid[1] || !grid[2] || !threads || threads > 1024 || block[2] > 64 || grid[1] > 65535 ||
        grid[2] > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op *op = sim_launch_op(f, grid, block, shared, kernelParams, extra, &r);
    if (!op)
        return r;
    op->programmatic = programmatic && !s->capture;
    return sim_submit(s, op);
}

CUresult sim_cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                            unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
                            void **extra) {
    return launch(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, stream, params, extra, false);
}

CUresult sim_cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                       unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
                                       void **params) {
    return launch(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, stream, params, NULL, false);
}

CUresult sim_cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
    bool programmatic = false;
    if (!c || (c->numAttrs && !c->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c->numAttrs; i++)
        if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            programmatic = c->attrs[i].value.programmaticStreamSerializationAllowed;
    return launch(f, (unsigned[]){c->gridDimX, c->gridDimY, c->gridDimZ},
                  (unsigned[]){c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes, c->hStream, params, extra,
                  programmatic);
}

/* ---- pattern kernels ---- */

static void run_fill(const struct simcuda_launch *l) {
    uint32_t *p = *(uint32_t **)l->args[0], value = *(uint32_t *)l->args[2];
    uint64_t words = *(uint64_t *)l->args[1] / 4;
    for (uint64_t i = 0; i < words; i++)
        p[i] = value;
}

static void run_check(const struct simcuda_launch *l) {
    const uint32_t *p = *(uint32_t **)l->args[0];
    uint32_t value = *(uint32_t *)l->args[2];
    uint64_t words = *(uint64_t *)l->args[1] / 4, bad = 0;
    for (uint64_t i = 0; i < words; i++)
        bad += p[i] != value;
    __atomic_add_fetch(&mismatches, bad, __ATOMIC_RELAXED);
    __atomic_add_fetch(&check_runs, 1, __ATOMIC_RELEASE);
}

static void run_add(const struct simcuda_launch *l) {
    float *c = *(float **)l->args[0];
    const float *a = *(float **)l->args[1], *b = *(float **)l->args[2];
    for (uint64_t i = 0, n = *(uint64_t *)l->args[3]; i < n; i++)
        c[i] = a[i] + b[i];
}

__attribute__((constructor)) static void register_own(void) {
    simcuda_register_kernel(SIMCUDA_KERNEL_FILL, "p84", run_fill);
    simcuda_register_kernel(SIMCUDA_KERNEL_CHECK, "p84", run_check);
    simcuda_register_kernel(SIMCUDA_KERNEL_ADD, "ppp8", run_add);
}

uint64_t simcuda_check_mismatches(void) { return __atomic_load_n(&mismatches, __ATOMIC_ACQUIRE); }
uint64_t simcuda_check_runs(void) { return __atomic_load_n(&check_runs, __ATOMIC_ACQUIRE); }

void sim_reset_checks(void) {
    __atomic_store_n(&mismatches, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&check_runs, 0, __ATOMIC_RELEASE);
}
