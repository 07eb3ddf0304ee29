/* Any bytes as a plan and as placement rules. */
#include "policy/plan_text.h"
#include "policy/rules.h"
#include "policy/site_key.h"

#include "tests/fuzz/replay.h"

#include <string.h>

static void try_plan(const char *text, size_t size) {
    struct gm_plan_reader reader;
    struct gm_plan_item item;
    uint32_t id = 0, sites = 0;
    gm_plan_open(&reader, text, size, GM_KIND_MANAGED);
    while ((item = gm_plan_next(&reader)).type == GM_PLAN_SITE || item.type == GM_PLAN_OBJECT) {
        if (item.type == GM_PLAN_SITE) {
            must(item.id == ++sites && item.key);
            continue;
        }
        must(item.id > id && item.id <= GM_PLAN_ENTRIES_MAX && item.site <= sites);
        must(item.kind == GM_KIND_NATIVE || item.kind == GM_KIND_CACHE || item.kind == GM_KIND_ASYNC ||
             item.kind == GM_KIND_MANAGED || item.kind == GM_KIND_MANAGED_POOL);
        id = item.id;
    }
    must(item.type == GM_PLAN_END || (reader.error && reader.line));
}

static void try_rules(const char *text, size_t size) {
    enum { ROOM = 64 };
    static struct gm_rule rules[ROOM];
    struct gm_rules_error error = {0};
    struct gm_site_keys keys = {.chain = 1, .module = 1, .count = 1};
    struct gm_request request = {.call = GM_CALL_ALLOC, .size = size, .where = &keys};
    int count = gm_rules_read(text, size, GM_KIND_MANAGED, rules, ROOM, &error);
    must(count >= 0 || (error.line && error.rule && error.text[0] && memchr(error.text, '\0', sizeof error.text)));
    must(count < 0 || count == gm_rules_read(text, size, GM_KIND_MANAGED, NULL, 0, &error));
    unsigned usable = count < 0 ? 0 : count > ROOM ? ROOM : (unsigned)count;
    gm_rules_wants(rules, usable);
    const struct gm_rule *rule = gm_rules_match(rules, usable, &request);
    must(!rule || (rule >= rules && rule < rules + usable));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size ? size : 1); /* nothing behind the end, so that passing it is caught */
    must(text != NULL);
    if (size)
        memcpy(text, data, size);
    try_plan(text, size);
    try_rules(text, size);
    free(text);
    return 0;
}
