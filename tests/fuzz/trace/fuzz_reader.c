/* Fuzz entry: any bytes as a trace file. */
#include "tools/cli/read_trace.h"

#include "tests/fuzz/replay.h"

#include <sys/mman.h>
#include <unistd.h>

static void read_trace(const char *path) {
    char error[512];
    struct gm_reader *reader = gm_reader_open(path, error, sizeof error);
    if (!reader)
        return;
    struct gm_analysis *analysis = gm_analysis_read(reader, NULL);
    struct gm_site site;
    struct gm_module module;
    for (size_t i = 0; analysis && i < analysis->site_count; i++)
        if (gm_reader_site(reader, analysis->sites[i].id, &site) && site.frames)
            gm_reader_module(reader, site.addresses[site.outside], &module);
    gm_analysis_free(analysis);
    gm_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    char path[64];
    int fd = memfd_create("trace", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    read_trace(path);
    close(fd);
    return 0;
}
