/* GPUMEM_CHECK_ORDER: looks at the program's calls of the driver, so that shim/driver/check_order.h learns
 * the order of work. Nothing of it is in the way of a program that does not ask for it. */
#ifndef GM_HOOK_CHECK_H
#define GM_HOOK_CHECK_H

#include "shim/base/base.h"

/* Reads the option, before the first call of the driver. True: the mode is on, and every free has to wait. */
GM_INTERNAL bool gm_check_start(void);
/* What is handed out for `function` in place of `entry`. */
GM_INTERNAL void *gm_check_route(void *function, void *entry);
/* Writes the findings to the counters, and, where no gpumem run reads them, to file descriptor fd. */
GM_INTERNAL void gm_check_report(int fd);

#endif
