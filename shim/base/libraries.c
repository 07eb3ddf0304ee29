/* The rows of known libraries, and walks over the loaded objects (libraries.h). */
#include "shim/base/libraries.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

const struct gm_library gm_libraries[GM_LIBRARIES] = {
    {"linux-vdso", GM_LIBRARY_KERNEL, NULL},
    {"libgpumem", GM_LIBRARY_OWN, NULL},
    {"libcuda.so", GM_LIBRARY_DRIVER, NULL},
    {"libcudart.so", GM_LIBRARY_RUNTIME, NULL},
    {"libibverbs.so", GM_LIBRARY_RDMA, "/dev/infiniband/uverbs"},
    {"libgdrapi.so", GM_LIBRARY_RDMA, "/dev/gdrdrv"},
    {"libcufile", GM_LIBRARY_RDMA, "/dev/nvidia-fs"}, /* GPUDirect Storage */
    {"libcxi.so", GM_LIBRARY_RDMA, "/dev/cxi"},       /* Slingshot */
    {"libpsm2.so", GM_LIBRARY_RDMA, "/dev/hfi1_"},    /* Omni-Path */
    /* MPI: Open MPI, MPICH and related */
    {"libmpi.so", GM_LIBRARY_TRANSPORT | GM_LIBRARY_BUFFERS, NULL},
    {"libmpich.so", GM_LIBRARY_TRANSPORT | GM_LIBRARY_BUFFERS, NULL},
    {"libmpi_cray.so", GM_LIBRARY_TRANSPORT | GM_LIBRARY_BUFFERS, NULL},
    {"libmpi_mt.so", GM_LIBRARY_TRANSPORT | GM_LIBRARY_BUFFERS, NULL},
    /* UCX */
    {"libucp.so", GM_LIBRARY_TRANSPORT | GM_LIBRARY_BUFFERS, NULL},
    {"libuct.so", GM_LIBRARY_TRANSPORT | GM_LIBRARY_BUFFERS, NULL},
    {"libnccl.so", GM_LIBRARY_TRANSPORT, NULL},
    {"libnvshmem", GM_LIBRARY_TRANSPORT, NULL},
    {"libfabric.so", GM_LIBRARY_TRANSPORT | GM_LIBRARY_BUFFERS, NULL},
    {"libc10_cuda.so", GM_LIBRARY_PYTORCH, NULL},
};

unsigned gm_library_traits(const char *path) {
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    for (unsigned i = 0; i < GM_LIBRARIES; i++)
        if (strncmp(file, gm_libraries[i].name, strlen(gm_libraries[i].name)) == 0)
            return gm_libraries[i].traits;
    return 0;
}

static int read_adds(struct dl_phdr_info *info, size_t size, void *adds) {
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs))
        *(unsigned long long *)adds = info->dlpi_adds;
    return 1;
}

unsigned long long gm_libraries_loaded(void) {
    unsigned long long adds = 0;
    dl_iterate_phdr(read_adds, &adds);
    return adds;
}

const ElfW(Phdr) * gm_library_segment(const struct dl_phdr_info *object, uintptr_t address) {
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && address - (object->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
            return segment;
    }
    return NULL;
}

/* dl_iterate_phdr gives the program itself an empty name. */
void gm_library_path(const struct dl_phdr_info *object, char *path, size_t size) {
    if (object->dlpi_name[0]) {
        gm_format(path, size, "%s", object->dlpi_name);
        return;
    }
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    path[length > 0 ? length : 0] = '\0';
}

struct search {
    uintptr_t address;
    void (*visit)(const struct dl_phdr_info *object, void *argument);
    void *argument;
};

static int visit_if_there(struct dl_phdr_info *object, size_t size, void *argument) {
    const struct search *search = argument;
    if (!gm_library_segment(object, search->address))
        return 0;
    search->visit(object, search->argument);
    return 1;
}

bool gm_library_at(uintptr_t address, void (*visit)(const struct dl_phdr_info *object, void *argument),
                   void *argument) {
    struct search search = {address, visit, argument};
    return dl_iterate_phdr(visit_if_there, &search) != 0;
}
