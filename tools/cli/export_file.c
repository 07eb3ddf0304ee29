#include "tools/cli/export_file.h"
#include "tools/cli/commands.h"
#include "tools/cli/shown.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
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

static FILE *compressed(int fd) { return NULL; }
#endif

const char *gm_export_name(const char *output) { return strcmp(output, "-") ? output : "standard output"; }

int gm_output_check(const char *command, const char *trace, const char *output, bool force) {
    struct stat x, y;
    if (!strcmp(output, "-") || stat(output, &y))
        return 0;
    if (!stat(trace, &x) && x.st_dev == y.st_dev && x.st_ino == y.st_ino)
        return gm_usage_error("%s: '%s' is the trace itself; give another output", command, output);
    if (force || !S_ISREG(y.st_mode))
        return 0;
    return gm_usage_error("%s: '%s' exists; --force writes over it", command, output);
}

/* ---- the file beside, which a signal removes */

static char *unfinished;

static void remove_unfinished(int signal) {
    if (unfinished)
        unlink(unfinished);
    raise(signal); /* SA_RESETHAND: now it ends the process */
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

static void watch(char *path) {
    struct sigaction action = {.sa_handler = remove_unfinished, .sa_flags = SA_RESETHAND};
    unfinished = path;
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error of the write */
    for (size_t i = 0; path && i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

/* No signal comes between the file and its watch. */
static int make_watched(char *path) {
    sigset_t ours, before;
    sigemptyset(&ours);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&ours, signals[i]);
    sigprocmask(SIG_BLOCK, &ours, &before);
    int fd = mkstemp(path);
    if (fd >= 0)
        watch(path);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return fd;
}

/* Devices and pipes are written directly. A link stays one: what it names is replaced. */
static bool choose_file(struct gm_output *o) {
    struct stat st;
    bool there = !stat(o->path, &st);
    o->beside = strcmp(o->path, "-") && (!there || S_ISREG(st.st_mode));
    if (!o->beside)
        return (o->written = strdup(o->path));
    char *real = there ? realpath(o->path, NULL) : strdup(o->path);
    bool done = real && asprintf(&o->written, "%s.XXXXXX", real) >= 0;
    int fd = done ? make_watched(o->written) : -1;
    free(real);
    if (fd < 0)
        return false;
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, there ? st.st_mode & 0777 : 0666 & ~mask);
    close(fd);
    return true;
}

static FILE *open_file(const char *path, bool gz) {
    int fd = strcmp(path, "-") ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : dup(1);
    FILE *file = fd < 0 ? NULL : gz ? compressed(fd) : fdopen(fd, "w");
    if (file && !gz)
        setvbuf(file, NULL, _IOFBF, 1 << 17);
    if (!file && fd >= 0)
        close(fd);
    return file;
}

bool gm_output_begin(struct gm_output *o, const char *path, bool open, bool compress) {
    size_t length = strlen(path);
    bool gz = compress || (length > 3 && !strcmp(path + length - 3, ".gz"));
    *o = (struct gm_output){.path = path};
    if (open && gz && !gm_export_can_compress() && !compress) {
        gm_complain("%s: this gpumem was built without zlib", path);
        return false;
    }
    if (choose_file(o) && (!open || (o->file = open_file(o->written, gz && gm_export_can_compress()))))
        return true;
    gm_complain("cannot write '%s': %s", gm_export_name(path), strerror(errno == EINVAL ? EBADF : errno));
    if (o->beside && o->written)
        unlink(o->written);
    watch(NULL);
    free(o->written);
    return false;
}

static bool replace(const struct gm_output *o) {
    char *real = strdup(o->written);
    if (!real)
        return false;
    real[strlen(real) - strlen(".XXXXXX")] = 0;
    bool done = !rename(o->written, real);
    free(real);
    return done;
}

bool gm_output_end(struct gm_output *o, bool done) {
    if (o->file) {
        done &= !fflush(o->file) && !ferror(o->file);
        done &= !fclose(o->file);
    }
    watch(NULL);
    if (o->beside && done)
        done = replace(o);
    if (!done) {
        if (o->beside)
            unlink(o->written);
        gm_complain("cannot write '%s'", gm_export_name(o->path));
    }
    free(o->written);
    return done;
}
