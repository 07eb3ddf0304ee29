/* Finds the counters of a process in one of three places:
 *
 * - A memory file that the library keeps open, through /proc/PID/fd. That needs only permission to inspect the process.
 * - The process's memory, if the program closed that descriptor. /proc/PID/maps has the address, and process_vm_readv
 *   reads it, which needs permission to trace the process.
 * - Under gpumem run, that run's memory file or, where memory files are not available, the regular file that
 *   /proc/PID/maps names. */
#include "tools/cli/process_counters.h"

#include "shim/base/script_name.h"
#include "tools/cli/foreign_file.h"
#include "tools/cli/process_root.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PATH = 512, LINE = 4096 + 256, PAGE = 4096 };

static const char memory_file[] = "/memfd:" GM_STATS_NAME " (deleted)",
                  run_file[] = "/memfd:" GM_STATS_RUN " (deleted)";

/* Identifies a process and the program that it executes: exec moves the stack. */
struct identity {
    unsigned long long start, stack;
    char state;
};

struct gm_process_counters {
    pid_t pid;
    struct identity identity;
    int fd; /* of the file with the counters; -1 = read from the process */
    off_t offset;
    uint64_t address;      /* in the process, if fd is -1 */
    struct gm_stats *page; /* first page of the counters, mapped; NULL = not writable */
    bool times_calls;      /* only while a viewer asks for it */
    char program[64];      /* used if the counters do not name the program */
};

/* ---- reading /proc */

/* Reads a small file of /proc/PID as a string. Returns its length, or -1 with errno. */
static ssize_t read_proc_file(pid_t pid, const char *name, char *out, size_t size) {
    char path[PATH];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t length = read(fd, out, size - 1);
    close(fd);
    out[length > 0 ? length : 0] = 0;
    return length;
}

static bool identify(pid_t pid, struct identity *out) {
    char text[2048];
    if (read_proc_file(pid, "stat", text, sizeof text) <= 0)
        return false;
    char *rest = strrchr(text, ')'); /* the program's name may contain any character */
    return rest && sscanf(rest + 1,
                          " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu "
                          "%*u %*d %*u %*u %*u %llu",
                          &out->state, &out->start, &out->stack) == 3;
}

static bool is_dead(char state) { return state == 'Z' || state == 'X' || state == 'x'; }

static bool is_same(const struct identity *a, const struct identity *b) {
    return a->start == b->start && a->stack == b->stack && !is_dead(b->state);
}

/* The pid of the process in its innermost pid namespace. */
static int32_t own_pid(pid_t pid) {
    char text[4096];
    if (read_proc_file(pid, "status", text, sizeof text) <= 0)
        return (int32_t)pid;
    char *line = strstr(text, "\nNSpid:");
    if (!line)
        return (int32_t)pid;
    line[1 + strcspn(line + 1, "\n")] = 0;
    const char *last = strrchr(line, '\t');
    return last ? (int32_t)atol(last) : (int32_t)pid;
}

/* False: the command line names no program. */
static bool name_script(pid_t pid, char *out, size_t size) {
    char path[PATH], words[4096];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(words, 1, sizeof words - 1, file) : 0;
    if (file)
        fclose(file);
    words[length] = 0;
    return gm_script_name(words, length, out, size);
}

static void name_program(pid_t pid, char *out, size_t size) {
    char path[PATH], target[4096];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(path, target, sizeof target - 1);
    target[length > 0 ? length : 0] = 0;
    char *deleted = strstr(target, " (deleted)"), *slash;
    if (deleted && !deleted[strlen(" (deleted)")])
        *deleted = 0;
    slash = strrchr(target, '/');
    const char *name = slash ? slash + 1 : target;
    if (strncmp(name, "python", 6) || !name_script(pid, out, size))
        snprintf(out, size, "%.*s", (int)size - 1, name);
}

/* ---- checking counters */

enum gm_counters_status gm_process_counters_judge(const void *bytes, size_t length, int32_t pid) {
    static const uint64_t magic = GM_STATS_MAGIC;
    struct gm_stats head;
    size_t needed = offsetof(struct gm_stats, start_ns);
    if (length < sizeof magic || memcmp(bytes, &magic, sizeof magic - 1))
        return GM_COUNTERS_NO_COUNTERS;
    if (memcmp(bytes, &magic, sizeof magic))
        return GM_COUNTERS_OTHER_VERSION;
    if (length < needed)
        return GM_COUNTERS_NO_COUNTERS;
    memcpy(&head, bytes, needed);
    return head.pid == pid ? GM_COUNTERS_OK : GM_COUNTERS_NO_COUNTERS;
}

