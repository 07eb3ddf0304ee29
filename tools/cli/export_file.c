#include "tools/cli/export_file.h"
#include "tools/cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef GM_HAVE_ZLIB
#include <zlib.h>

static ssize_t write_compressed(void *cookie, const char *data, size_t bytes) {
    int written = bytes ? gzwrite(cookie, data, (unsigned)bytes) : 0;
    return written > 0 ? written : 0;
}

static int close_compressed(void *cookie) { return gzclose(cookie) == Z_OK ? 0 : EOF; }

bool gm_export_can_compress(void) { return true; }

static FILE *compressed(int fd) {
    gzFile gz = gzdopen(fd, "wb1"); /* exports repeat themselves: more effort takes minutes and saves little */
    if (!gz)
        return NULL;
    FILE *file = fopencookie(gz, "w", (cookie_io_functions_t){.write = write_compressed, .close = close_compressed});
    if (file)
        setvbuf(file, NULL, _IOFBF, 1 << 16);
    else
        gzclose(gz);
    return file;
}
#else
bool gm_export_can_compress(void) { return false; }

static FILE *compressed(int fd) {
    (void)fd;
    return NULL;
}
#endif

const char *gm_export_name(const char *output) { return strcmp(output, "-") ? output : "standard output"; }

int gm_export_check(const char *command, const char *trace, const char *output) {
    struct stat x, y;
    if (stat(trace, &x) || stat(output, &y) || x.st_dev != y.st_dev || x.st_ino != y.st_ino)
        return 0;
    return gm_usage_error("%s: '%s' is the trace itself; give another output", command, output);
}

FILE *gm_export_open(const char *path, bool compress) {
    size_t length = strlen(path);
    bool gz = compress || (length > 3 && !strcmp(path + length - 3, ".gz"));
    if (gz && !gm_export_can_compress() && !compress) {
        fprintf(stderr, "gpumem: %s: this gpumem was built without zlib\n", path);
        return NULL;
    }
    gz = gz && gm_export_can_compress();
    int fd = strcmp(path, "-") ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : dup(1);
    FILE *file = fd < 0 ? NULL : gz ? compressed(fd) : fdopen(fd, "w");
    if (file && !gz)
        setvbuf(file, NULL, _IOFBF, 1 << 17);
    if (!file) {
        fprintf(stderr, "gpumem: %s: %s\n", gm_export_name(path), strerror(errno == EINVAL ? EBADF : errno));
        if (fd >= 0)
            close(fd);
    }
    return file;
}
