/* The thread that suspends and resumes the process on a request of gpumem suspend and resume (struct
 * gm_stats_recording), and when it has submitted no work for GPUMEM_SUSPEND_IDLE. It begins with the first context. */
#ifndef GM_START_SUSPENDER_H
#define GM_START_SUSPENDER_H

/* A context is used. Does nothing unless GPUMEM_SUSPEND is on. */
void gm_suspender_begin(void);
void gm_suspender_after_fork(void);

#endif
