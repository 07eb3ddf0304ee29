/* Any bytes as the value of every option, and as a policy's name and argument. */
#include "policy/policy.h"
#include "shim/base/options.h"

#include "tests/fuzz/replay.h"

#include <string.h>

static void *reserve(size_t bytes) { return NULL; }

static void try_options(const char *text, size_t error_size) {
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        char error[256];
        uint64_t number = UINT64_C(0x5a5a5a5a);
        int result = gm_option_parse(&gm_option_rows[i], text, &number, error, error_size);
        must(result == 0 || result == -1);
        must(result == 0 || number == UINT64_C(0x5a5a5a5a));
        must(result == 0 || !error_size || memchr(error, '\0', error_size));
        if (result == 0 && gm_option_rows[i].type == GM_OPTION_COUNT)
            must(number >= gm_option_rows[i].low && number <= gm_option_rows[i].high);
    }
}

static void try_policy(const char *text) {
    const struct gm_policy *policy = gm_policy_find(text);
    if (!policy)
        return;
    struct gm_policy_setup setup = {.list_length = 10, .list_range = 5, .managed = GM_KIND_MANAGED, .reserve = reserve};
    setup.argument = strchr(text, ':') ? strchr(text, ':') + 1 : NULL;
    gm_status status = gm_policy_open(policy, &setup);
    must(memchr(setup.error, '\0', sizeof setup.error) != NULL);
    must(status == GM_OK || setup.error[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    must(text != NULL);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    try_options(text, size ? data[0] : 0);
    try_options(text, 256);
    try_policy(text);
    free(text);
    return 0;
}
