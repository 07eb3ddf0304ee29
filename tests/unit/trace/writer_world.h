/* What all tests of the trace writer need. A process has one writer, so each case writes in a child. */
#ifndef WRITER_WORLD_H
#define WRITER_WORLD_H

#include <sys/types.h>

#include "tests/test.h"

#include "shim/base/base.h"
#include "shim/trace/writer.h"
#include "tools/cli/reader.h"

enum { AUTO, BINARY, CSV };

extern char folder[];  /* emptied before each case */
extern char path[256]; /* of the trace, in the folder */

/* ---- writing */

void write_event(uint64_t sequence, uint64_t address, uint64_t bytes);
void write_events(uint64_t first_address, int count);
/* A whole trace: a site, a string, a module and 10000 events. */
void write_all(void);
/* Waits until the trace holds so many events, at most 20 s. They are flushed every 10 ms. */
void let_it_flush(int events);
/* Runs `body` in a child and returns its wait status. */
int in_child(void (*body)(void));
/* The same; returns how many lines it logged. Each must contain the text. The log stays in the folder. */
int log_lines(void (*body)(void), const char *text);

/* ---- reading */

/* Reads the trace, checks that seqs rise, and returns how many events it holds. */
int read_back(const char *name, uint32_t *finished, uint64_t *dropped);
off_t file_size(const char *name);
int files_in_folder(void);

/* ---- tests, each for the binary format, for CSV, or for both */

int make_folder(void **state);
int remove_folder(void **state);
int clear(void **state);
int clear_csv(void **state);

#define LIST_BINARY(f) LIST_TEST(f##_binary, #f " (binary)", f, clear, NULL)
#define LIST_CSV(f)    LIST_TEST(f##_csv, #f " (csv)", f, clear_csv, NULL)
#define FORMAT_TEST(f, lists)    \
    static void f(void **state); \
    lists;                       \
    static void f(void **state)
#define BINARY_TEST(f)  FORMAT_TEST(f, LIST_BINARY(f))
#define CSV_TEST(f)     FORMAT_TEST(f, LIST_CSV(f))
#define TEST_OF_BOTH(f) FORMAT_TEST(f, LIST_BINARY(f); LIST_CSV(f))

#endif
