#ifndef GM_ACCOUNT_TEXT_H
#define GM_ACCOUNT_TEXT_H

#include "shim/accounts/account.h"
#include "shim/base/base.h"

/* Adds the account of a request that found no memory. `blocks`: number of live ones. */
GM_INTERNAL void gm_account_log(struct gm_log_lines *lines, const struct gm_account *account, uint64_t blocks);

#endif
