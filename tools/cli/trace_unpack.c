#include "tools/cli/trace_unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef GM_HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef GM_HAVE_ZSTD
#include <zstd.h>
#endif

static const unsigned char gzip_magic[] = {0x1f, 0x8b}, zstd_magic[] = {0x28, 0xb5, 0x2f, 0xfd};

static bool begins(const void *begin, size_t bytes, const unsigned char *magic, size_t length) {
    return bytes >= length && !memcmp(begin, magic, length);
}

static bool is_gzip(const void *begin, size_t bytes) { return begins(begin, bytes, gzip_magic, sizeof gzip_magic); }

static bool is_zstd(const void *begin, size_t bytes) { return begins(begin, bytes, zstd_magic, sizeof zstd_magic); }

bool gm_trace_is_packed(const void *begin, size_t bytes) { return is_gzip(begin, bytes) || is_zstd(begin, bytes); }

/* ---- the unpacked file */

static int open_unnamed(void) {
    const char *folders[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        int fd = folders[i] && *folders[i] ? open(folders[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;
        if (fd >= 0)
            return fd;
    }
    FILE *file = tmpfile(); /* a file system without such files */
    int fd = file ? fcntl(fileno(file), F_DUPFD_CLOEXEC, 3) : -1;
    if (file)
        fclose(file);
    return fd;
}

/* A small file can unpack to any size. Traces do not: the most regular one of packed events has 1/600 left. */
#define MOST_FIXED (UINT64_C(256) << 20)
#define MOST_TIMES 1000u

struct sink {
    int fd;
    uint64_t room; /* bytes that the file may still have */
};

#if defined(GM_HAVE_ZLIB) || defined(GM_HAVE_ZSTD)
/* Returns NULL or a reason. */
static const char *put(struct sink *to, const char *data, size_t bytes) {
    if (bytes > to->room)
        return "unpacks to more than 256 MiB and 1000 times its size, as no trace does; if you trust it, unpack it "
               "yourself";
    to->room -= bytes;
    for (size_t done = 0; done < bytes;) {
        ssize_t written = write(to->fd, data + done, bytes - done);
        if (written < 0 && errno != EINTR)
            return strerror(errno);
        done += written > 0 ? (size_t)written : 0;
    }
    return NULL;
}
#endif

/* Each returns NULL or a reason. */
static const char *unpack_gzip(int from, struct sink *to, bool *cut) {
#ifdef GM_HAVE_ZLIB
    static char data[1 << 18];
    int fd = dup(from), got;
    gzFile gz = fd >= 0 ? gzdopen(fd, "rb") : NULL;
    if (!gz)
        return "out of memory";
    const char *reason = NULL;
    gzbuffer(gz, 1 << 18);
    while (!reason && (got = gzread(gz, data, sizeof data)) > 0)
        reason = put(to, data, (size_t)got);
    gzerror(gz, &got);
    *cut = got != Z_OK && got != Z_STREAM_END;
    *cut |= gzclose(gz) == Z_BUF_ERROR;
    return reason;
#else
    (void)from, (void)to, (void)cut;
    return "compressed by gzip; this gpumem was built without zlib";
#endif
}

static const char *unpack_zstd(int from, struct sink *to, bool *cut) {
#ifdef GM_HAVE_ZSTD
    static char in_data[1 << 17], out_data[1 << 18];
    ZSTD_DStream *stream = ZSTD_createDStream();
    const char *reason = stream ? NULL : "out of memory";
    ssize_t got = 0;
    size_t left = 0; /* 0: at the end of a frame */
    while (!reason && !*cut && (got = read(from, in_data, sizeof in_data)) > 0) {
        ZSTD_inBuffer in = {in_data, (size_t)got, 0};
        bool full = true; /* what a frame still holds comes with no further input */
        while (!reason && !*cut && (in.pos < in.size || (left && full))) {
            ZSTD_outBuffer out = {out_data, sizeof out_data, 0};
            left = ZSTD_decompressStream(stream, &out, &in);
            *cut = ZSTD_isError(left);
            full = out.pos == out.size;
            reason = put(to, out_data, out.pos);
        }
    }
    if (!reason && got < 0)
        reason = strerror(errno);
    *cut |= left != 0;
    ZSTD_freeDStream(stream);
    return reason;
#else
    (void)from, (void)to, (void)cut;
    return "compressed by zstd; this gpumem was built without libzstd";
#endif
}

/* ---- files that were unpacked */

static struct unpacked {
    struct stat of;
    int fd;
    bool cut;
} * files;
static size_t file_count;

static struct unpacked *find(const struct stat *of) {
    for (size_t i = 0; i < file_count; i++)
        if (files[i].of.st_dev == of->st_dev && files[i].of.st_ino == of->st_ino &&
            files[i].of.st_size == of->st_size && files[i].of.st_mtim.tv_sec == of->st_mtim.tv_sec &&
            files[i].of.st_mtim.tv_nsec == of->st_mtim.tv_nsec)
            return &files[i];
    return NULL;
}

static const char *unpack(int from, const struct stat *of) {
    unsigned char begin[4];
    ssize_t got = pread(from, begin, sizeof begin, 0);
    struct unpacked *grown = realloc(files, (file_count + 1) * sizeof *files);
    if (!grown)
        return "out of memory";
    files = grown;
    struct unpacked *file = &files[file_count];
    *file = (struct unpacked){.of = *of, .fd = open_unnamed()};
    if (file->fd < 0)
        return strerror(errno);
    uint64_t on_disk = 512 * (uint64_t)of->st_blocks, size = (uint64_t)of->st_size;
    struct sink to = {file->fd, MOST_FIXED + MOST_TIMES * (on_disk < size ? on_disk : size)};
    const char *reason = (got > 0 && is_gzip(begin, (size_t)got) ? unpack_gzip : unpack_zstd)(from, &to, &file->cut);
    if (reason)
        close(file->fd);
    else
        file_count++;
    return reason;
}

int gm_trace_unpack(int from, bool *cut, const char **reason) {
    struct stat of;
    char link[64];
    *reason = fstat(from, &of) ? strerror(errno) : NULL;
    if (!*reason && !find(&of))
        *reason = unpack(from, &of);
    if (*reason)
        return -1;
    struct unpacked *file = find(&of);
    *cut = file->cut;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file->fd); /* with an offset of its own */
    int fd = open(link, O_RDONLY | O_CLOEXEC);
    *reason = fd < 0 ? strerror(errno) : NULL;
    return fd;
}