static enum gm_counters_status judge_file(int fd, off_t offset, int32_t pid) {
    char head[PAGE];
    struct stat st;
    ssize_t length = pread(fd, head, sizeof head, offset);
    enum gm_counters_status status = gm_process_counters_judge(head, length > 0 ? (size_t)length : 0, pid);
    if (status == GM_COUNTERS_OK && (fstat(fd, &st) || st.st_size < offset + (off_t)sizeof(struct gm_stats)))
        return GM_COUNTERS_NO_COUNTERS;
    return status;
}

static ssize_t read_memory(pid_t pid, uint64_t address, void *out, size_t size) {
    struct iovec here = {out, size}, there = {(void *)(uintptr_t)address, size};
    return process_vm_readv(pid, &here, 1, &there, 1, 0);
}

static enum gm_counters_status judge_memory(pid_t pid, uint64_t address, int32_t own) {
    char head[PAGE];
    ssize_t length = read_memory(pid, address, head, sizeof head);
    if (length < 0)
        return errno == EPERM ? GM_COUNTERS_NO_READ : GM_COUNTERS_NO_COUNTERS;
    return gm_process_counters_judge(head, (size_t)length, own);
}

/* ---- by an open descriptor */

/* A file that its owner cuts while it is mapped ends this program. The size counts only once the file is sealed. */
static bool cannot_shrink(int fd, off_t bytes) {
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &st) && st.st_size >= bytes;
}

/* Opens a file with the counters of one process, or with `slots` slots of them. */
static enum gm_counters_status take_descriptor(struct gm_process_counters *w, const char *path, int32_t own,
                                               unsigned slots) {
    const char *why;
    int fd = gm_foreign_open(path, O_RDWR, &why); /* the process may have put another file there meanwhile */
    bool writable = fd >= 0;
    if (fd < 0)
        fd = gm_foreign_open(path, O_RDONLY, &why);
    if (fd < 0)
        return errno == EACCES || errno == EPERM ? GM_COUNTERS_DENIED : GM_COUNTERS_NO_COUNTERS;
    enum gm_counters_status status = GM_COUNTERS_NO_COUNTERS;
    for (unsigned i = 0; i < slots && status == GM_COUNTERS_NO_COUNTERS; i++) {
        w->offset = (off_t)(i * sizeof(struct gm_stats));
        status = judge_file(fd, w->offset, own);
    }
    if (status) {
        close(fd);
        return status;
    }
    w->fd = fd;
    if (writable && cannot_shrink(fd, w->offset + PAGE)) {
        void *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, w->offset);
        w->page = map == MAP_FAILED ? NULL : map;
        w->times_calls = slots == 1;
    }
    return GM_COUNTERS_OK;
}

static enum gm_counters_status by_descriptor(struct gm_process_counters *w, int32_t own) {
    char path[PATH], target[PATH];
    enum gm_counters_status status = GM_COUNTERS_NO_COUNTERS, found;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)w->pid);
    DIR *folder = opendir(path);
    if (!folder)
        return errno == EACCES || errno == EPERM ? GM_COUNTERS_DENIED
               : errno == ENOENT                 ? GM_COUNTERS_NO_PROCESS
                                                 : GM_COUNTERS_NO_COUNTERS;
    for (struct dirent *entry; status != GM_COUNTERS_OK && (entry = readdir(folder)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)w->pid, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        if (strcmp(target, memory_file) && strcmp(target, run_file))
            continue;
        found = take_descriptor(w, path, own, strcmp(target, run_file) ? 1 : GM_STATS_SLOTS);
        if (found != GM_COUNTERS_NO_COUNTERS) /* a child of a bare clone() also has its parent's descriptor */
            status = found;
    }
    closedir(folder);
    return status;
}

/* ---- by a mapping */

struct mapping {
    uint64_t address, bytes;
    unsigned long long inode;
    char *name;
};

/* Parses a line of maps. True for a shared, writable mapping of a file's beginning. */
static bool parse_mapping(char *line, struct mapping *out) {
    unsigned long long from, to, offset;
    char rights[8];
    int name = 0;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "%llx-%llx %7s %llx %*s %llu %n", &from, &to, rights, &offset, &out->inode, &name) < 5 || !name)
        return false;
    out->address = from;
    out->bytes = to - from;
    out->name = line + name;
    return !strncmp(rights, "rw-s", 4) && !offset;
}

static bool is_run_file(const struct mapping *m) {
    const char *slash = strrchr(m->name, '/');
    return slash && (!strncmp(slash, "/gpumem-", 8) || !strcmp(m->name, run_file)) &&
           m->bytes == GM_STATS_SLOTS * sizeof(struct gm_stats);
}

