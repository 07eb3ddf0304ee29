/* GPUMEM_OOM as text and as steps (oom.h). */
#include "shim/placement/oom.h"
#include "shim/base/error.h"

#include <string.h>

static const char *const names[GM_OOM_STEPS] = {"trim", "split", "host", "managed", "fail"};
static int find_step(const char *word, size_t length) {
    for (int step = 0; step < GM_OOM_STEPS; step++)
        if (strlen(names[step]) == length && !memcmp(names[step], word, length))
            return step;
    return -1;
}

gm_status gm_oom_parse(const char *text, struct gm_oom_chain *out, char *error, size_t error_size) {
    struct gm_oom_chain read = {0};
    unsigned seen = 0;
    for (const char *word = text;;) {
        size_t space = strspn(word, " "), length = strcspn(word += space, ", ");
        const char *end = word + length + strspn(word + length, " ");
        int step = find_step(word, length), shown = length > 40 ? 40 : (int)length;
        if (step < 0 || (*end && *end != ','))
            return gm_refuse(error, error_size, "\"%.*s\" is not a step; accepted: trim, split, host, managed, fail",
                             shown, word);
        if (seen & 1u << step)
            return gm_refuse(error, error_size,
                             "\"%s\" is named twice; accepted: each of trim, split, host, managed, fail once",
                             names[step]);
        if (seen & 1u << GM_OOM_FAIL)
            return gm_refuse(error, error_size, "\"%s\" stands after fail, which ends the steps", names[step]);
        seen |= 1u << step;
        read.steps[read.count++] = (enum gm_oom_step)step;
        if (!*end)
            break;
        word = end + 1;
    }
    *out = read;
    return GM_OK;
}

struct gm_oom_text gm_oom_text(const struct gm_oom_chain *chain) {
    struct gm_oom_text steps = {""};
    size_t length = 0;
    for (unsigned i = 0; i < chain->count; i++)
        length += (size_t)gm_format(steps.text + length, sizeof steps.text - length, "%s%s", i ? "," : "",
                                    names[chain->steps[i]]);
    return steps;
}

bool gm_oom_has(const struct gm_oom_chain *chain, enum gm_oom_step step) {
    for (unsigned i = 0; i < chain->count; i++)
        if (chain->steps[i] == step)
            return true;
    return false;
}
