/* Accounts of devices (shim/accounts/account.h) in reports: as text or JSON, the same rows everywhere. */
#ifndef GM_ACCOUNT_OUT_H
#define GM_ACCOUNT_OUT_H

#include "shim/accounts/account.h"
#include "tools/cli/output.h"

#include <stdio.h>

/* The tables "account", with a line for each row that says something, and "pools". As text nothing where no account was
 * taken. */
void gm_out_account(struct gm_out *out, const struct gm_account *fullest, const struct gm_account *last);

/* Tables of requests that found no memory, "accounts" and "pools": begin, the lines of each request, gm_out_table_end.
 */
void gm_out_accounts(struct gm_out *out);
void gm_out_account_row(struct gm_out *out, uint64_t request, const struct gm_account *account);
void gm_out_pools(struct gm_out *out);
void gm_out_pool_rows(struct gm_out *out, uint64_t request, const struct gm_account *account);

/* One line without its end: "live 1.00 GiB, kept 2.00 MiB, free 1.00 GiB". */
void gm_account_print(FILE *out, const struct gm_account *account);
/* A json_t object, NULL without jansson or memory; null where the account is not known. */
void *gm_account_json(const struct gm_account *account);

#endif