/* Finds the process's slot in the file of gpumem run: in the file if it can be opened, else in the process's memory. */
static enum gm_counters_status take_slot(struct gm_process_counters *w, const struct mapping *m, int32_t own) {
    struct stat st;
    enum gm_counters_status status = GM_COUNTERS_NO_COUNTERS;
    const char *why;
    int fd = gm_process_file_open(w->pid, m->name, O_RDONLY, &why);
    if (fd >= 0 && (fstat(fd, &st) || st.st_ino != m->inode)) {
        close(fd);
        fd = -1;
    }
    for (unsigned i = 0; i < GM_STATS_SLOTS && status == GM_COUNTERS_NO_COUNTERS; i++) {
        w->offset = (off_t)(i * sizeof(struct gm_stats));
        w->address = m->address + (uint64_t)w->offset;
        status = fd >= 0 ? judge_file(fd, w->offset, own) : judge_memory(w->pid, w->address, own);
    }
    if (status == GM_COUNTERS_OK)
        w->fd = fd;
    else if (fd >= 0)
        close(fd);
    return status;
}

static enum gm_counters_status by_mapping(struct gm_process_counters *w, int32_t own) {
    char path[PATH], *line = NULL;
    size_t room = 0;
    enum gm_counters_status status = GM_COUNTERS_NO_COUNTERS, found;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)w->pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return errno == EACCES || errno == EPERM ? GM_COUNTERS_DENIED : GM_COUNTERS_NO_COUNTERS;
    while (status != GM_COUNTERS_OK && getline(&line, &room, maps) > 0) {
        struct mapping m;
        if (!parse_mapping(line, &m))
            continue;
        found = GM_COUNTERS_NO_COUNTERS;
        if (!strcmp(m.name, memory_file)) {
            w->address = m.address;
            found = judge_memory(w->pid, m.address, own);
        } else if (is_run_file(&m)) {
            found = take_slot(w, &m, own);
        }
        if (found != GM_COUNTERS_NO_COUNTERS)
            status = found;
    }
    if (ferror(maps) && status == GM_COUNTERS_NO_COUNTERS)
        status = GM_COUNTERS_DENIED;
    free(line);
    fclose(maps);
    return status;
}

/* ---- an open process */

enum gm_counters_status gm_process_counters_open(pid_t pid, struct gm_process_counters **out) {
    struct gm_process_counters *w = calloc(1, sizeof *w);
    *out = NULL;
    if (!w)
        return GM_COUNTERS_NO_MEMORY;
    w->pid = pid;
    w->fd = -1;
    enum gm_counters_status status = GM_COUNTERS_NO_PROCESS;
    if (identify(pid, &w->identity) && !is_dead(w->identity.state)) {
        int32_t own = own_pid(pid);
        status = by_descriptor(w, own);
        if (status == GM_COUNTERS_NO_COUNTERS)
            status = by_mapping(w, own);
    }
    if (status) {
        gm_process_counters_close(w);
        return status;
    }
    name_program(pid, w->program, sizeof w->program);
    *out = w;
    return GM_COUNTERS_OK;
}

void gm_process_counters_close(struct gm_process_counters *w) {
    if (!w)
        return;
    if (w->page)
        munmap(w->page, PAGE);
    if (w->fd >= 0)
        close(w->fd);
    free(w);
}

pid_t gm_process_counters_pid(const struct gm_process_counters *w) { return w->pid; }

bool gm_process_counters_alive(const struct gm_process_counters *w) {
    struct identity now;
    return identify(w->pid, &now) && is_same(&w->identity, &now);
}

/* Another process wrote the texts. */
static void end_texts(struct gm_stats *page) {
    page->group[sizeof page->group - 1] = 0;
    page->program[sizeof page->program - 1] = 0;
    page->policy[sizeof page->policy - 1] = 0;
    page->trace[sizeof page->trace - 1] = 0;
    page->free_sync[sizeof page->free_sync - 1] = 0;
    page->shared.group[sizeof page->shared.group - 1] = 0;
    for (unsigned i = 0; i < GM_STATS_STAYED; i++)
        page->suspended.stayed[i].why[sizeof page->suspended.stayed[i].why - 1] = 0;
    page->recording.name[sizeof page->recording.name - 1] = 0;
    page->recording.text[sizeof page->recording.text - 1] = 0;
}

