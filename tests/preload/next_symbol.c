/* Look-ups that must give the same answer as without gpumem: RTLD_NEXT and RTLD_DEFAULT depend on the caller. Built
 * without optimisation, so that no tail call changes the caller. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The program's own definition comes first in the search order. RTLD_NEXT must return the C library's. */
int atoi(const char *text) {
    int (*next)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "atoi");
    return next && next != atoi ? next(text) + 1000 : -1;
}

static const char *module_of(void *function) {
    Dl_info info;
    if (!function || !dladdr(function, &info))
        return "none";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

int main(void) {
    void *self = dlopen(NULL, RTLD_NOW);
    printf("atoi %d\n", atoi("7"));
    printf("next puts %s\n", module_of(dlsym(RTLD_NEXT, "puts")));
    printf("default puts %s\n", module_of(dlsym(RTLD_DEFAULT, "puts")));
    printf("self puts %s\n", module_of(dlsym(self, "puts")));
    printf("curl %s\n", module_of(dlsym(RTLD_DEFAULT, "curl_easy_init")));
    printf("cudnn %s\n", module_of(dlsym(RTLD_DEFAULT, "cudnnCreate")));
    (void)dlerror();
    void *none = dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere");
    printf("unknown %s %s\n", module_of(none), dlerror() ? "error" : "silent");
    printf("ok next_symbol\n");
    return 0;
}
