#include "tools/cli/account_out.h"

#include "tools/cli/number_text.h"

/* Other processes are a row of their own only where the card says what this one has. */
static uint64_t value_of(const struct gm_account *account, enum gm_account_row row) {
    bool unknown = !account->taken_ns || (row == GM_ACCOUNT_OTHERS && account->shared);
    return unknown ? GM_UNKNOWN : account->rows[row];
}

static uint64_t known(const struct gm_account *account, uint64_t value) {
    return account->taken_ns ? value : GM_UNKNOWN;
}

/* ---- one device, two moments */

static void print_rows(struct gm_out *out, const struct gm_account *fullest, const struct gm_account *last) {
    for (int row = 0; row < GM_ACCOUNT_ROWS; row++) {
        enum gm_account_row r = (enum gm_account_row)row;
        if (out->json || gm_account_shows(fullest, r) || gm_account_shows(last, r))
            gm_out_row(out,
                       (struct gm_value[]){GM_T(out->json ? gm_account_name(r) : gm_account_label(fullest, r)),
                                           GM_N(value_of(fullest, r)), GM_N(value_of(last, r)),
                                           GM_T(gm_account_meaning(fullest, r))},
                       NULL);
    }
    if (out->json || fullest->suspended || last->suspended)
        gm_out_row(out,
                   (struct gm_value[]){GM_T(GM_ACCOUNT_SUSPENDED), GM_N(fullest->suspended), GM_N(last->suspended),
                                       GM_T("to be subtracted: " GM_ACCOUNT_SUSPENDED_MEANING)},
                   NULL);
    if (out->json || fullest->elsewhere || last->elsewhere)
        gm_out_row(out,
                   (struct gm_value[]){GM_T(GM_ACCOUNT_ELSEWHERE), GM_N(fullest->elsewhere), GM_N(last->elsewhere),
                                       GM_T("to be subtracted: " GM_ACCOUNT_ELSEWHERE_MEANING)},
                   NULL);
    gm_out_row(out, (struct gm_value[]){GM_T("card"), GM_N(fullest->total), GM_N(last->total), GM_T("the sum")}, NULL);
}

void gm_out_account(struct gm_out *out, const struct gm_account *fullest, const struct gm_account *last) {
    static const struct gm_column columns[] = {{"row", "the card's memory", GM_CELL_TEXT, 20},
                                               {"fullest_bytes", "at the fullest", GM_CELL_BYTES},
                                               {"last_bytes", "at last", GM_CELL_BYTES},
                                               {"meaning", " which is", GM_CELL_TEXT}};
    static const struct gm_column pools[] = {{"pool", "pool (0: default)", GM_CELL_HEX, 20},
                                             {"reserved_bytes", "has", GM_CELL_BYTES},
                                             {"used_bytes", "uses", GM_CELL_BYTES}};
    if (!fullest->taken_ns && !out->json)
        return;
    gm_out_table(out, "account", columns, sizeof columns / sizeof *columns);
    out->all = true;
    if (fullest->taken_ns)
        print_rows(out, fullest, last);
    gm_out_table_end(out);
    if (!fullest->pool_count && !out->json)
        return;
    gm_out_table(out, "pools", pools, sizeof pools / sizeof *pools);
    for (unsigned i = 0; i < fullest->pool_count && i < GM_ACCOUNT_POOLS_SHOWN; i++)
        gm_out_row(out,
                   (struct gm_value[]){GM_N(fullest->pools[i].handle), GM_N(fullest->pools[i].reserved),
                                       GM_N(fullest->pools[i].used)},
                   NULL);
    gm_out_table_end(out);
}

/* ---- requests that found no memory */

enum { COLUMNS = GM_ACCOUNT_ROWS + 6 };

