/* Reads traces, binary and CSV. Events arrive in their global order, whichever thread and chunk holds them. The reader
 * uses little memory because it reads the file in windows. It reads the trace of a killed process or a full disk as far
 * as possible. */
#ifndef GM_READER_H
#define GM_READER_H

#include "tools/cli/definitions.h"

struct gm_reader;

/* Opens a trace. NULL if the file is not usable; `error` then is one line that names the file. Owned by the caller. */
struct gm_reader *gm_reader_open(const char *path, char *error, size_t size);
/* The same of a regular file that is open, and closed by this call or gm_reader_close. */
struct gm_reader *gm_reader_open_file(int fd, const char *path, char *error, size_t size);
/* The same, with all definitions available at once. A CSV trace has definitions between its events, so this function
 * reads those events. */
struct gm_reader *gm_reader_open_definitions(const char *path, char *error, size_t size);
void gm_reader_close(struct gm_reader *reader);

const char *gm_reader_path(const struct gm_reader *reader);
/* Its texts are as they are shown. `finished` is final after the last event: a part that ends before its trace is
 * GM_TRACE_STOPPED. */
const struct gm_trace_header *gm_reader_header(const struct gm_reader *reader);

/* Whether the trace has its single blocks. If not, it is a summary, which `what` cannot use: `error` then is one line.
 */
bool gm_reader_has_blocks(const struct gm_reader *reader, const char *what, char *error, size_t size);

/* Reads the next event. Its time is relative to the header's start_ns. False at the end. */
bool gm_reader_next(struct gm_reader *reader, struct gm_event *event, int *thread);

/* Number of invalid parts of the file that the reader skipped (chunks, records, events, lines). Final after the last
 * event. */
uint64_t gm_reader_damaged(const struct gm_reader *reader);
/* For checks, after the last event: whether the trace has all that the program did. If not, a line on stderr says so.
 */
bool gm_reader_is_whole(const struct gm_reader *reader);
/* Says so in a line on stderr if there were any: for commands whose output has no place for it. */
void gm_reader_warn(const char *path, uint64_t damaged);

/* Definitions. They are complete after the last event. Results live as long as the reader. */
void gm_reader_each_record(const struct gm_reader *reader, void (*visit)(const struct gm_record *record, void *arg),
                           void *arg);
bool gm_reader_site(const struct gm_reader *reader, uint32_t id, struct gm_site *site);
size_t gm_reader_site_count(const struct gm_reader *reader);
void gm_reader_each_site(const struct gm_reader *reader, void (*visit)(const struct gm_site *site, void *arg),
                         void *arg);
bool gm_reader_python(const struct gm_reader *reader, uint64_t address, struct gm_python_frame *frame);
bool gm_reader_module(const struct gm_reader *reader, uint64_t address, struct gm_module *module);
bool gm_reader_device(const struct gm_reader *reader, unsigned index, struct gm_device *device);
const char *gm_reader_string(const struct gm_reader *reader, uint32_t id); /* NULL = unknown */

#endif
