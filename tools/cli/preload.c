/* Finds the library and sets the environment variables that load it into the program. */
#include "tools/cli/launch.h"
#include "tools/cli/shown.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef GM_LIBDIR
#define GM_LIBDIR "lib" /* relative to the prefix */
#endif

int gm_own_folder(char *path, size_t size) {
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length <= 0)
        return -1;
    path[length] = 0;
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
    return slash ? 0 : -1;
}

static int resolve(const char *name, char *path, size_t size) {
    char *real = realpath(name, NULL);
    if (!real || strlen(real) >= size || access(real, R_OK)) {
        free(real);
        return -1;
    }
    strcpy(path, real);
    free(real);
    return 0;
}

static bool is_elf(const char *path) {
    char magic[4];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is = fd >= 0 && read(fd, magic, sizeof magic) == sizeof magic && !memcmp(magic, "\177ELF", sizeof magic);
    if (fd >= 0)
        close(fd);
    return is;
}

/* Finds the first of the paths, relative to this tool's folder, that exists: build tree, then installation. */
static int find_near(const char *const *paths, size_t count, const char *file, char *path, size_t size) {
    char folder[GM_PATH], candidate[2 * GM_PATH];
    if (gm_own_folder(folder, sizeof folder))
        return -1;
    for (size_t i = 0; i < count; i++) {
        snprintf(candidate, sizeof candidate, "%s/%s%s", folder, paths[i], file);
        if (!resolve(candidate, path, size))
            return 0;
    }
    return -1;
}

int gm_preload_find(const char *wanted, char *path, size_t size) {
    static const char *const paths[] = {"../shim", "../" GM_LIBDIR, "../lib"};
    if (wanted) {
        if (resolve(wanted, path, size))
            gm_complain("library '%s': %s", wanted, strerror(errno));
        else if (!is_elf(path))
            gm_complain("library '%s': not an ELF file; accepted: a libgpumem.so", wanted);
        else
            return 0;
        return -1;
    }
    if (!find_near(paths, sizeof paths / sizeof paths[0], "/libgpumem.so", path, size))
        return 0;
    fputs("gpumem: libgpumem.so is neither in the build tree nor in the installation of this tool; use "
          "--library FILE\n",
          stderr);
    return -1;
}

/* Prepends `first` to a colon-separated environment variable. */
static int put_in_front(const char *variable, const char *first) {
    const char *before = getenv(variable);
    if (strpbrk(first, variable[3] == 'L' ? ":" : ": ")) {
        gm_complain("'%s' has a colon or blank in its path, which %s cannot hold", first, variable);
        return -1;
    }
    char *value = NULL;
    if (asprintf(&value, "%s%s%s", first, before && *before ? ":" : "", before ? before : "") < 0)
        return -1;
    int status = setenv(variable, value, 1);
    free(value);
    return status;
}

int gm_preload_set(const char *library) { return put_in_front("LD_PRELOAD", library); }

int gm_preload_audit(const char *library) {
    char audit[GM_PATH + 32];
    const char *slash = strrchr(library, '/');
    snprintf(audit, sizeof audit, "%.*slibgpumem-audit.so", slash ? (int)(slash - library) + 1 : 0, library);
    if (access(audit, R_OK)) {
        gm_complain("--audit needs '%s': %s", audit, strerror(errno));
        return -1;
    }
    return put_in_front("LD_AUDIT", audit);
}

int gm_preload_sim(void) {
    static const char *const paths[] = {"sim", "../" GM_LIBDIR "/gpumem/sim", "../lib/gpumem/sim"};
    char driver[GM_PATH];
    if (find_near(paths, sizeof paths / sizeof paths[0], "/libcuda.so.1", driver, sizeof driver)) {
        fputs("gpumem: --sim needs the simulated CUDA, which is neither in the build tree nor in the installation of "
              "this tool\n",
              stderr);
        return -1;
    }
    *strrchr(driver, '/') = 0;
    return put_in_front("LD_LIBRARY_PATH", driver);
}

bool gm_has_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver)
        dlclose(driver);
    return driver != NULL;
}
