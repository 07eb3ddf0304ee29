/* What names in traces mean, one line each, for report and manual. NULL = no such name; the build fails when
 * the manual would lack one. */
#ifndef GM_TRACE_GLOSSARY_H
#define GM_TRACE_GLOSSARY_H

#include "shim/trace/event.h"

const char *gm_reason_meaning(enum gm_reason reason);
const char *gm_action_meaning(enum gm_action action);
const char *gm_column_meaning(const char *name); /* of a CSV trace */

#endif
