/* GPUMEM_CHECK_ORDER: reports the program's calls of the driver to shim/driver/check_order.h, which tracks the order
 * of work. Costs nothing in programs that do not set the option. */
#ifndef GM_HOOK_CHECK_H
#define GM_HOOK_CHECK_H

#include "shim/base/base.h"

/* Reads the option, before the first call of the driver. True: the mode is on, and every free has to wait. */
GM_INTERNAL bool gm_check_start(void);
struct gm_called;
/* A call of the program, before it is made. */
GM_INTERNAL void gm_check_observe(const struct gm_called *call);
/* Writes the findings to the counters. Writes them to file descriptor fd too when `gpumem run` does not read the
 * counters. */
GM_INTERNAL void gm_check_report(int fd);

#endif
