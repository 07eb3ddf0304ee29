/* What the memory of a card is: one list that adds up to the card. The library takes it (shim/explain/account.h), and
 * explanations, trace, report, gpumem run, top and the page show it: all by the rows below. Nothing here calls a
 * driver.
 *
 *     live + rounding + kept + pools + handles + contexts + others + free - suspended - elsewhere = total
 */
#ifndef GM_ACCOUNT_H
#define GM_ACCOUNT_H

#include "shim/base/base.h"

/* X(enumerator, name, meaning) */
#define GM_ACCOUNT(X)                                                                                            \
    X(GM_ACCOUNT_LIVE, "live", "requested by the program and not freed")                                         \
    X(GM_ACCOUNT_ROUNDING, "rounding", "what live blocks take beyond that, and pages that small blocks leave")   \
    X(GM_ACCOUNT_KEPT, "kept", "freed blocks that gpumem keeps for reuse, and unused pages of its pools")        \
    X(GM_ACCOUNT_POOLS, "pools", "unused memory of the program's pools, the default pool among them")            \
    X(GM_ACCOUNT_HANDLES, "handles", "memory of cuMemCreate that is not mapped")                                 \
    X(GM_ACCOUNT_CONTEXTS, "contexts", "contexts, modules, graphs, and what else the process has beyond gpumem") \
    X(GM_ACCOUNT_OTHERS, "others", "other processes, and the driver itself")                                     \
    X(GM_ACCOUNT_FREE, "free", "free on the card")

enum gm_account_row {
#define X(enumerator, name, meaning) enumerator,
    GM_ACCOUNT(X)
#undef X
        GM_ACCOUNT_ROWS
};

/* A pool of the program. What it uses is live memory, with its rounding, and blocks whose free waits in a stream. */
struct gm_account_pool {
    uint64_t handle; /* 0: the device's default pool */
    uint64_t reserved, used;
};

enum { GM_ACCOUNT_POOLS_SHOWN = 8 };

/* The account of one device. All members have 64 bits; sizes are bytes. */
struct gm_account {
    uint64_t taken_ns; /* CLOCK_MONOTONIC; in a trace, since its start; 0: never */
    uint64_t total;
    uint64_t rows[GM_ACCOUNT_ROWS];
    uint64_t suspended; /* counted above, but not on the card: a suspend moved it away */
    uint64_t elsewhere; /* the same of other memory: managed memory that has left the card, for instance */
    uint64_t shared;    /* the card does not say what is this process's: the row contexts is that of all processes */
    /* Parts of rows. */
    uint64_t mapped, pooled; /* of live: mapped by the program (cuMemMap), in its pools */
    uint64_t graphs;         /* of contexts: memory of graphs */
    uint64_t given;          /* of kept: given back after that, for a request that found no memory all the same */
    uint64_t pool_count;     /* pools of the program; the largest of them follow */
    struct gm_account_pool pools[GM_ACCOUNT_POOLS_SHOWN];
};

/* What the card says. */
struct gm_card {
    uint64_t free, total;
    uint64_t own;    /* in use by this process; 0: unknown, or not asked */
    bool alone;      /* with `own`: the card lists one process only */
    uint64_t graphs; /* reserved for graphs */
    uint64_t pools;  /* reserved by all pools of the program */
    uint64_t pool_count;
    struct gm_account_pool shown[GM_ACCOUNT_POOLS_SHOWN]; /* the largest of them, the largest first */
};

/* What was found out about a device. */
struct gm_account_facts {
    uint64_t total, free; /* of the card */
    uint64_t own;         /* what this process has in use; 0: unknown */
    uint64_t reserved;    /* taken from the driver, as gm_stats_take counts it */
    uint64_t live, slack; /* live blocks: as requested, and what they take beyond that */
    uint64_t page_waste;  /* of the driver's pages that small blocks share: what no block takes */
    uint64_t handles;     /* not mapped */
    uint64_t pools;       /* reserved by the program's pools */
    uint64_t suspended;   /* of all these: not on the card, as a suspend moved it away */
    uint64_t in_pools;    /* live blocks in them, with their slack */
};

/* Writes the rows, `suspended` and `elsewhere`. The facts may be of slightly different moments: the row contexts takes
 * the difference. */
void gm_account_settle(struct gm_account *account, const struct gm_account_facts *facts);
/* The sum of the list: account->total, unless the account is damaged. */
uint64_t gm_account_sum(const struct gm_account *account);
/* It was taken, and is whole. */
static inline bool gm_account_is_known(const struct gm_account *account) {
    return account->taken_ns && account->total && gm_account_sum(account) == account->total;
}
/* Bytes that this process has on the card, and if the row contexts is shared, all others, too. */
static inline uint64_t gm_account_used(const struct gm_account *account) {
    return account->total - account->rows[GM_ACCOUNT_FREE] - account->rows[GM_ACCOUNT_OTHERS];
}

/* The fullest account is that of the first request that found no memory (`failed`), else of the moment at which the
 * process had most of the card. True: this one takes its place. */
static inline bool gm_account_is_fuller(const struct gm_account *account, bool failed, const struct gm_account *fullest,
                                        bool fullest_failed) {
    return !fullest_failed && (failed || gm_account_used(account) >= gm_account_used(fullest));
}

/* What an event of a trace says of an account: a row, or one of these. The numbers are part of the trace's format. */
enum gm_account_item {
    GM_ACCOUNT_ITEM_TOTAL = 32, /* the last one of an account */
    GM_ACCOUNT_ITEM_ELSEWHERE,
    GM_ACCOUNT_ITEM_MAPPED,
    GM_ACCOUNT_ITEM_POOLED,
    GM_ACCOUNT_ITEM_GRAPHS,
    GM_ACCOUNT_ITEM_GIVEN,
    GM_ACCOUNT_ITEM_POOLS, /* their number */
    GM_ACCOUNT_ITEM_POOL,  /* reserved bytes of one pool */
    GM_ACCOUNT_ITEM_SUSPENDED,
};
/* Calls write for each item that is not 0, the total at last. `pool` is of GM_ACCOUNT_ITEM_POOL, else zeroed. */
void gm_account_each(const struct gm_account *account,
                     void (*write)(unsigned item, uint64_t value, const struct gm_account_pool *pool, void *arg),
                     void *arg);
/* The reverse: adds an item to an account that was zeroed before the first one. */
void gm_account_add(struct gm_account *account, unsigned item, uint64_t value, const struct gm_account_pool *pool);

/* For keys. */
const char *gm_account_name(enum gm_account_row row);
/* For people, in this account: "rest" where the card does not tell contexts and other processes apart. */
const char *gm_account_label(const struct gm_account *account, enum gm_account_row row);
/* What the row is, in this account. */
const char *gm_account_meaning(const struct gm_account *account, enum gm_account_row row);
/* The row says something here. */
static inline bool gm_account_shows(const struct gm_account *account, enum gm_account_row row) {
    return account->rows[row] || row == GM_ACCOUNT_LIVE || row == GM_ACCOUNT_FREE;
}
#define GM_ACCOUNT_SUSPENDED         "suspended"
#define GM_ACCOUNT_SUSPENDED_MEANING "counted above, but not on the card until the process resumes"
#define GM_ACCOUNT_ELSEWHERE         "elsewhere"
#define GM_ACCOUNT_ELSEWHERE_MEANING "counted above, but not on the card, as managed memory that has left it"

/* Why a request of so many bytes found no memory, in a few words. */
const char *gm_account_reason(const struct gm_account *account, uint64_t requested);

#endif
