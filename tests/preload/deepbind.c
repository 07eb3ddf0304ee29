/* A program without CUDA that loads a plugin with RTLD_DEEPBIND: deepbind PLUGIN. */
#include <dlfcn.h>

#include "program.h"

int main(int count, char **argument) {
    EXPECT(count == 2);
    void *plugin = dlopen(argument[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!plugin)
        fail(dlerror(), __LINE__, 0);
    int (*work)(void) = (int (*)(void))dlsym(plugin, "plugin_work");
    EXPECT(work != NULL);
    printf("ok deepbind %d bytes\n", work());
    return 0;
}
