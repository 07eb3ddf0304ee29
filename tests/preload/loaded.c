/* Loaded by loading: calls CUDA while the dynamic linker holds its lock for it. */
#include "loading.h"

__attribute__((constructor)) static void come_up(void) { use_memory(40000); }