void gm_out_accounts(struct gm_out *out) {
    static struct gm_column columns[COLUMNS];
    static const struct gm_column others[] = {{"suspended_bytes", GM_ACCOUNT_SUSPENDED, GM_CELL_BYTES},
                                              {"elsewhere_bytes", GM_ACCOUNT_ELSEWHERE, GM_CELL_BYTES},
                                              {"device_bytes", "card", GM_CELL_BYTES},
                                              {"given_bytes", "given back", GM_CELL_BYTES},
                                              {"graphs_bytes", NULL, GM_CELL_BYTES}};
    static char names[GM_ACCOUNT_ROWS][24];
    unsigned at = 0;
    columns[at++] = (struct gm_column){"request", "request", GM_CELL_NUMBER};
    for (int row = 0; row < GM_ACCOUNT_ROWS; row++) {
        snprintf(names[row], sizeof names[row], "%s_bytes", gm_account_name((enum gm_account_row)row));
        columns[at++] = (struct gm_column){names[row], gm_account_name((enum gm_account_row)row), GM_CELL_BYTES};
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        columns[at++] = others[i];
    gm_out_table(out, "accounts", columns, COLUMNS);
}

void gm_out_account_row(struct gm_out *out, uint64_t request, const struct gm_account *account) {
    struct gm_value values[COLUMNS];
    unsigned at = 0;
    values[at++] = GM_N(request);
    for (int row = 0; row < GM_ACCOUNT_ROWS; row++)
        values[at++] = GM_N(value_of(account, (enum gm_account_row)row));
    values[at++] = GM_N(known(account, account->suspended));
    values[at++] = GM_N(known(account, account->elsewhere));
    values[at++] = GM_N(known(account, account->total));
    values[at++] = GM_N(known(account, account->given));
    values[at++] = GM_N(known(account, account->graphs));
    gm_out_row(out, values, NULL);
}

void gm_out_pools(struct gm_out *out) {
    static const struct gm_column columns[] = {{"request", "request", GM_CELL_NUMBER},
                                               {"pool", "pool (0: default)", GM_CELL_HEX},
                                               {"reserved_bytes", "has", GM_CELL_BYTES},
                                               {"used_bytes", "uses", GM_CELL_BYTES}};
    gm_out_table(out, "pools", columns, sizeof columns / sizeof *columns);
}

void gm_out_pool_rows(struct gm_out *out, uint64_t request, const struct gm_account *account) {
    for (unsigned i = 0; i < account->pool_count && i < GM_ACCOUNT_POOLS_SHOWN; i++)
        gm_out_row(out,
                   (struct gm_value[]){GM_N(request), GM_N(account->pools[i].handle), GM_N(account->pools[i].reserved),
                                       GM_N(account->pools[i].used)},
                   NULL);
}

/* ---- elsewhere than in reports */

void gm_account_print(FILE *out, const struct gm_account *account) {
    struct gm_text t;
    const char *comma = "";
    for (int row = 0; row < GM_ACCOUNT_ROWS; row++)
        if (gm_account_shows(account, (enum gm_account_row)row)) {
            fprintf(out, "%s%s %s", comma, gm_account_label(account, (enum gm_account_row)row),
                    gm_text_bytes(&t, account->rows[row]));
            comma = ", ";
        }
    if (account->suspended)
        fprintf(out, "%s%s -%s", comma, GM_ACCOUNT_SUSPENDED, gm_text_bytes(&t, account->suspended));
    if (account->elsewhere)
        fprintf(out, "%s%s -%s", comma, GM_ACCOUNT_ELSEWHERE, gm_text_bytes(&t, account->elsewhere));
}

#ifdef GM_HAVE_JANSSON
#include "tools/cli/json.h"

static void put(json_t *object, const char *name, uint64_t value) {
    json_object_set_new(object, name, value == GM_UNKNOWN ? json_null() : gm_json_number(value));
}

void *gm_account_json(const struct gm_account *account) {
    if (!gm_account_is_known(account))
        return json_null();
    json_t *all = json_object(), *pools = json_array();
    char name[24];
    for (int row = 0; row < GM_ACCOUNT_ROWS; row++) {
        snprintf(name, sizeof name, "%s_bytes", gm_account_name((enum gm_account_row)row));
        put(all, name, value_of(account, (enum gm_account_row)row));
    }
    put(all, GM_ACCOUNT_SUSPENDED "_bytes", account->suspended);
    put(all, GM_ACCOUNT_ELSEWHERE "_bytes", account->elsewhere);
    put(all, "device_bytes", account->total);
    put(all, "taken_ns", account->taken_ns);
    put(all, "mapped_bytes", account->mapped);
    put(all, "pooled_bytes", account->pooled);
    put(all, "graphs_bytes", account->graphs);
    for (unsigned i = 0; i < account->pool_count && i < GM_ACCOUNT_POOLS_SHOWN; i++) {
        const struct gm_account_pool *pool = &account->pools[i];
        json_array_append_new(pools,
                              json_pack("{s:o, s:o, s:o}", "pool", gm_json_number(pool->handle), "reserved_bytes",
                                        gm_json_number(pool->reserved), "used_bytes", gm_json_number(pool->used)));
    }
    json_object_set_new(all, "pools", pools);
    return all;
}
#else
void *gm_account_json(const struct gm_account *account) { return NULL; }
#endif
