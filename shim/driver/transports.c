/* Searches /proc/self/maps for the names of libraries and devices (transports.h). */
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

/* A library and the device it works on. A mapping of the device alone is enough. */
static const struct {
    const char *library, *device;
} rows[] = {
    {"/libibverbs.so", "/dev/infiniband"},
    {"/libgdrapi.so", "/dev/gdrdrv"},
};

static bool mentions_rdma(const char *text, const bool *present) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(text, rows[i].device) || (present[i] && strstr(text, rows[i].library)))
            return true;
    return false;
}

/* Libraries that pass device memory on to other processes and devices: MPI (Open MPI, MPICH and related), UCX, NCCL,
 * NVSHMEM, libfabric. */
static bool mentions_transport(const char *text, const bool *unused) {
    static const char *const names[] = {"/libmpi.so", "/libmpich.so", "/libmpi_cray.so", "/libmpi_mt.so", "/libucp.so",
                                        "/libuct.so", "/libnccl.so",  "/libnvshmem",     "/libfabric.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(text, names[i]))
            return true;
    return false;
}

/* Reads the map in chunks. Each chunk begins with the end of the one before, because a name may cross the border. */
static bool map_mentions(int fd, bool (*mentions)(const char *text, const bool *present), const bool *present) {
    enum { LONGEST_NAME = 32 };
    char text[1024];
    size_t used = 0;
    ssize_t got;
    while ((got = gm_read(fd, text + used, sizeof text - 1 - used)) > 0) {
        used += (size_t)got;
        text[used] = '\0';
        if (mentions(text, present))
            return true;
        size_t tail = used < LONGEST_NAME ? used : LONGEST_NAME;
        memmove(text, text + used - tail, tail);
        used = tail;
    }
    return false;
}

static bool process_mentions(bool (*mentions)(const char *text, const bool *present), const bool *present) {
    int fd = gm_open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool found = map_mentions(fd, mentions, present);
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
    static bool checked;
    bool present[sizeof rows / sizeof *rows], any = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        any |= present[i] = access(rows[i].device, F_OK) == 0;
    if (!any)
        return false;
    unsigned long long adds = libraries_loaded();
    if (checked && adds == seen)
        return false;
    checked = true;
    seen = adds;
    return process_mentions(mentions_rdma, present);
}

bool gm_transport_in_process(void) {
    static unsigned long long without; /* number of loaded objects when no such library was among them */
    static bool found;
    if (__atomic_load_n(&found, __ATOMIC_RELAXED))
        return true;
    unsigned long long adds = libraries_loaded();
    if (adds && adds == __atomic_load_n(&without, __ATOMIC_RELAXED))
        return false;
    bool now = process_mentions(mentions_transport, NULL);
    if (now)
        __atomic_store_n(&found, true, __ATOMIC_RELAXED);
    else
        __atomic_store_n(&without, adds, __ATOMIC_RELAXED);
    return now;
}
