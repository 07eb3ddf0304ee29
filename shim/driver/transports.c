#include "shim/driver/transports.h"
#include "shim/base/file.h"

#include <fcntl.h>
#include <link.h>
#include <string.h>

static int read_adds(struct dl_phdr_info *info, size_t size, void *adds) {
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs))
        *(unsigned long long *)adds = info->dlpi_adds;
    return 1;
}

/* Library and the device it works on; a mapping of the device itself is enough. */
static const struct {
    const char *library, *device;
} rows[] = {
    {"/libibverbs.so", "/dev/infiniband"},
    {"/libgdrapi.so", "/dev/gdrdrv"},
};

static bool tells_rdma(const char *text, const bool *present) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(text, rows[i].device) || (present[i] && strstr(text, rows[i].library)))
            return true;
    return false;
}

/* Libraries that hand device memory to other processes and cards: MPI (Open MPI, MPICH and kin), UCX, NCCL, NVSHMEM,
 * libfabric. */
static bool tells_transport(const char *text, const bool *unused) {
    static const char *const names[] = {"/libmpi.so", "/libmpich.so", "/libmpi_cray.so", "/libmpi_mt.so", "/libucp.so",
                                        "/libuct.so", "/libnccl.so",  "/libnvshmem",     "/libfabric.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(text, names[i]))
            return true;
    return false;
}

/* The map in pieces, each with the end of the one before: a name may lie across. */
static bool map_tells(int fd, bool (*tells)(const char *text, const bool *present), const bool *present) {
    enum { LONGEST_NAME = 32 };
    char text[1024];
    size_t used = 0;
    ssize_t got;
    while ((got = gm_read(fd, text + used, sizeof text - 1 - used)) > 0) {
        used += (size_t)got;
        text[used] = '\0';
        if (tells(text, present))
            return true;
        size_t kept = used < LONGEST_NAME ? used : LONGEST_NAME;
        memmove(text, text + used - kept, kept);
        used = kept;
    }
    return false;
}

static bool process_tells(bool (*tells)(const char *text, const bool *present), const bool *present) {
    int fd = gm_open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool found = map_tells(fd, tells, present);
    gm_close(fd);
    return found;
}

static unsigned long long libraries_loaded(void) {
    unsigned long long adds = 0;
    dl_iterate_phdr(read_adds, &adds);
    return adds;
}

bool gm_rdma_in_process(void) {
    static unsigned long long seen;
    static bool asked;
    bool present[sizeof rows / sizeof *rows], any = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        any |= present[i] = access(rows[i].device, F_OK) == 0;
    if (!any)
        return false;
    unsigned long long adds = libraries_loaded();
    if (asked && adds == seen)
        return false;
    asked = true;
    seen = adds;
    return process_tells(tells_rdma, present);
}

bool gm_transport_in_process(void) {
    static unsigned long long without; /* loads so far when none was there */
    static bool found;
    if (__atomic_load_n(&found, __ATOMIC_RELAXED))
        return true;
    unsigned long long adds = libraries_loaded();
    if (adds && adds == __atomic_load_n(&without, __ATOMIC_RELAXED))
        return false;
    bool now = process_tells(tells_transport, NULL);
    if (now)
        __atomic_store_n(&found, true, __ATOMIC_RELAXED);
    else
        __atomic_store_n(&without, adds, __ATOMIC_RELAXED);
    return now;
}
