/* Loads relies_order as a plugin. Arguments: its path, the case. The program itself knows nothing of CUDA. */
#include <dlfcn.h>

#include "program.h"

int main(int count, char **words) {
    EXPECT(count > 2);
    void *plugin = dlopen(words[1], RTLD_NOW);
    if (!plugin)
        fail(dlerror(), __LINE__, 0);
    int (*run)(int, char **) = (int (*)(int, char **))dlsym(plugin, "relies_order");
    EXPECT(run != NULL);
    return run(count - 1, words + 1);
}
