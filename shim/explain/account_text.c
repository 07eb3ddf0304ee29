/* The account in the lines of an explanation: one for each row, with its parts. */
#include "shim/explain/account_text.h"

#include <string.h>

enum { DETAIL = 320 };

struct detail {
    char text[DETAIL];
    size_t length;
};

static void add(struct detail *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct detail *d, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (d->length < DETAIL)
        d->length += (size_t)gm_vformat(d->text + d->length, DETAIL - d->length, format, args);
    va_end(args);
}

static void add_part(struct detail *d, uint64_t bytes, const char *words) {
    struct gm_size_text size;
    if (bytes)
        add(d, "; %s %s", gm_size_text(&size, bytes), words);
}

static void add_pools(struct detail *d, const struct gm_account *account) {
    struct gm_size_text size[2];
    add(d, " unused");
    for (unsigned i = 0; i < account->pool_count && i < GM_ACCOUNT_POOLS_SHOWN; i++) {
        const struct gm_account_pool *pool = &account->pools[i];
        if (pool->handle)
            add(d, "; pool %p", (void *)(uintptr_t)pool->handle);
        else
            add(d, "; default pool");
        add(d, " has %s, uses %s", gm_size_text(&size[0], pool->reserved), gm_size_text(&size[1], pool->used));
    }
    if (account->pool_count > GM_ACCOUNT_POOLS_SHOWN)
        add(d, "; and %lu more pools", (unsigned long)(account->pool_count - GM_ACCOUNT_POOLS_SHOWN));
}

static void add_detail(struct detail *d, const struct gm_account *account, enum gm_account_row row, uint64_t blocks) {
    switch (row) {
    case GM_ACCOUNT_LIVE:
        add(d, " in %lu %s", (unsigned long)blocks, blocks == 1 ? "block" : "blocks");
        add_part(d, account->pooled, "in pools of the program");
        add_part(d, account->mapped, "mapped by the program");
        break;
    case GM_ACCOUNT_KEPT: add_part(d, account->given, "of it were given back, in vain"); break;
    case GM_ACCOUNT_POOLS: add_pools(d, account); break;
    case GM_ACCOUNT_HANDLES: add(d, " of cuMemCreate, not mapped"); break;
    case GM_ACCOUNT_CONTEXTS:
        add(d, ": %s", gm_account_meaning(account, row));
        add_part(d, account->graphs, "of graphs");
        break;
    case GM_ACCOUNT_OTHERS: add(d, ": %s", gm_account_meaning(account, row)); break;
    default: break;
    }
}

/* Blanks behind a name, up to the next column. */
static const char *padding(const char *name) {
    static const char blanks[] = "            ";
    size_t length = strlen(name);
    return length < sizeof blanks - 2 ? blanks + length : " ";
}

void gm_account_log(struct gm_log_lines *lines, const struct gm_account *account, uint64_t blocks) {
    struct gm_size_text size;
    gm_log_add(lines, "  card          %s, when the request failed:", gm_size_text(&size, account->total));
    for (int row = 0; row < GM_ACCOUNT_ROWS; row++) {
        struct detail d = {.length = 0};
        d.text[0] = '\0';
        bool pools = row == GM_ACCOUNT_POOLS && account->pool_count;
        if (!gm_account_shows(account, (enum gm_account_row)row) && !pools)
            continue;
        add_detail(&d, account, (enum gm_account_row)row, blocks);
        const char *name = gm_account_label(account, (enum gm_account_row)row);
        gm_log_add(lines, "    %s%s%s%s", name, padding(name), gm_size_text(&size, account->rows[row]), d.text);
    }
    if (account->suspended)
        gm_log_add(lines, "    %s%s-%s: %s", GM_ACCOUNT_SUSPENDED, padding(GM_ACCOUNT_SUSPENDED),
                   gm_size_text(&size, account->suspended), GM_ACCOUNT_SUSPENDED_MEANING);
    if (account->elsewhere)
        gm_log_add(lines, "    %s%s-%s: %s", GM_ACCOUNT_ELSEWHERE, padding(GM_ACCOUNT_ELSEWHERE),
                   gm_size_text(&size, account->elsewhere), GM_ACCOUNT_ELSEWHERE_MEANING);
}
