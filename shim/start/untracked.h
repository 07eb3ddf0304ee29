/* What the process holds on a device beyond gpumem's view: contexts, modules, graphs, communication libraries, local
 * memory. It is what the process has in use on the card less what gpumem counts as reserved.
 *
 * It is measured only for a reader: under gpumem run, and with a trace. The moments are the first
 * 32 MiB of reserved bytes, each growth of their peak by an eighth and 32 MiB, a request that found no memory, and the
 * end of a context or of the program; at most ten times a second, never while a stream captures. At the end of the
 * program only the card's management library is queried. */
#ifndef GM_UNTRACKED_H
#define GM_UNTRACKED_H

/* After the trace and the counters are set up. */
void gm_untracked_setup(void);

#endif