enum gm_counters_status gm_process_counters_read(struct gm_process_counters *w, struct gm_stats *out) {
    /* Checked before reading: counters that are read after the process was alive may be newer than its end, but never
     * older than its start. */
    bool alive = gm_process_counters_alive(w);
    struct gm_stats *copy = aligned_alloc(_Alignof(struct gm_stats), sizeof *copy);
    if (!copy)
        return GM_COUNTERS_NO_MEMORY;
    ssize_t length = -1;
    if (w->fd >= 0)
        length = pread(w->fd, copy, sizeof *copy, w->offset);
    else if (alive)
        length = read_memory(w->pid, w->address, copy, sizeof *copy);
    bool whole = length == sizeof *copy && copy->magic == GM_STATS_MAGIC;
    if (whole && (!copy->program[0] || !strncmp(copy->program, "python", 6)))
        memcpy(copy->program, w->program, sizeof copy->program);
    if (whole) {
        end_texts(copy);
        *out = *copy;
    }
    free(copy);
    return alive && whole ? GM_COUNTERS_OK : GM_COUNTERS_ENDED;
}

bool gm_process_counters_time_calls(struct gm_process_counters *w, uint64_t ns) {
    struct timespec now;
    if (!w->page || !w->times_calls)
        return false;
    uint64_t *until_word = &w->page->watched_until;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t wanted = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec + ns;
    uint64_t until = __atomic_load_n(until_word, __ATOMIC_RELAXED);
    while (until < wanted && /* another viewer may have requested a later end */
           !__atomic_compare_exchange_n(until_word, &until, wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return true;
}

bool gm_process_counters_limit(struct gm_process_counters *w, uint64_t bytes) {
    if (w->page)
        __atomic_store_n(&w->page->limit_bytes, bytes ? bytes : UINT64_MAX, __ATOMIC_RELAXED);
    return w->page != NULL;
}

/* The kernel releases the lock when the tool ends or is killed. */
bool gm_process_counters_lock(struct gm_process_counters *w, unsigned ms) {
    for (unsigned waited = 0; w->page && flock(w->fd, LOCK_EX | LOCK_NB); waited += 5) {
        if (waited >= ms)
            return false;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return true;
}

uint32_t gm_process_counters_request(struct gm_process_counters *w, enum gm_stats_wanted wanted, const char *name,
                                     uint32_t stacks) {
    struct gm_stats_recording *r = w->page ? &w->page->recording : NULL;
    if (!r || strlen(name) >= sizeof r->name)
        return 0;
    uint32_t writing = __atomic_load_n(&r->request, __ATOMIC_RELAXED) | 1, number = writing + 1;
    number += number == 0 ? 2 : 0;
    __atomic_store_n(&r->request, writing, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    r->wanted = wanted;
    r->stacks = stacks;
    strcpy(r->name, name);
    __atomic_store_n(&r->request, number, __ATOMIC_RELEASE);
    __atomic_or_fetch(&w->page->watched_until, GM_STATS_REQUESTED, __ATOMIC_RELEASE);
    return number;
}

bool gm_process_counters_answer(struct gm_process_counters *w, uint32_t request, unsigned ms, bool *failed, char *text,
                                size_t size) {
    const struct gm_stats_recording *r = &w->page->recording;
    for (unsigned waited = 0; __atomic_load_n(&r->answered, __ATOMIC_ACQUIRE) != request; waited += 5) {
        if (waited >= ms || !gm_process_counters_alive(w))
            return false;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    *failed = r->failed;
    snprintf(text, size, "%.*s", (int)sizeof r->text - 1, r->text);
    return true;
}

const char *gm_process_counters_reason(enum gm_counters_status status) {
    switch (status) {
    case GM_COUNTERS_OK: return "counters are readable";
    case GM_COUNTERS_NO_PROCESS: return "no such process";
    case GM_COUNTERS_DENIED:
        return geteuid() ? "permission denied: another user's process, or one that only root may inspect"
                         : "permission denied: this root lacks a right to inspect it, as in a container; whether it "
                           "runs under gpumem is unknown";
    case GM_COUNTERS_NO_READ:
        return "the program closed the descriptor of its counters, and the kernel lets only root read them from its "
               "memory (kernel.yama.ptrace_scope)";
    case GM_COUNTERS_NO_COUNTERS: return "no counters: it does not run under gpumem, or has not used CUDA yet";
    case GM_COUNTERS_OTHER_VERSION: return "runs under another version of gpumem; use that version's gpumem top";
    case GM_COUNTERS_ENDED: return "has ended";
    case GM_COUNTERS_NO_MEMORY: return "out of memory";
    }
    return "";
}

void gm_each_process(bool (*found)(pid_t pid, void *arg), void *arg) {
    DIR *folder = opendir("/proc");
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct stat st;
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid <= 0 || *end || fstatat(dirfd(folder), entry->d_name, &st, 0))
            continue;
        if ((!geteuid() || st.st_uid == geteuid()) && !found((pid_t)pid, arg))
            break;
    }
    closedir(folder);
}
