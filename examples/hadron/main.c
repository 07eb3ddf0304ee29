/* hadron: many-body correlation functions after memhc. With --model, the eviction experiment without a device. */
#include "examples/hadron/arguments.h"
#include "examples/hadron/main.h"

#include <string.h>

#ifndef HADRON_HAVE_CUDA
int contract_main(int argc, char **argv) { fail_usage("this build has no CUDA: only --model is there"); }
#endif

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--model"))
            return model_main(argc, argv);
    }
    return contract_main(argc, argv);
}
