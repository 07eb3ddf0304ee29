/* Moves ranges between devices and the host. The memory is held alone, and nothing is in flight. */
#ifndef GM_SUSPEND_MOVING_H
#define GM_SUSPEND_MOVING_H

#include "shim/suspend/select.h"

/* What the wish names leaves; *bytes grows by what has left. After an error everything is as before, and `why`
 * (GM_SUSPEND_WHY) has one line. */
GM_INTERNAL gm_status gm_move_out(const struct gm_suspend_wish *wish, uint64_t *bytes, char *why);
/* Ranges with the choice GM_CHOICE_BACK come back; *bytes grows by them. *other: pages that had other contents than
 * they left with. After an error all are away. */
GM_INTERNAL gm_status gm_move_back(uint64_t *bytes, unsigned *other);
/* The device that had no memory for the latest way back; -1: none yet. */
GM_INTERNAL int gm_moved_lacks(void);
/* Bytes that the latest way out did not copy. */
GM_INTERNAL uint64_t gm_moved_dropped(void);

#endif
