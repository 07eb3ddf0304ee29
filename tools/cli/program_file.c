/* Finds the file of the program and checks whether LD_PRELOAD can reach it. */
#include "tools/cli/launch.h"
#include "tools/cli/shown.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRIPT_DEPTH 4 /* maximum chain of scripts that interpret scripts */

static bool is_program(const char *path) {
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode);
}

int gm_program_find(const char *name, char *path, size_t size) {
    bool denied = false;
    if (strchr(name, '/')) {
        snprintf(path, size, "%s", name);
        struct stat st;
        if (stat(path, &st)) {
            gm_complain("%s: %s", name, strerror(errno));
            return errno == EACCES ? 126 : 127;
        }
        if (S_ISREG(st.st_mode) && !access(path, X_OK))
            return 0;
        gm_complain("%s: %s", name, S_ISDIR(st.st_mode) ? "is a directory" : "not executable");
        return 126;
    }
    const char *p = getenv("PATH");
    for (p = p ? p : "/bin:/usr/bin"; *name;) {
        size_t length = strcspn(p, ":");
        snprintf(path, size, "%.*s%s%s", (int)length, p, length ? "/" : "", name);
        if (is_program(path)) {
            if (!access(path, X_OK))
                return 0;
            denied = true;
        }
        if (!p[length])
            break;
        p += length + 1;
    }
    gm_complain("%s: %s", name, denied ? "not executable" : "command not found");
    return denied ? 126 : 127;
}

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_NONE
#endif

/* The reason why LD_PRELOAD cannot reach an ELF file. NULL if it can, or if the file does not show it. */
static const char *elf_escape(int fd) {
    Elf64_Ehdr h;
    if (pread(fd, &h, sizeof h, 0) != sizeof h || memcmp(h.e_ident, ELFMAG, SELFMAG))
        return NULL;
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_machine != OWN_MACHINE)
        return "is built for another machine than libgpumem.so";
    if (h.e_phentsize != sizeof(Elf64_Phdr))
        return NULL;
    for (unsigned i = 0; i < h.e_phnum; i++) {
        Elf64_Phdr p;
        char loader[256] = "";
        if (pread(fd, &p, sizeof p, (off_t)(h.e_phoff + i * sizeof p)) != sizeof p)
            return NULL;
        if (p.p_type != PT_INTERP)
            continue;
        size_t length = p.p_filesz < sizeof loader - 1 ? p.p_filesz : sizeof loader - 1;
        if (pread(fd, loader, length, (off_t)p.p_offset) < 0)
            return NULL;
        return strstr(loader, "ld-musl") ? "is linked with musl libc, and libgpumem.so with glibc" : NULL;
    }
    return "is statically linked";
}

/* Copies the interpreter of a script to `path`. False if the file is not a script. */
static bool script_interpreter(int fd, char *path, size_t size) {
    char line[GM_PATH];
    ssize_t length = pread(fd, line, sizeof line - 1, 0);
    if (length < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[length] = 0;
    char *begin = line + 2 + strspn(line + 2, " \t");
    begin[strcspn(begin, " \t\n")] = 0;
    snprintf(path, size, "%s", begin);
    return *begin;
}

void gm_program_warn_preload(const char *path) {
    char file[GM_PATH];
    snprintf(file, sizeof file, "%s", path);
    for (int depth = 0; depth < SCRIPT_DEPTH; depth++) {
        struct stat st;
        int fd = open(file, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return;
        const char *why = elf_escape(fd);
        if (!why && !fstat(fd, &st) &&
            (((st.st_mode & S_ISUID) && st.st_uid != getuid()) || ((st.st_mode & S_ISGID) && st.st_gid != getgid())))
            why = "runs with another user's or group's rights (set-uid)";
        bool again = !why && script_interpreter(fd, file, sizeof file);
        close(fd);
        if (why)
            gm_complain("%s %s: LD_PRELOAD cannot reach it, so gpumem will see no calls", file, why);
        if (!again)
            return;
    }
}

void gm_program_warn_sim(const char *path) {
    static const char runtime[] = "cudaErrorCudartUnloading", shared[] = "libcudart.so";
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *map =
        fstat(fd, &st) || !st.st_size ? MAP_FAILED : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return;
    if (memmem(map, (size_t)st.st_size, runtime, strlen(runtime)) &&
        !memmem(map, (size_t)st.st_size, shared, strlen(shared)))
        gm_complain("%s has the CUDA runtime linked in, which needs a GPU; --sim is for programs built with "
                    "`nvcc -cudart shared`",
                    path);
    munmap(map, (size_t)st.st_size);
}
