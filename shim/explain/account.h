/* Takes the account of a device (shim/accounts/account.h): the card is asked, the registry is walked. */
#ifndef GM_EXPLAIN_ACCOUNT_H
#define GM_EXPLAIN_ACCOUNT_H

#include "shim/accounts/account.h"

/* Takes the account of now. False: the card cannot be asked, and *account is unchanged. */
GM_INTERNAL bool gm_account_take(int device, struct gm_account *account);

/* The next failure for lack of the device's memory will be explained: none was before. */
GM_INTERNAL bool gm_account_is_awaited(int device);
GM_INTERNAL void gm_account_explained(int device);
/* The account of the moment at which the request that this thread makes found no memory; with what was released for it
 * since. False: as gm_account_take. */
GM_INTERNAL bool gm_account_of_failure(int device, struct gm_account *account);

#endif
