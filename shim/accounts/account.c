#include "shim/accounts/account.h"

static uint64_t above(uint64_t more, uint64_t less) { return more > less ? more - less : 0; }
static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

void gm_account_settle(struct gm_account *account, const struct gm_account_facts *facts) {
    uint64_t *rows = account->rows, all = above(facts->total, facts->free), own = smaller(facts->own, all);
    account->total = facts->total;
    account->shared = !own;
    rows[GM_ACCOUNT_FREE] = facts->total - all;
    rows[GM_ACCOUNT_OTHERS] = own ? all - own : 0;
    rows[GM_ACCOUNT_LIVE] = facts->live;
    rows[GM_ACCOUNT_ROUNDING] = facts->slack;
    rows[GM_ACCOUNT_HANDLES] = facts->handles;
    rows[GM_ACCOUNT_KEPT] = above(facts->reserved, facts->live + facts->slack + facts->handles);
    rows[GM_ACCOUNT_POOLS] = above(facts->pools, facts->in_pools);
    uint64_t counted = rows[GM_ACCOUNT_LIVE] + rows[GM_ACCOUNT_ROUNDING] + rows[GM_ACCOUNT_KEPT] +
                       rows[GM_ACCOUNT_POOLS] + rows[GM_ACCOUNT_HANDLES];
    account->suspended = smaller(facts->suspended, counted);
    counted -= account->suspended;
    uint64_t used = own ? own : all, rest = above(used, counted), waste = smaller(facts->page_waste, rest);
    account->elsewhere = above(counted, used);
    rows[GM_ACCOUNT_ROUNDING] += waste;
    rows[GM_ACCOUNT_CONTEXTS] = rest - waste;
}

uint64_t gm_account_sum(const struct gm_account *account) {
    uint64_t sum = 0;
    for (int row = 0; row < GM_ACCOUNT_ROWS; row++)
        sum += account->rows[row];
    return sum - account->elsewhere - account->suspended;
}

/* Members of the account by item. */
static uint64_t *part_of(struct gm_account *account, unsigned item) {
    switch (item) {
    case GM_ACCOUNT_ITEM_TOTAL: return &account->total;
    case GM_ACCOUNT_ITEM_SUSPENDED: return &account->suspended;
    case GM_ACCOUNT_ITEM_ELSEWHERE: return &account->elsewhere;
    case GM_ACCOUNT_ITEM_MAPPED: return &account->mapped;
    case GM_ACCOUNT_ITEM_POOLED: return &account->pooled;
    case GM_ACCOUNT_ITEM_GRAPHS: return &account->graphs;
    case GM_ACCOUNT_ITEM_GIVEN: return &account->given;
    case GM_ACCOUNT_ITEM_POOLS: return &account->pool_count;
    default: return item < GM_ACCOUNT_ROWS ? &account->rows[item] : NULL;
    }
}

void gm_account_each(const struct gm_account *account,
                     void (*write)(unsigned item, uint64_t value, const struct gm_account_pool *pool, void *arg),
                     void *arg) {
    const struct gm_account_pool none = {0};
    struct gm_account copy = *account;
    for (unsigned item = 0; item <= GM_ACCOUNT_ITEM_SUSPENDED; item++) {
        const uint64_t *part = part_of(&copy, item);
        if (part && *part && item != GM_ACCOUNT_ITEM_TOTAL)
            write(item, *part, &none, arg);
    }
    for (unsigned i = 0; i < account->pool_count && i < GM_ACCOUNT_POOLS_SHOWN; i++)
        write(GM_ACCOUNT_ITEM_POOL, account->pools[i].reserved, &account->pools[i], arg);
    write(GM_ACCOUNT_ITEM_TOTAL, account->total, &none, arg);
}

void gm_account_add(struct gm_account *account, unsigned item, uint64_t value, const struct gm_account_pool *pool) {
    uint64_t *part = part_of(account, item);
    if (part)
        *part = value;
    for (unsigned i = 0; item == GM_ACCOUNT_ITEM_POOL && i < GM_ACCOUNT_POOLS_SHOWN; i++)
        if (!account->pools[i].reserved) {
            account->pools[i] = (struct gm_account_pool){pool->handle, value, pool->used};
            break;
        }
}

const char *gm_account_name(enum gm_account_row row) {
    static const char *const names[GM_ACCOUNT_ROWS] = {
#define X(enumerator, name, meaning) [enumerator] = name,
        GM_ACCOUNT(X)
#undef X
    };
    return names[row];
}

static bool is_shared(const struct gm_account *account, enum gm_account_row row) {
    return row == GM_ACCOUNT_CONTEXTS && account->shared;
}

const char *gm_account_label(const struct gm_account *account, enum gm_account_row row) {
    return is_shared(account, row) ? "rest" : gm_account_name(row);
}

const char *gm_account_meaning(const struct gm_account *account, enum gm_account_row row) {
    static const char *const meanings[GM_ACCOUNT_ROWS] = {
#define X(enumerator, name, meaning) [enumerator] = meaning,
        GM_ACCOUNT(X)
#undef X
    };
    return is_shared(account, row) ? "contexts, modules, graphs, and other processes of the card" : meanings[row];
}

/* What would have made room is named, the least first that somebody can change. */
const char *gm_account_reason(const struct gm_account *account, uint64_t requested) {
    const uint64_t *rows = account->rows;
    uint64_t lacks = above(requested, rows[GM_ACCOUNT_FREE]), kept = above(rows[GM_ACCOUNT_KEPT], account->given);
    uint64_t programs =
        above(rows[GM_ACCOUNT_LIVE] + rows[GM_ACCOUNT_ROUNDING] + rows[GM_ACCOUNT_HANDLES], account->suspended);
    if (requested > account->total)
        return "larger than the device's memory";
    if (lacks <= account->given)
        return "more was free than requested: fragmentation, rounding, or a limit of the stack";
    if (programs > account->total - requested)
        return "this process holds too much";
    if (lacks <= account->given + kept)
        return "kept memory";
    if (lacks <= rows[GM_ACCOUNT_KEPT] + rows[GM_ACCOUNT_POOLS])
        return "unused memory of the program's pools";
    return account->shared                                       ? "contexts, modules, graphs or other processes"
           : rows[GM_ACCOUNT_OTHERS] > rows[GM_ACCOUNT_CONTEXTS] ? "other processes"
                                                                 : "contexts, modules and graphs";
}
