/* Asks the card about its memory, for the account (shim/explain/account.h). */
#ifndef GM_START_CARD_H
#define GM_START_CARD_H

#include "shim/explain/account.h"

/* Asks the card of a device; -1: of the current context. `own`: what this process has, too, which may load the card's
 * management library. Writes the device; `card` NULL: only that. False: it cannot be asked now, as while a stream
 * captures. */
GM_INTERNAL bool gm_card_ask(int *device, bool own, struct gm_card *card);
/* What this process has in use on the device, when the driver may be gone; 0: unknown, or the card's management library
 * was not used before. */
GM_INTERNAL uint64_t gm_card_own_at_end(int device);

#endif
