/* A library that is preloaded behind gpumem: the process ends a while after gpumem did, and its threads go on. */
#include <unistd.h>

__attribute__((destructor)) static void wait_a_while(void) { sleep(3); }
