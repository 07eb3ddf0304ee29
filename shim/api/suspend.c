/* The public functions of gpumem.h that suspend and resume. They act on the preloaded library. */
#include "shim/gpumem.h"

#include <dlfcn.h>
#include <string.h>

#include "shim/base/error.h"
#include "shim/base/real_dl.h"
#include "shim/suspend/select.h"
#include "shim/suspend/suspend.h"

enum request { SUSPEND, RESUME, IS_SUSPENDED, PUSH, POP };

/* What one library asks the other one. */
struct asked {
    enum request request;
    const char *keep, *drop, *only, *to; /* RESUME: `keep` is the glob; PUSH: the tag */
    uint64_t patience_ns, flags;
    uint64_t bytes; /* result */
    char why[GM_SUSPEND_WHY];
};

#ifdef GM_SHIM
static int ask(struct asked *asked) {
    struct gm_suspend_wish wish = {.keep = asked->keep,
                                   .drop = asked->drop,
                                   .only = asked->only,
                                   .to = asked->to,
                                   .wait = (asked->flags & GPUMEM_SUSPEND_WAIT) != 0,
                                   .aside = (asked->flags & GPUMEM_SUSPEND_ASIDE) != 0,
                                   .patience_ns = asked->patience_ns};
    switch (asked->request) {
    case SUSPEND: return gm_suspend(&wish, &asked->bytes, asked->why);
    case RESUME: return gm_resume_in_row(asked->keep, &asked->bytes, asked->why);
    case IS_SUSPENDED: return gm_suspend_is_asleep();
    case PUSH: gm_select_push(asked->keep); return GM_OK;
    default: return gm_select_pop() ? GM_OK : GM_INVALID_VALUE;
    }
}

/* Called by a libgpumem-core that the program links. */
GM_PUBLIC int GM_PRELOADED_SUSPEND(void *asked);
GM_PUBLIC int GM_PRELOADED_SUSPEND(void *asked) { return ask(asked); }
#else
static int ask(struct asked *asked) {
    int (*preloaded)(void *) = (int (*)(void *))gm_real_dlsym(RTLD_DEFAULT, GM_NAME_OF(GM_PRELOADED_SUSPEND));
    if (preloaded)
        return preloaded(asked);
    strcpy(asked->why, "libgpumem.so is not preloaded");
    return asked->request == SUSPEND || asked->request == RESUME ? GM_NOT_SUPPORTED : GM_OK;
}
#endif

/* The error text belongs to the library that the program called. */
static enum gpumem_status answer(const struct asked *asked, int status, size_t *bytes) {
    if (status)
        return gm_fail(status, "%s", asked->why);
    if (bytes)
        *bytes = asked->bytes;
    return GPUMEM_OK;
}

GM_PUBLIC enum gpumem_status gpumem_suspend(const struct gpumem_suspend_options *options, size_t *bytes) {
    struct gpumem_suspend_options wanted = {.struct_size = sizeof wanted};
    gm_status status =
        options ? gm_struct_read("gpumem_suspend_options", &wanted, sizeof wanted, options) : (gm_status)GM_OK;
    if (status)
        return (enum gpumem_status)status;
    if (wanted.flags & ~(uint64_t)(GPUMEM_SUSPEND_WAIT | GPUMEM_SUSPEND_ASIDE))
        return gm_fail(GPUMEM_NOT_SUPPORTED, "flags %#llx are not known", (unsigned long long)wanted.flags);
    if (wanted.flags == (GPUMEM_SUSPEND_WAIT | GPUMEM_SUSPEND_ASIDE))
        return gm_fail(GPUMEM_INVALID_VALUE, "no call waits for memory that is set aside: accepted: one of both flags");
    struct asked asked = {.request = SUSPEND,
                          .keep = wanted.keep,
                          .drop = wanted.drop,
                          .only = wanted.only,
                          .to = wanted.to,
                          .patience_ns = wanted.patience_ns,
                          .flags = wanted.flags};
    status = ask(&asked);
    return answer(&asked, status, bytes);
}

GM_PUBLIC enum gpumem_status gpumem_resume(const char *glob, size_t *bytes) {
    struct asked asked = {.request = RESUME, .keep = glob};
    int status = ask(&asked);
    return answer(&asked, status, bytes);
}

GM_PUBLIC int gpumem_suspended(void) {
    struct asked asked = {.request = IS_SUSPENDED};
    return ask(&asked);
}

GM_PUBLIC void gpumem_tag_push(const char *tag) {
    struct asked asked = {.request = PUSH, .keep = tag};
    ask(&asked);
}

GM_PUBLIC enum gpumem_status gpumem_tag_pop(void) {
    struct asked asked = {.request = POP};
    return ask(&asked) ? gm_fail(GPUMEM_INVALID_VALUE, "the thread has no tag") : GPUMEM_OK;
}
