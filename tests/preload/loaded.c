/* A library that `loading` loads: calls CUDA while the dynamic linker holds its lock. */
#include "loading.h"

__attribute__((constructor)) static void come_up(void) { use_memory(40000); }
