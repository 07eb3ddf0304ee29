/* The one reader of traces, binary and CSV: events come in global order, whatever thread and chunk they lie
 * in; memory stays small because the file is read in windows. A trace of a killed process or a full disk is
 * read as far as it goes. */
#ifndef GM_READER_H
#define GM_READER_H

#include "tools/cli/definitions.h"

struct gm_reader;

/* NULL when the file cannot be used; `error` then is one line that names the file. Owned by the caller. */
struct gm_reader *gm_reader_open(const char *path, char *error, size_t size);
/* The same, with all definitions known at once: in a CSV trace they stand between the events, which then are
 * read already. */
struct gm_reader *gm_reader_open_definitions(const char *path, char *error, size_t size);
void gm_reader_close(struct gm_reader *reader);

const struct gm_trace_header *gm_reader_header(const struct gm_reader *reader);

/* Next event; times are relative to the header's start_ns. False at the end. */
bool gm_reader_next(struct gm_reader *reader, struct gm_event *event, int *thread);

/* Parts of the file that made no sense and were left out (chunks, records, events, lines). Final after the
 * last event. */
uint64_t gm_reader_damaged(const struct gm_reader *reader);

/* Definitions; complete after the last event. Results live as long as the reader. */
bool gm_reader_site(const struct gm_reader *reader, uint32_t id, struct gm_site *site);
void gm_reader_each_site(const struct gm_reader *reader, void (*visit)(const struct gm_site *site, void *arg),
                         void *arg);
bool gm_reader_module(const struct gm_reader *reader, uint64_t address, struct gm_module *module);
bool gm_reader_device(const struct gm_reader *reader, unsigned index, struct gm_device *device);
void gm_reader_each_module(const struct gm_reader *reader, void (*visit)(const struct gm_module *module, void *arg),
                           void *arg);
void gm_reader_each_context(const struct gm_reader *reader,
                            void (*visit)(const struct gm_traced_context *context, void *arg), void *arg);
void gm_reader_each_string(const struct gm_reader *reader, void (*visit)(uint32_t id, const char *text, void *arg),
                           void *arg);
const char *gm_reader_string(const struct gm_reader *reader, uint32_t id); /* NULL = unknown */

#endif
