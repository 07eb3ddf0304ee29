/* A folder for traces, children that write them, and what they hold afterwards (writer_world.h). */
#include "writer_world.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/file.h"

char folder[] = "/tmp/gpumem-trace-XXXXXX";
char path[256];

void write_event(uint64_t sequence, uint64_t address, uint64_t bytes) {
    struct gm_event e = {.seq = sequence,
                         .time_ns = gm_now_ns(),
                         .address = address,
                         .bytes = bytes,
                         .slack = 28,
                         .call = GM_CALL_ALLOC,
                         .action = GM_ACT_ALLOC,
                         .site = 1};
    gm_trace_event(&e);
}

void write_events(uint64_t first_address, int count) {
    for (int i = 0; i < count; i++)
        write_event(gm_trace_sequence(), first_address + (uint64_t)i, 100 + (uint64_t)i);
}

int in_child(void (*body)(void)) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        body();
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

int read_back(const char *name, uint32_t *finished, uint64_t *dropped) {
    char error[512] = "";
    struct gm_reader *r = gm_reader_open(name, error, sizeof error);
    struct gm_event e;
    uint64_t last = 0;
    int thread, count = 0;
    if (!r)
        fail_msg("%s", error);
    while (gm_reader_next(r, &e, &thread)) {
        assert_true(e.seq > last);
        assert_true(thread > 0);
        assert_int_equal(e.action, GM_ACT_ALLOC);
        last = e.seq;
        count++;
    }
    assert_int_equal(gm_reader_damaged(r), 0);
    if (finished)
        *finished = gm_reader_header(r)->finished;
    if (dropped)
        *dropped = gm_reader_header(r)->dropped;
    gm_reader_close(r);
    return count;
}

off_t file_size(const char *name) {
    struct stat st;
    return stat(name, &st) ? -1 : st.st_size;
}

int files_in_folder(void) {
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

int clear(void **state) {
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    snprintf(path, sizeof path, "%s/t.trace", folder);
    return 0;
}

int clear_csv(void **state) {
    clear(state);
    snprintf(path, sizeof path, "%s/t.csv", folder);
    return 0;
}

void write_all(void) {
    struct {
        struct gm_record_site site;
        uint64_t frames[2];
    } site = {{{sizeof site, GM_RECORD_SITE, 0}, 1, 2, 1}, {0x1111, 0x2222}};
    struct {
        struct gm_record_string head;
        char text[16];
    } string = {{{sizeof string, GM_RECORD_STRING, 0}, 5, 12}, "a,b\n\\c \"d\" e"};
    struct {
        struct gm_record_module head;
        unsigned char id[8];
        char path[8];
    } module = {{{sizeof module, GM_RECORD_MODULE, 0}, 0x1000, 0x1000, 0x3000, 3, 8}, {0xab, 0xcd, 0x01}, "/x/y z.o"};
    gm_trace_setup(path, AUTO, 0, "auto", "9.9");
    gm_trace_record(&site.site.head);
    gm_trace_record(&string.head.head);
    gm_trace_record(&module.head.head);
    write_events(0x1000, 10000);
    gm_trace_finish();
    write_events(0, 5);
}

static int events_in_file(void) {
    char error[512];
    struct gm_event e;
    int thread, count = 0;
    struct gm_reader *r = gm_reader_open(path, error, sizeof error);
    while (r && gm_reader_next(r, &e, &thread))
        count++;
    if (r)
        gm_reader_close(r);
    return count;
}

void let_it_flush(int events) {
    for (int naps = 0; naps < 10000 && events_in_file() < events; naps++)
        nanosleep(&(struct timespec){0, 2000000}, NULL);
}

int log_lines(void (*body)(void), const char *text) {
    char log[300], line[512];
    int lines = 0;
    snprintf(log, sizeof log, "%s/log", folder);
    int saved = dup(2), fd = open(log, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    dup2(fd, 2);
    gm_standard_error_is_now();
    int status = in_child(body);
    dup2(saved, 2);
    gm_standard_error_is_now();
    close(fd);
    close(saved);
    assert_int_equal(status, 0);
    FILE *f = fopen(log, "r");
    while (fgets(line, sizeof line, f)) {
        assert_non_null(strstr(line, text));
        lines++;
    }
    fclose(f);
    return lines;
}

int make_folder(void **state) { return mkdtemp(folder) ? 0 : -1; }

int remove_folder(void **state) {
    clear(state);
    return rmdir(folder);
}
