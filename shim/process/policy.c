/* Which policy serves the process. */
#include "shim/process/process.h"

#include <string.h>

#include "shim/base/file.h"
#include "shim/base/options.h"

extern char **environ;

static bool starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

static bool debugger_attached(void) {
    char text[2048], comm[64];
    gm_read_text("/proc/self/status", text, sizeof(text));
    const char *line = strstr(text, "TracerPid:\t");
    if (!line || line[11] == '0')
        return false;
    gm_format(text, sizeof(text), "/proc/%.*s/comm", (int)strcspn(line + 11, "\n"), line + 11);
    gm_read_text(text, comm, sizeof(comm));
    return starts_with(comm, "cuda-gdb");
}

/* Development tools must see the program's own blocks. Returns the name of a tool that is active, NULL: none. */
static const char *active_tool(void) {
    const char *preload = gm_environment_value(environ, "LD_PRELOAD");
    if (*gm_environment_value(environ, "CUDA_INJECTION64_PATH"))
        return "CUDA_INJECTION64_PATH";
    for (char **variable = environ; variable && *variable; variable++)
        if (starts_with(*variable, "NV_SANITIZER") || starts_with(*variable, "NV_COMPUTE_SANITIZER"))
            return "compute-sanitizer";
    if (strstr(preload, "libsanitizer-collection") || strstr(preload, "libInterceptorInjectionTarget"))
        return "compute-sanitizer";
    return debugger_attached() ? "cuda-gdb" : NULL;
}

static bool try_policy(const char *text, const struct gm_policy **policy, uint32_t *wants) {
    const char *colon = strchr(text, ':');
    struct gm_policy_setup setup = {
        .argument = colon ? colon + 1 : NULL,
        .list_length = (unsigned)gm_option_number(GM_OPT_LIST_LENGTH),
        .list_range = (unsigned)gm_option_number(GM_OPT_LIST_RANGE),
        .managed = gm_option_number(GM_OPT_MANAGED) == 1 ? GM_KIND_MANAGED : GM_KIND_MANAGED_POOL,
        .reserve = gm_pages,
        .load = gm_file_load,
        .unload = gm_file_unmap,
    };
    const struct gm_policy *found = gm_policy_find(text);
    char accepted[256] = "";
    const struct gm_option_label name = gm_option_label(GM_OPT_POLICY);

    if (!found) {
        for (size_t i = 0, used = 0; gm_policies[i] && used < sizeof(accepted); i++)
            used += (size_t)gm_format(accepted + used, sizeof(accepted) - used, "%s%s", i ? ", " : "",
                                      gm_policies[i]->name);
        gm_log(GM_LOG_ERROR, "%s=%s is not a policy; accepted: %s; using %s", name.text, text, accepted,
               gm_policies[0]->name);
        return false;
    }
    if (gm_policy_open(found, &setup)) {
        gm_log(GM_LOG_ERROR, "%s=%s: %s; using %s", name.text, text, setup.error, gm_policies[0]->name);
        return false;
    }
    if (setup.error[0])
        gm_log(GM_LOG_WARN, "%s=%s: %s", name.text, text, setup.error);
    *policy = found;
    *wants = setup.wants;
    return true;
}

const struct gm_policy *gm_process_policy(bool *user_named, uint32_t *wants) {
    const struct gm_policy *policy = NULL;
    const char *tool;

    *user_named = gm_option_is_set(GM_OPT_POLICY);
    if (!*user_named && (tool = active_tool()) != NULL) {
        gm_log(GM_LOG_WARN,
               "%s is at work: policy observe, so that it sees the program's own blocks (GPUMEM_POLICY overrides)",
               tool);
        try_policy("observe", &policy, wants);
        return policy;
    }
    if (!try_policy(gm_option_text(GM_OPT_POLICY), &policy, wants))
        try_policy(gm_policies[0]->name, &policy, wants);
    return policy;
}
