/* The driver's checkpoint API (cuCheckpointProcess*, driver 570 and later): it saves all that a process has on its
 * devices, and takes the process off them. Calls of the process that reach the driver wait meanwhile. */
#ifndef GM_CHECKPOINT_H
#define GM_CHECKPOINT_H

#include <stddef.h>

enum gm_checkpoint {
    GM_CHECKPOINT_DONE,
    GM_CHECKPOINT_NOTHING, /* the process is not checkpointed, or this machine has no such API: `why` says it */
    GM_CHECKPOINT_FAILED,  /* `why` has one line, and the process is as before */
};

/* Waits at most `ms` until the driver's calls of the process have returned. A process that is checkpointed stays so:
 * GM_CHECKPOINT_NOTHING. */
enum gm_checkpoint gm_checkpoint_leave(long pid, unsigned ms, char *why, size_t size);
/* A process whose checkpoint was interrupted goes on, too. */
enum gm_checkpoint gm_checkpoint_return(long pid, char *why, size_t size);

#endif
