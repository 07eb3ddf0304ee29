/* What a suspend left on the devices, and why: for gpumem suspend and gpumem top. */
#ifndef GM_SUSPEND_STAYED_H
#define GM_SUSPEND_STAYED_H

#include "shim/base/base.h"

/* After the memory has left, while it is held alone: adds up what stayed by reason, and shows it in the counters. What
 * gpumem has no block of (contexts, modules) is a row of the device's account. */
GM_INTERNAL void gm_stayed_publish(void);

#endif
