/* Explains the names in traces, one line each, for the report and the manual. NULL = unknown name. The build of the
 * manual fails if a name lacks an explanation. */
#ifndef GM_TRACE_GLOSSARY_H
#define GM_TRACE_GLOSSARY_H

#include "shim/trace/event.h"

const char *gm_reason_meaning(enum gm_reason reason);
const char *gm_action_meaning(enum gm_action action);
const char *gm_column_meaning(const char *name); /* of a CSV trace */

#endif
